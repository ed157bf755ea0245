package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// parseURL reads the base address of a provider: the host as it stands there,
// and the IP address with port. In this version it is http:// with an IP
// address and no path.
//
// A message never repeats the part of a URL that might be a password.
func parseURL(s string) (host, addr string, err error) {
	u, err := url.Parse(s)
	switch {
	case strings.Contains(s, "@"):
		return "", "", errors.New("must not contain a user or password")
	case err != nil, s != strings.TrimSpace(s), u.Opaque != "":
		return "", "", fmt.Errorf("not a URL such as http://10.0.0.11:8000: %s", quote(s))
	case u.Scheme == "https":
		return "", "", errors.New("https is not supported yet: use http:// with an IP address")
	case u.Scheme != "http":
		return "", "", fmt.Errorf("must begin with http://, not %s", quote(s))
	case u.RawQuery != "" || u.ForceQuery:
		return "", "", errors.New("must not contain a query (?...)")
	case u.Fragment != "" || strings.Contains(s, "#"):
		return "", "", errors.New("must not contain a fragment (#...)")
	case u.Host == "":
		return "", "", errors.New("has no host: write it as http://10.0.0.11:8000")
	case u.Path != "" && u.Path != "/":
		return "", "", fmt.Errorf("a path (%s) is not supported yet: end the URL after the port", quote(u.Path))
	}
	port := uint16(80)
	if text := u.Port(); text != "" || strings.HasSuffix(u.Host, ":") {
		if port, err = parsePort(text); err != nil || port == 0 {
			return "", "", fmt.Errorf("port must be a number from 1 to 65535, not %s", quote(text))
		}
	}
	ip, err := netip.ParseAddr(u.Hostname())
	switch {
	case err != nil && strings.Trim(u.Hostname(), "0123456789.") == "":
		return "", "", fmt.Errorf("%s is not an IP address", quote(u.Hostname()))
	case err != nil:
		return "", "", fmt.Errorf("the host must be an IP address: names such as %s are not supported yet", quote(u.Hostname()))
	case ip.Zone() != "":
		return "", "", fmt.Errorf("an IPv6 zone (%s) is not supported", quote(ip.Zone()))
	case ip.Is6() && !strings.HasPrefix(u.Host, "["):
		return "", "", errors.New("an IPv6 address stands in brackets: http://[::1]:8000")
	case ip.IsMulticast():
		return "", "", fmt.Errorf("%s is a multicast address", ip)
	}
	return u.Host, netip.AddrPortFrom(ip, port).String(), nil
}
