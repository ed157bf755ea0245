package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the repository as seen from this package, where go test runs it.
const root = "../.."

// maxText is the size in bytes above which a file is data and not read as text.
const maxText = 1 << 20

// modulePath is this module's import path.
const modulePath = "github.com/pointsman/pointsman"

// goFile is one parsed Go file.
type goFile struct {
	name string // slash-separated, relative to the root
	src  []byte
	fset *token.FileSet
	ast  *ast.File
}

func (f goFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

func (f goFile) dir() string { return path.Dir(f.name) }

// at says where in the repository a node stands.
func (f goFile) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.name, f.fset.Position(n.Pos()).Line)
}

func parseGo(t *testing.T, name string, src []byte) goFile {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("parse %s: %v", name, err)
	}
	return goFile{name: name, src: src, fset: fset, ast: file}
}

// goFiles parses every Go file of the repository.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	for _, f := range textFiles(t) {
		if strings.HasSuffix(f.name, ".go") {
			files = append(files, parseGo(t, f.name, f.text))
		}
	}
	return files
}

// textFile is one file of the repository that a person reads.
type textFile struct {
	name string
	text []byte
}

// textFiles reads the repository's files but those that git or the build made.
func textFiles(t *testing.T) []textFile {
	t.Helper()
	var files []textFile
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() > maxText {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) >= 0 {
			return nil // binary
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		files = append(files, textFile{filepath.ToSlash(rel), text})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// packageImports asks the go command for the module's packages and what the code
// of each, tests left out, imports. Names are short: see shortName.
func packageImports(t *testing.T) map[string][]string {
	t.Helper()
	const format = `{{if or .GoFiles .CgoFiles}}{{.ImportPath}} {{join .Imports " "}}{{end}}`
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-f", format, "./...")
	cmd.Dir = root
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) > 0 {
			imports[shortName(fields[0])] = fields[1:]
		}
	}
	return imports
}

// shortName is an import path as ARCHITECTURE.md writes it: below the module. Paths of
// other modules stay as they are.
func shortName(importPath string) string {
	return strings.TrimPrefix(importPath, modulePath+"/")
}
