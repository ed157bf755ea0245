package upstream

import (
	"fmt"
	"os"

	"github.com/pointsman/pointsman/internal/config"
)

// checkTLSFiles tells which files of TLS towards providers cannot be read. Envoy reads
// them itself; one that it cannot read costs it the cluster.
func checkTLSFiles(cfg *config.Config) (faults config.Faults) {
	for i := range cfg.Providers {
		t := cfg.Providers[i].TLS
		if t == nil || !cfg.Providers[i].HTTPS {
			continue
		}
		for _, f := range []struct{ key, path string }{{"ca", t.CA}, {"cert", t.Cert}, {"key", t.Key}} {
			if f.path == "" {
				continue
			}
			file, err := os.Open(f.path)
			if err != nil {
				faults = append(faults, config.Fault{
					File: cfg.Path, Line: t.Line, Field: fmt.Sprintf("providers[%d].tls.%s", i, f.key), Msg: fmt.Sprintf("cannot be read: %v", err),
				})
				continue
			}
			_ = file.Close() // nothing was written
		}
	}
	return faults
}

// SystemAuthorities gives the file with the authorities that the system trusts, "" if none
// is where it usually is.
func SystemAuthorities() string {
	paths := []string{
		os.Getenv("SSL_CERT_FILE"),
		"/etc/ssl/certs/ca-certificates.crt", // Debian, Alpine, Envoy's images
		"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora, RHEL
		"/etc/ssl/ca-bundle.pem",             // openSUSE
		"/etc/ssl/cert.pem",                  // Alpine, macOS
	}
	for _, path := range paths {
		if info, err := os.Stat(path); path != "" && err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
