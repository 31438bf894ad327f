package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// packageTests are the top-level tests of a package.
type packageTests struct {
	path  string
	tests []string
}

// list returns the tests of packages, as `go test` finds them for this system.
func list(patterns []string) ([]packageTests, error) {
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles"}, patterns...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	var all []packageTests
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir           string
			TestGoFiles, XTestGoFiles []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		found := packageTests{path: p.ImportPath}
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && isTest(fn.Name.Name) {
					found.tests = append(found.tests, fn.Name.Name)
				}
			}
		}
		all = append(all, found)
	}
}

// isTest reports whether `go test` runs a function of this name. TestMain is none.
func isTest(name string) bool {
	for _, prefix := range []string{"Test", "Example", "Fuzz"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && name != "TestMain" {
			r, _ := utf8.DecodeRuneInString(rest)
			return rest == "" || !unicode.IsLower(r)
		}
	}
	return false
}

// hidden returns the calls of testing.Short in a test file that are no condition of a branch that
// skips the test or sets the attribute: less is run, and the report does not show it.
func hidden(f *ast.File) (at []token.Pos) {
	shown := map[token.Pos]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch branch := n.(type) {
		case *ast.IfStmt:
			for _, call := range callsOfShort(branch.Cond) {
				shown[call] = shown[call] || shows(branch.Body.List)
			}
		case *ast.CaseClause:
			for _, condition := range branch.List {
				for _, call := range callsOfShort(condition) {
					shown[call] = shown[call] || shows(branch.Body)
				}
			}
		}
		return true
	})
	for _, call := range callsOfShort(f) {
		if !shown[call] {
			at = append(at, call)
		}
	}
	return at
}

func callsOfShort(in ast.Node) (at []token.Pos) {
	ast.Inspect(in, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Short" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "testing" {
					at = append(at, call.Pos())
				}
			}
		}
		return true
	})
	return at
}

// shows reports whether a branch fails or skips the test, or sets the attribute.
func shows(branch []ast.Stmt) (found bool) {
	for _, statement := range branch {
		ast.Inspect(statement, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); ok {
				switch s.Sel.Name {
				case "Skip", "Skipf", "SkipNow", "Fatal", "Fatalf":
					found = true
				case "Attr":
					key, ok := call.Args[0].(*ast.BasicLit)
					found = found || ok && key.Value == `"`+shortAttr+`"`
				}
			}
			return true
		})
	}
	return found
}
