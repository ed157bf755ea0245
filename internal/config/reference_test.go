package config

import (
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// eachKey calls f for every key of the file, with its path, in the order of the types.
func eachKey(t reflect.Type, path string, f func(path string, sf reflect.StructField)) {
	d := &decoder{}
	for _, sf := range d.shape(t).fields {
		at := path + sf.Tag.Get("yaml")
		f(at, sf)
		inner := sf.Type
		if inner.Kind() == reflect.Slice {
			inner, at = inner.Elem(), at+"[]"
		}
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[Address]() {
			eachKey(inner, at+".", f)
		}
	}
}

// inheritedKey tells whether a key is in a block of a route or group that inherits from
// the block of that name in the root.
func inheritedKey(path string) bool {
	pool, rest, _ := strings.Cut(path, ".")
	return (pool == "routes[]" || pool == "groups[]") && strings.Contains(rest, ".") && !strings.Contains(rest, "[]")
}

// TestTags: the tags of every key say all that the decoder and the reference need,
// and every default is a value that the file could have.
func TestTags(t *testing.T) {
	eachKey(reflect.TypeFor[Config](), "", func(path string, sf reflect.StructField) {
		tag := sf.Tag
		block := sf.Type.Kind() == reflect.Struct && scalarParser(sf.Type, tag) == nil || sf.Type.Kind() == reflect.Pointer ||
			sf.Type.Kind() == reflect.Slice && sf.Type.Elem().Kind() == reflect.Struct && scalarParser(sf.Type.Elem(), tag) == nil
		if !block && tag.Get("doc") == "" {
			t.Errorf("%s: no doc", path)
		}
		inherited := inheritedKey(path)
		ownDefault := strings.HasPrefix(path, "providers[].") || strings.Contains(path, "targets[].") || strings.HasPrefix(path, "groups[].") ||
			strings.HasPrefix(path, "callers.identity.") || strings.Contains(path, "request_secs.") || tag.Get("required") != ""
		if !block && tag.Get("default") == "" && !inherited && !ownDefault {
			t.Errorf("%s: no default", path)
		}
		switch sf.Type.Kind() {
		case reflect.Int, reflect.Int64, reflect.Float64:
			if tag.Get("min") == "" || tag.Get("max") == "" {
				t.Errorf("%s: no bounds", path)
			}
		}
		for _, bound := range []string{"min", "max"} {
			text := tag.Get(bound)
			switch {
			case text == "":
			case sf.Type == reflect.TypeFor[time.Duration]() && tag.Get("unit") == "":
				if _, err := time.ParseDuration(text); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			case tag.Get("unit") == "bytes":
				if _, err := size(text); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			default:
				if !real.MatchString(text) {
					t.Errorf("%s: %s %q", path, bound, text)
				}
			}
		}
		if text := tag.Get("default"); text != "" {
			value := minimal
			if block, key, ok := strings.Cut(path, "."); ok && !strings.Contains(path, "[]") {
				value += block + ": {" + key + ": " + text + "}\n"
			}
			if _, err := Parse("f", []byte(value)); err != nil {
				t.Errorf("%s: the default is refused: %v", path, err)
			}
		}
		if block := tag.Get("inherit"); block != "" {
			d := &decoder{}
			from, ok := d.shape(reflect.TypeFor[Config]()).byKey[block]
			for _, key := range d.shape(sf.Type).fields {
				if same, known := d.shape(from.Type).byKey[key.Tag.Get("yaml")]; !ok || !known || same.Type != key.Type {
					t.Errorf("%s.%s cannot be inherited from %s", path, key.Tag.Get("yaml"), block)
				}
			}
		}
	})
}

const (
	referenceFile  = "../../docs/configuration.md"
	referenceBegin = "<!-- The reference is made from the types: go test ./internal/config -run Reference -update -->\n"
	referenceEnd   = "<!-- End of the reference. -->\n"
)

// TestReference: docs/configuration.md names every key, with type, default and meaning, as the types have it.
func TestReference(t *testing.T) {
	data, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), referenceBegin)
	_, after, ok2 := strings.Cut(rest, referenceEnd)
	if !ok || !ok2 {
		t.Fatalf("%s: no place for the reference", referenceFile)
	}
	golden(t, referenceFile, before+referenceBegin+reference()+referenceEnd+after)
}

