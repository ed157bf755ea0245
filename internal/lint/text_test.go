package lint

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// forbidden is what no line of the repository may hold. The patterns are written so
// that they do not match themselves.
func forbidden() []pattern {
	return []pattern{
		{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`), "a note instead of the work: do it, or file an issue"},
		{
			regexp.MustCompile(`\b(proxy|sum)\.golang\.org\b|\b(pypi|pythonhosted|npmjs|crates)\.(org|com|io)\b|\bdeb\.debian\.org\b`),
			"a registry's host: the package clients know theirs",
		},
		{
			regexp.MustCompile(`(^|[^\w.$}~-])/(work|root|home|tmp)(/|["'\s]|$)`),
			"a path of one machine",
		},
	}
}

type pattern struct {
	re  *regexp.Regexp
	why string
}

func TestForbiddenText(t *testing.T) {
	patterns := forbidden()
	for _, f := range textFiles(t) {
		for _, fault := range forbiddenText(f, patterns) {
			t.Error(fault)
		}
	}
}

func forbiddenText(f textFile, patterns []pattern) []string {
	var faults []string
	number := 0
	for line := range bytes.Lines(f.text) {
		number++
		for _, p := range patterns {
			if hit := p.re.Find(line); hit != nil {
				faults = append(faults, fmt.Sprintf("%s:%d: %q: %s", f.name, number, bytes.TrimSpace(hit), p.why))
			}
		}
	}
	return faults
}

var (
	// A rule of the Makefile, and one with its line of help.
	makeRule = regexp.MustCompile(`^([a-zA-Z][\w-]*):($|[^=])`)
	makeHelp = regexp.MustCompile(`## \S`)

	// Markdown: an inline link's target, and a reference definition's.
	inlineLink = regexp.MustCompile(`\]\(<?([^)\s>]+)>?[^)]*\)`)
	refLink    = regexp.MustCompile(`^\s*\[[^\]]+\]:\s+(\S+)`)
)

func TestMakefileHelp(t *testing.T) {
	for _, fault := range helplessTargets(readText(t, "Makefile")) {
		t.Error(fault)
	}
}

func helplessTargets(makefile string) []string {
	var faults []string
	for line := range strings.Lines(makefile) {
		m := makeRule.FindStringSubmatch(line)
		if m != nil && !makeHelp.MatchString(line) {
			faults = append(faults, fmt.Sprintf("Makefile: target %s has no line of help", m[1]))
		}
	}
	return faults
}

// The README tells a newcomer the two commands that show whether it works.
func TestReadmeCommands(t *testing.T) {
	readme := readText(t, "README.md")
	for _, command := range []string{"make demo", "make test"} {
		if !strings.Contains(readme, command) {
			t.Errorf("README.md does not mention %q", command)
		}
	}
}

func TestMarkdownLinks(t *testing.T) {
	for _, f := range textFiles(t) {
		if path.Ext(f.name) != ".md" {
			continue
		}
		for _, target := range relativeLinks(string(f.text)) {
			file := path.Join(path.Dir(f.name), target)
			if !filepath.IsLocal(filepath.FromSlash(file)) {
				t.Errorf("%s: link %s leads out of the repository", f.name, target)
			} else if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
				t.Errorf("%s: link %s leads nowhere", f.name, target)
			}
		}
	}
}

// relativeLinks returns the files that a Markdown text links to, without fragments.
// Code blocks hold no links.
func relativeLinks(text string) []string {
	var links []string
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if fenced {
			continue
		}
		for _, m := range slices.Concat(inlineLink.FindAllStringSubmatch(line, -1), refLink.FindAllStringSubmatch(line, -1)) {
			u, err := url.Parse(m[1])
			if err == nil && u.Scheme == "" && u.Host == "" && u.Path != "" {
				links = append(links, u.Path)
			}
		}
	}
	return links
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestForbiddenTextRule(t *testing.T) {
	text := strings.Join([]string{
		"// TO" + "DO: later",
		"ctx := context.TO" + "DO()",
		"proxy." + "golang.org, but golang.org/x/net is a module",
		"cd /wo" + "rk/main",
		"unix:///tm" + "p/a.sock",
		"$HOME/wo" + "rk/ and ~/tm" + "p/ and docs/tmp/x and /v1/models are fine",
	}, "\n")
	var got []string
	for _, fault := range forbiddenText(textFile{"a.md", []byte(text)}, forbidden()) {
		got = append(got, strings.Join(strings.SplitN(fault, ":", 3)[:2], ":"))
	}
	want := []string{"a.md:1", "a.md:2", "a.md:3", "a.md:4", "a.md:5"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

func TestHelplessTargets(t *testing.T) {
	const makefile = "VAR := x\n.PHONY: a\na: b ## does a\n\tcmd: y\nb:\n\tc\n"
	want := []string{"Makefile: target b has no line of help"}
	if diff := cmp.Diff(want, helplessTargets(makefile)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestRelativeLinks(t *testing.T) {
	const text = "[a](docs/a.md#top) ![b](b.png \"title\") [c](https://example.com/c) [d](#here)\n" +
		"```\n[no](no.md)\n```\n[ref]: ../e.md\n"
	want := []string{"docs/a.md", "b.png", "../e.md"}
	if diff := cmp.Diff(want, relativeLinks(text)); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}
