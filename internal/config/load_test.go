package config

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What is no file is refused at once, and not waited for.
func TestReadOnlyFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A limit that limits nobody is told.
func TestAllowWithoutIdentity(t *testing.T) {
	cfg, err := Parse("f.yaml", []byte("providers:\n  - {name: a, url: \"http://127.0.0.1:1\"}\n"+
		"routes:\n  - {model: m, targets: [{provider: a}]}\ncallers: {allow: [{name: b, providers: [a]}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(cfg.Warnings, "\n"); !strings.Contains(got, "f.yaml:5: callers.allow: limits nobody") {
		t.Errorf("warnings %q", got)
	}
}