// TestDocumentedFiles: the whole files shown in the documents are accepted, without a warning.
func TestDocumentedFiles(t *testing.T) {
	for file, least := range map[string]int{referenceFile: 2, "../../docs/providers.md": 5} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		whole := 0
		for _, part := range strings.Split(string(data), "```yaml\n")[1:] {
			text, _, _ := strings.Cut(part, "```")
			if !strings.Contains(text, "providers:") || !strings.Contains(text, "routes:") {
				continue // a fragment
			}
			whole++
			if cfg := mustParse(t, text); len(cfg.Warnings) > 0 {
				t.Errorf("%s: warnings %q of\n%s", file, cfg.Warnings, text)
			}
		}
		if whole < least {
			t.Errorf("%s: %d whole files found", file, whole)
		}
	}
}

// reference writes the tables of docs/configuration.md.
func reference() string {
	var blocks []string
	rows := map[string]string{}
	eachKey(reflect.TypeFor[Config](), "", func(path string, sf reflect.StructField) {
		if sf.Tag.Get("doc") == "" {
			return // a block: its keys follow
		}
		block := path[:max(strings.LastIndex(path, "."), 0)]
		if strings.HasSuffix(block, "request_secs") {
			return // told at the key itself
		}
		if inheritedKey(path) {
			block, _, _ = strings.Cut(block, ".")
		}
		if _, ok := rows[block]; !ok {
			blocks = append(blocks, block)
		}
		doc := strings.NewReplacer("|", "\\|", "<", "\\<").Replace(sf.Tag.Get("doc"))
		rows[block] += fmt.Sprintf("| `%s` | %s | %s | %s |\n", strings.TrimPrefix(strings.TrimPrefix(path, block), "."), typeWords(sf), defaultWords(path, sf), doc)
	})
	var b strings.Builder
	for _, block := range blocks {
		heading := "`" + block + "`"
		if block == "" {
			heading = "At the top level"
		}
		fmt.Fprintf(&b, "\n### %s\n\n| key | type | default | meaning |\n|---|---|---|---|\n%s", heading, rows[block])
	}
	return b.String() + "\n"
}

func typeWords(sf reflect.StructField) string {
	tag := sf.Tag
	bounds := ""
	if tag.Get("max") != "" {
		bounds = ", " + tag.Get("min") + " to " + tag.Get("max")
	}
	enum := ""
	if tag.Get("enum") != "" {
		enum = "`" + strings.Join(choices(tag.Get("enum")), "`, `") + "`"
	}
	switch {
	case sf.Type == reflect.TypeFor[PerKind](), tag.Get("unit") == "s":
		if bounds == "" {
			bounds = ", " + reflect.TypeFor[PerKind]().Field(0).Tag.Get("min") + " to " + reflect.TypeFor[PerKind]().Field(0).Tag.Get("max")
		}
		return "seconds" + bounds
	case tag.Get("unit") == "ms":
		return "milliseconds" + bounds
	case tag.Get("unit") == "bytes":
		return "size" + bounds
	case tag.Get("unit") == "mode":
		return "octal mode"
	case tag.Get("unit") == "status":
		return "list of statuses"
	case tag.Get("format") == "header":
		return "list of header names"
	case sf.Type == reflect.TypeFor[[]netip.Prefix]():
		return "list of CIDRs"
	case sf.Type.Kind() == reflect.Slice && enum == "":
		return "list of texts"
	case sf.Type.Kind() == reflect.Slice:
		return "list of " + enum
	case sf.Type == reflect.TypeFor[Credentials]():
		return "mapping, or `passthrough`"
	case enum != "":
		return enum
	case strings.HasPrefix(tag.Get("format"), "hostport"), sf.Type == reflect.TypeFor[Address]():
		return "address"
	}
	switch sf.Type.Kind() {
	case reflect.Bool:
		return "`true`, `false`"
	case reflect.Int, reflect.Float64:
		return "number" + bounds
	case reflect.Int64:
		if sf.Type == reflect.TypeFor[time.Duration]() {
			return "duration" + bounds
		}
		return "number" + bounds
	}
	return "text"
}

func defaultWords(path string, sf reflect.StructField) string {
	switch {
	case sf.Tag.Get("required") != "":
		return "required"
	case inheritedKey(path):
		return "the deployment's"
	case sf.Tag.Get("default") == "":
		return ""
	}
	return "`" + sf.Tag.Get("default") + "`"
}
