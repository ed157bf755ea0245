package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// parseFormat checks text that has a form, and brings it to the one that the program uses.
func parseFormat(s, format string) (any, error) {
	switch format {
	case "name":
		return s, checkName(s)
	case "slug":
		return s, checkSlug(s)
	case "id":
		return s, checkID(s)
	case "header":
		return header(s)
	case "env":
		return s, checkEnv(s)
	case "file":
		return s, checkFile(s)
	case "host":
		return s, checkHost(s)
	case "caller-header":
		return checkHeader(s)
	case "path":
		return s, checkPath(s)
	case "hostport|off":
		if s == Off {
			return s, nil
		}
	}
	return hostPort(s)
}

// maxName bounds names of providers, models and clusters, in bytes: they become label
// values, header values and parts of Envoy's names.
const maxName = 256

func checkName(s string) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case len(s) > maxName:
		return fmt.Errorf("must be at most %d bytes, not %d", maxName, len(s))
	case strings.TrimSpace(s) != s:
		return fmt.Errorf("must not begin or end with white space: %s", quote(s))
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("must not contain control characters: %s", quote(s))
	}
	return nil
}

// maxSlug is the length of a slug at most.
const maxSlug = 63

var slugForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

func checkSlug(s string) error {
	if len(s) > maxSlug || !slugForm.MatchString(s) {
		return fmt.Errorf("must be 1 to %d of a-z, 0-9 and -, not beginning with -, not %s", maxSlug, quote(s))
	}
	return nil
}

// Slug makes a slug from a name: lower case, every run of characters other than a-z
// and 0-9 becomes one -, none at the ends, cut to 63. It may be "".
func Slug(name string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(name) {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('-')
		}
		gap = false
		b.WriteRune(r)
	}
	s := b.String()
	return s[:min(len(s), maxSlug)]
}

// maxID is the length of a target id at most, where one is set.
const maxID = 128

var idForm = regexp.MustCompile(`^[A-Za-z0-9._:/*-]+$`)

func checkID(s string) error {
	if len(s) > maxID || !idForm.MatchString(s) {
		return fmt.Errorf("must be 1 to %d of letters, digits and . _ : / * -, not %s", maxID, quote(s))
	}
	return nil
}

// hostPort checks the address of a listener and gives it with an IP address in it.
// Port 0 is left to the system.
func hostPort(s string) (string, error) {
	host, portText, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("must be host:port, such as 127.0.0.1:9090 or [::1]:9090, not %s", quote(s))
	}
	port, err := parsePort(portText)
	if err != nil {
		return "", err
	}
	if host == "" {
		return "", fmt.Errorf("has no host: write 0.0.0.0:%d for all addresses, or 127.0.0.1:%d for this machine only", port, port)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return "", fmt.Errorf("host must be an IP address, not %s", quote(host))
	}
	return netip.AddrPortFrom(ip, port).String(), nil
}

func parsePort(s string) (uint16, error) {
	port, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("port must be a number up to 65535, not %s", quote(s))
	}
	return uint16(port), nil
}

// maxSocketPath is what fits into sockaddr_un on Linux, with its final zero byte.
const maxSocketPath = 107

// parseGRPC reads the address of the listener for Envoy.
func parseGRPC(n *yaml.Node, _ reflect.StructTag) (any, error) {
	if !isText(n) {
		return nil, fmt.Errorf("must be unix:///path or tcp://host:port, not %s", describe(n))
	}
	if p, ok := strings.CutPrefix(n.Value, "unix://"); ok {
		switch {
		case !path.IsAbs(p):
			return nil, fmt.Errorf("the path of the socket must be absolute, as in unix:///run/pointsman/grpc.sock, not %s", quote(n.Value))
		case strings.HasSuffix(p, "/"), strings.ContainsFunc(p, unicode.IsControl):
			return nil, fmt.Errorf("the path must name a socket, not %s", quote(n.Value))
		case len(path.Clean(p)) > maxSocketPath:
			return nil, fmt.Errorf("the path of a socket has at most %d bytes, not %d", maxSocketPath, len(path.Clean(p)))
		}
		return Address{Network: "unix", Addr: path.Clean(p)}, nil
	}
	text, ok := strings.CutPrefix(n.Value, "tcp://")
	if !ok {
		return nil, fmt.Errorf("must be unix:///path or tcp://host:port, not %s", quote(n.Value))
	}
	addr, err := hostPort(text)
	if err != nil {
		return nil, err
	}
	switch ap := netip.MustParseAddrPort(addr); {
	case ap.Port() == 0:
		return nil, errors.New("port must be from 1 to 65535, not 0: Envoy has to know it")
	case !ap.Addr().IsLoopback():
		return nil, fmt.Errorf("%s is not a loopback address: that needs TLS with client certificates, which is not available yet; use unix:///path, or tcp://127.0.0.1:%d", ap.Addr(), ap.Port())
	}
	return Address{Network: "tcp", Addr: addr}, nil
}
