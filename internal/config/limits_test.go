package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLoadUnreadable: what cannot be read is a Faults too, naming the file.
func TestLoadUnreadable(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "absent.yaml"), dir} {
		_, err := Load(path)
		var faults Faults
		if !errors.As(err, &faults) || len(faults) != 1 || !strings.HasPrefix(err.Error(), path+": cannot be read: ") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(path, []byte("# "+strings.Repeat("x", 5<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || err.Error() != path+":1: larger than 4 MiB: not a configuration" {
		t.Errorf("got %v", err)
	}
}

// TestAliasBomb: aliases of a long list end after a bounded number of values.
func TestAliasBomb(t *testing.T) {
	element := "{provider: a}, {x: 1, y: 2}, 7, "
	text := "providers: [{name: a, url: \"http://10.0.0.1\"}]\nroutes:\n  - {model: m, targets: &t [" + strings.Repeat(element, 1000) + "]}\n" +
		strings.Repeat("  - {model: m, targets: *t}\n", 1000) // 13 million keys and values
	_, err := Parse("bomb.yaml", []byte(text))
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != maxFaults+1 {
		t.Fatalf("%d faults: %v", len(faults), err)
	}
	d := decoder{visited: maxNodes, places: map[string]place{}}
	d.tooMany(field{path: "x"}, 3)
	d.tooMany(field{path: "x"}, 4)
	if len(d.faults.kept) != 1 {
		t.Errorf("told %d times, want once", len(d.faults.kept))
	}
}

// TestDeep: nesting without end is refused, not followed.
func TestDeep(t *testing.T) {
	for _, open := range []string{"[", "{a: ", "- ", "? "} {
		if _, err := Parse("deep.yaml", []byte(strings.Repeat(open, 100_000))); err == nil {
			t.Errorf("%q accepted", open)
		}
	}
}

// TestMostFaults: of very many faults the first by line are told, and how many more there are.
func TestMostFaults(t *testing.T) {
	_, err := Parse("f", []byte(strings.Repeat("x: 1\n", 1000)))
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != maxFaults+1 {
		t.Fatalf("%d faults", len(faults))
	}
	// 1000 unknown keys, and providers is required: that one is at line 1.
	for i, f := range faults[1:maxFaults] {
		if f.Line != i+1 {
			t.Fatalf("fault %d is of line %d", i+1, f.Line)
		}
	}
	if last := faults[maxFaults]; last.Msg != "901 more faults from here on" || last.Line < 99 {
		t.Errorf("last: %v", last)
	}
}

// TestMessagesAreBounded: a value is not repeated at length.
func TestMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("é", 50_000)
	_, err := Parse("f", []byte("\""+long+"\": 1\nlog: {level: \""+long+"\"}\nlatency: {idle: \""+long+"\"}\nlimits: {body: \""+long+"\"}\n"+
		"providers: [{name: \""+long+"\", url: \"http://"+long+"\", slug: \""+long+"\"}]\nretry: {max_retries: "+strings.Repeat("9", 50_000)+"}\n"))
	for _, line := range strings.Split(err.Error(), "\n") {
		if len(line) > 600 {
			t.Errorf("%d bytes: %.100s", len(line), line)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good/*.yaml"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Parse("f", data)
		if err == nil {
			if cfg == nil || len(cfg.Providers) == 0 {
				t.Fatal("accepted without a provider")
			}
			for _, r := range cfg.Routes {
				for _, list := range r.Lists() {
					for _, target := range list {
						if target.Model == "" {
							t.Fatalf("incomplete target %+v", target)
						}
					}
				}
			}
			for _, target := range cfg.Targets() {
				if target.ID == "" || cfg.Providers[target.ProviderIndex].Name != target.Provider {
					t.Fatalf("incomplete target %+v", target)
				}
			}
			for _, p := range cfg.Providers {
				if p.Host == "" || p.Hostname == "" || p.Port == 0 || strings.HasSuffix(p.Prefix, "/") {
					t.Fatalf("incomplete provider %+v", p)
				}
			}
			cfg.Chained()
			return
		}
		var faults Faults
		if !errors.As(err, &faults) || cfg != nil || len(faults) == 0 || len(faults) > maxFaults+1 {
			t.Fatalf("not a bounded Faults: %v", err)
		}
		last := 0
		for _, fault := range faults {
			if fault.Line < 1 || fault.Line < last || fault.Msg == "" || strings.Contains(fault.String(), "\n") {
				t.Fatalf("bad fault %q", fault)
			}
			last = fault.Line
		}
	})
}
