package config

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// The messages of this file never repeat what may be a key that was put where its
// reference belongs.

var envForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

func checkEnv(s string) error {
	if !envForm.MatchString(s) {
		return errors.New("must be the name of an environment variable, not the key itself: letters, digits and _, at most 128")
	}
	return nil
}

// maxPath is the length of a file's path at most, as the kernel has it.
const maxPath = 4095

func checkFile(s string) error {
	switch {
	case s == "":
		return errors.New("must be the path of a file")
	case len(s) > maxPath, strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("must be the path of a file, not its content")
	}
	return nil
}

// parseCredentials reads the one word that may stand in the place of a reference.
func parseCredentials(n *yaml.Node, _ reflect.StructTag) (any, error) {
	if n.Value == passthroughWord && isText(n) {
		return Credentials{Passthrough: true}, nil
	}
	return nil, errors.New("must be {env: NAME}, {file: path} or passthrough; the key itself does not stand in the file")
}

// parseCIDR reads a range of addresses; a lone address is a range of one.
func parseCIDR(n *yaml.Node, _ reflect.StructTag) (any, error) {
	if isText(n) {
		if ip, err := netip.ParseAddr(n.Value); err == nil && ip.Zone() == "" {
			ip = ip.Unmap()
			return netip.PrefixFrom(ip, ip.BitLen()), nil
		}
		if p, err := netip.ParsePrefix(n.Value); err == nil && !p.Addr().Is4In6() {
			return p.Masked(), nil
		}
	}
	return nil, fmt.Errorf("must be a range of addresses such as 10.0.0.0/8 or fd00::/8, not %s", describe(n))
}

var (
	hostForm   = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*$`)
	headerForm = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")
	pathForm   = regexp.MustCompile(`^/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*$`)
)

// maxHost is the length of a host's name at most.
const maxHost = 253

// checkHost takes a name or an IP address.
func checkHost(s string) error {
	if _, err := netip.ParseAddr(s); err == nil {
		return nil
	}
	if len(s) > maxHost || !hostForm.MatchString(s) {
		return fmt.Errorf("must be the name of a host, not %s", quote(s))
	}
	return nil
}

// takenHeaders mean something to the proxy or to pointsman already.
var takenHeaders = []string{"host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "authorization", "x-api-key"}

// checkHeader gives the name of a header in lower case, as Envoy has it.
func checkHeader(s string) (any, error) {
	name := strings.ToLower(s)
	if !headerForm.MatchString(s) {
		return nil, fmt.Errorf("must be the name of a header, not %s", quote(s))
	}
	for _, taken := range takenHeaders {
		if name == taken {
			return nil, fmt.Errorf("the header %s means something else already", name)
		}
	}
	if strings.HasPrefix(name, "x-pointsman-") || strings.HasPrefix(name, "x-envoy-") {
		return nil, fmt.Errorf("a header %s is removed from what clients send: choose another name", quote(name))
	}
	return name, nil
}

func checkPath(s string) error {
	if !pathForm.MatchString(s) {
		return fmt.Errorf("must be the beginning of a path, as /v1/files, not %s", quote(s))
	}
	return nil
}
