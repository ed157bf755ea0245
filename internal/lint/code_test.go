package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// maxLines is the length of a Go file in lines that means it holds more than one idea.
const maxLines = 600

// purePackage is meant to be used by others as a library, so it brings one module along.
const (
	purePackage = "picker"
	pureImport  = "github.com/zeebo/xxh3"
)

func TestPickerIsPure(t *testing.T) {
	for pkg, imports := range packageImports(t) {
		if pkg != purePackage && !strings.HasPrefix(pkg, purePackage+"/") {
			continue
		}
		for _, imp := range imports {
			first, _, _ := strings.Cut(imp, "/")
			ofPicker := strings.HasPrefix(imp, modulePath+"/"+purePackage)
			if strings.Contains(first, ".") && imp != pureImport && !ofPicker {
				t.Errorf("%s imports %s: only the standard library and %s are allowed", pkg, imp, pureImport)
			}
		}
	}
}

func TestPackageComments(t *testing.T) {
	for _, fault := range packageComments(goFiles(t)) {
		t.Error(fault)
	}
}

// packageComments demands a package comment of every package. A package made of tests
// only may have it in a test file.
func packageComments(files []goFile) []string {
	type state struct{ want, comment string }
	packages := make(map[string]*state)
	for _, f := range files {
		if f.isTest() && slices.ContainsFunc(files, func(g goFile) bool { return g.dir() == f.dir() && !g.isTest() }) {
			continue
		}
		p := packages[f.dir()]
		if p == nil {
			p = &state{want: "Package " + f.ast.Name.Name + " "}
			if f.ast.Name.Name == "main" {
				p.want = "Command " + path.Base(f.dir()) + " "
			}
			packages[f.dir()] = p
		}
		if f.ast.Doc != nil {
			p.comment = f.ast.Doc.Text()
		}
	}
	var faults []string
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		p := packages[dir]
		if !strings.HasPrefix(p.comment, p.want) {
			faults = append(faults, fmt.Sprintf("%s: no package comment that begins with %q", dir, p.want))
		}
	}
	return faults
}

func TestGoFiles(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, fault := range slices.Concat(initFunctions(f), sleeps(f), tooLong(f)) {
			t.Error(fault)
		}
	}
}

// initFunctions finds init: work that a package does unasked, in no order a reader sees.
func initFunctions(f goFile) []string {
	var faults []string
	for _, decl := range f.ast.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if ok && fn.Recv == nil && fn.Name.Name == "init" {
			faults = append(faults, f.at(fn)+": init function: pass what is needed as an argument")
		}
	}
	return faults
}

// sleeps finds time.Sleep in tests: too short on a busy machine and too long on an idle
// one. It is good between two looks of a loop that has a deadline, and inside
// synctest.Test, where it takes no time and is how a test moves the clock.
func sleeps(f goFile) []string {
	if !f.isTest() {
		return nil
	}
	var faults []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if loop, ok := n.(*ast.ForStmt); ok && looksAtClock(loop) {
			return false
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if isSelector(call.Fun, "synctest", "Test") {
			return false
		}
		if isSelector(call.Fun, "time", "Sleep") {
			faults = append(faults, f.at(call)+": time.Sleep in a test outside of synctest.Test: wait for what must happen, with a deadline")
		}
		return true
	})
	return faults
}

func looksAtClock(loop *ast.ForStmt) bool {
	found := false
	ast.Inspect(loop, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		found = found || ok && (isSelector(e, "time", "Now") || isSelector(e, "time", "Since") || isSelector(e, "time", "Until"))
		return !found
	})
	return found
}

func isSelector(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg && sel.Sel.Name == name
}

func tooLong(f goFile) []string {
	if n := bytes.Count(f.src, []byte("\n")); n > maxLines {
		return []string{fmt.Sprintf("%s: %d lines, at most %d: split it by idea", f.name, n, maxLines)}
	}
	return nil
}

func TestCodeRules(t *testing.T) {
	tests := []struct {
		name string
		rule func(goFile) []string
		file string
		src  string
		want []string
	}{
		{"init", initFunctions, "a.go", "package a\n\nfunc init() {}\n", []string{"a.go:3: init function: pass what is needed as an argument"}},
		{"init as a method", initFunctions, "a.go", "package a\n\nfunc (x T) init() {}\n", nil},
		{
			"sleep in a test", sleeps, "a_test.go", "package a\n\nfunc TestA() { time.Sleep(1) }\n",
			[]string{"a_test.go:3: time.Sleep in a test outside of synctest.Test: wait for what must happen, with a deadline"},
		},
		{"sleep in a bubble", sleeps, "a_test.go", "package a\n\nfunc TestA() { synctest.Test(t, func() { time.Sleep(1) }) }\n", nil},
		{"sleep in a loop with a deadline", sleeps, "a_test.go", "package a\n\nfunc TestA() { for time.Now().Before(end) { time.Sleep(1) } }\n", nil},
		{
			"sleep in a loop without one", sleeps, "a_test.go", "package a\n\nfunc TestA() { for !ok() { time.Sleep(1) } }\n",
			[]string{"a_test.go:3: time.Sleep in a test outside of synctest.Test: wait for what must happen, with a deadline"},
		},
		{"sleep in the program", sleeps, "a.go", "package a\n\nfunc A() { time.Sleep(1) }\n", nil},
		{"600 lines", tooLong, "a.go", "package a\n" + strings.Repeat("\n", 599), nil},
		{"601 lines", tooLong, "a.go", "package a\n" + strings.Repeat("\n", 600), []string{"a.go: 601 lines, at most 600: split it by idea"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := test.rule(parseGo(t, test.file, []byte(test.src)))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPackageCommentsRule(t *testing.T) {
	files := []goFile{
		parseGo(t, "good/a.go", []byte("package good\n")),
		parseGo(t, "good/doc.go", []byte("// Package good is good.\npackage good\n")),
		parseGo(t, "bad/a.go", []byte("package bad\n")),
		parseGo(t, "bad/a_test.go", []byte("// Package bad hides its comment in a test.\npackage bad\n")),
		parseGo(t, "tests/a_test.go", []byte("// Package tests has tests only.\npackage tests\n")),
		parseGo(t, "cmd/tool/main.go", []byte("// Package main says nothing.\npackage main\n")),
	}
	want := []string{
		`bad: no package comment that begins with "Package bad "`,
		`cmd/tool: no package comment that begins with "Command tool "`,
	}
	if diff := cmp.Diff(want, packageComments(files)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}
