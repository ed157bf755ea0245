package app

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every message that an operator may find in the log is in the manual, and every series.
func TestManualIsComplete(t *testing.T) {
	manual, err := os.ReadFile(filepath.FromSlash("../../docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile("(?:Debug|Info|Warn|Error|event|line)\\(\"([^\"]+)\"")
	messages := map[string]string{} // message -> file
	for _, dir := range []string{".", "../logs", "../outcome", "../upstream", "../../extproc", "../../xds"} {
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			code, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(code)) {
				if m := said.FindStringSubmatch(line); m != nil && !strings.Contains(line, "status.Error(") {
					messages[m[1]] = file
				}
			}
		}
	}
	if len(messages) < 20 {
		t.Errorf("only %d messages found: the pattern is wrong", len(messages))
	}
	for message, file := range messages {
		if !strings.Contains(string(manual), "`"+message+"`") {
			t.Errorf("docs/operations.md does not tell %q (%s)", message, file)
		}
	}

	w := newWorld(t)
	w.write(external + twoTargets)
	w.start()
	_, body := w.get("/metrics")
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (pointsman_\S+)`).FindAllStringSubmatch(body, -1) {
		if !strings.Contains(string(manual), "`"+m[1]+"`") && !strings.Contains(string(manual), "`"+m[1]+"{") {
			t.Errorf("docs/operations.md does not tell %s", m[1])
		}
	}
}
