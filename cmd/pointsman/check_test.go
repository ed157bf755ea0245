package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// check runs pointsman check on a file and gives its output and the error's text.
func check(t *testing.T, text string, flags ...string) (out, failed string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	c := command(&stdout, &stderr)
	c.SetArgs(append([]string{"check", "--config", path}, flags...))
	if err := c.Execute(); err != nil {
		failed = err.Error()
	}
	return strings.ReplaceAll(stdout.String()+stderr.String(), path, "f.yaml"), strings.ReplaceAll(failed, path, "f.yaml")
}

// TestCheckSecrets: keys that are missing are faults, and with --no-secrets warnings. No name is resolved.
func TestCheckSecrets(t *testing.T) {
	const text = `providers:
  - {name: a, url: "https://does-not-exist.invalid/v1", credentials: {env: POINTSMAN_TEST_ABSENT}}
routes: [{model: m, targets: [{provider: a}]}]
listen: {admin: "127.0.0.1:9099"}
`
	const missing = "f.yaml:2: providers[0].credentials: the environment variable POINTSMAN_TEST_ABSENT is not set"
	if out, failed := check(t, text); out != "" || failed != missing {
		t.Errorf("%q, %q", out, failed)
	}
	if out, failed := check(t, text, "--no-secrets"); out != "warning: "+missing+"\n" || failed != "" {
		t.Errorf("%q, %q", out, failed)
	}
	t.Setenv("POINTSMAN_TEST_ABSENT", "sk-there")
	if out, failed := check(t, text); out != "" || failed != "" {
		t.Errorf("%q, %q", out, failed)
	}
	if _, failed := check(t, "x: 1\n", "--no-secrets"); !strings.Contains(failed, "unknown key") {
		t.Errorf("%q", failed)
	}
}
