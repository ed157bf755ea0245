package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// address is what the base address of a provider says.
type address struct {
	https          bool
	host, hostname string
	port           uint16
	prefix         string
	addr           string // IP:port, "" for a name
}

// parseURL reads the base address of a provider.
//
// A message never repeats the part of a URL that might be a password.
func parseURL(s string) (address, error) {
	u, err := url.Parse(s)
	switch {
	case strings.Contains(s, "@"):
		return address{}, errors.New("must not contain a user or password")
	case err != nil, s != strings.TrimSpace(s), u.Opaque != "":
		return address{}, fmt.Errorf("not a URL such as http://10.0.0.11:8000: %s", quote(s))
	case u.Scheme != "http" && u.Scheme != "https":
		return address{}, fmt.Errorf("must begin with http:// or https://, not %s", quote(s))
	case u.RawQuery != "" || u.ForceQuery:
		return address{}, errors.New("must not contain a query (?...)")
	case u.Fragment != "" || strings.Contains(s, "#"):
		return address{}, errors.New("must not contain a fragment (#...)")
	case u.Host == "":
		return address{}, errors.New("has no host: write it as http://10.0.0.11:8000")
	}
	a := address{https: u.Scheme == "https", host: u.Host, hostname: u.Hostname(), port: 80}
	if a.https {
		a.port = 443
	}
	if text := u.Port(); text != "" || strings.HasSuffix(u.Host, ":") {
		if a.port, err = parsePort(text); err != nil || a.port == 0 {
			return address{}, fmt.Errorf("port must be a number from 1 to 65535, not %s", quote(text))
		}
	}
	if a.prefix, err = pathPrefix(u); err != nil {
		return address{}, err
	}
	ip, err := netip.ParseAddr(a.hostname)
	switch {
	case err != nil && strings.Trim(a.hostname, "0123456789.") == "":
		return address{}, fmt.Errorf("%s is not an IP address", quote(a.hostname))
	case err != nil:
		return a, checkHost(a.hostname)
	case ip.Zone() != "":
		return address{}, fmt.Errorf("an IPv6 zone (%s) is not supported", quote(ip.Zone()))
	case ip.Is6() && !strings.HasPrefix(u.Host, "["):
		return address{}, errors.New("an IPv6 address stands in brackets: http://[::1]:8000")
	case ip.IsMulticast():
		return address{}, fmt.Errorf("%s is a multicast address", ip)
	}
	a.addr = netip.AddrPortFrom(ip, a.port).String()
	return a, nil
}

// pathPrefix is what stands before the path of every request: the path of the URL
// without the slash at its end.
func pathPrefix(u *url.URL) (string, error) {
	prefix := strings.TrimSuffix(u.EscapedPath(), "/")
	if prefix == "" {
		return "", nil
	}
	segments := strings.Split(prefix[1:], "/")
	if slices.Contains(segments, "") || slices.Contains(segments, ".") || slices.Contains(segments, "..") || checkPath(prefix) != nil {
		return "", fmt.Errorf("the path %s is not one that can be put before others", quote(u.Path))
	}
	return prefix, nil
}
