package tare_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/test/must"
)

// warningsPage has one row for each warning code: meaning and remedy.
const warningsPage = "docs/reference/warnings.md"

var warningCode = regexp.MustCompile(`^[a-z]+(-[a-z]+)*-?$`)

// warningCalls are the functions that take a warning's code first.
var warningCalls = []string{"warn", "invalidate", "unusable"}

// codeFinder collects warning codes from the source of packages.
type codeFinder struct {
	constants map[string]string // string constants by name
	codes     map[string]string // codes, with the place of one use
	literals  map[string]bool   // every string literal
	set       *token.FileSet
}

// add records the code that an expression holds. A code with a variable end,
// "generator-" + name, is generator-NAME.
func (f *codeFinder) add(e ast.Expr) {
	text, suffix := "", ""
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ = strconv.Unquote(e.Value)
	case *ast.Ident:
		text = f.constants[e.Name]
	case *ast.BinaryExpr:
		if lit, ok := e.X.(*ast.BasicLit); ok {
			text, _ = strconv.Unquote(lit.Value)
			suffix = "NAME"
		}
	}
	if warningCode.MatchString(text) {
		f.codes[text+suffix] = f.set.Position(e.Pos()).String()
	}
}

func (f *codeFinder) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CompositeLit:
		f.composite(n)
	case *ast.CallExpr:
		name := ""
		switch fun := n.Fun.(type) {
		case *ast.Ident:
			name = fun.Name
		case *ast.SelectorExpr:
			name = fun.Sel.Name
		}
		if len(n.Args) > 1 && slices.Contains(warningCalls, name) {
			f.add(n.Args[0])
		}
	}
	return true
}

// composite finds Warning{Code: …} and the rows of a table of type []check.
func (f *codeFinder) composite(n *ast.CompositeLit) {
	for _, e := range n.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && (key.Name == "Code" || key.Name == "code") {
				f.add(kv.Value)
			}
		}
	}
	array, ok := n.Type.(*ast.ArrayType)
	if !ok {
		return
	}
	if of, ok := array.Elt.(*ast.Ident); !ok || of.Name != "check" {
		return
	}
	for _, e := range n.Elts {
		if row, ok := e.(*ast.CompositeLit); ok && len(row.Elts) > 1 {
			if _, keyed := row.Elts[0].(*ast.KeyValueExpr); !keyed {
				f.add(row.Elts[0])
			}
		}
	}
}

// findCodes parses the packages whose results carry warnings.
func findCodes(t *testing.T) *codeFinder {
	t.Helper()
	f := &codeFinder{constants: map[string]string{}, codes: map[string]string{}, literals: map[string]bool{}, set: token.NewFileSet()}
	var files []*ast.File
	for _, root := range []string{"internal/run", "internal/answer", "internal/compare", "internal/figures", "internal/importer", "internal/result", "internal/study", "kube/internal"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(f.set, path, nil, parser.SkipObjectResolution)
			files = append(files, file)
			return err
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if i < len(n.Values) {
						if lit, ok := n.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
							f.constants[name.Name], _ = strconv.Unquote(lit.Value)
						}
					}
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					f.literals[text] = true
				}
			}
			return true
		})
	}
	for _, file := range files {
		ast.Inspect(file, f.node)
	}
	return f
}

// Every code in the source has words, one row on the page, and each row a code.
func TestWarningsPage(t *testing.T) {
	page := must.Get(os.ReadFile(warningsPage))(t)
	rows := map[string]int{}
	for _, m := range regexp.MustCompile("(?m)^- `([a-zA-Z-]+)`").FindAllStringSubmatch(string(page), -1) {
		rows[m[1]]++
	}
	complete := regexp.MustCompile("(?m)^- `[a-zA-Z-]+`(?: \\([^)]*\\))?: .+\\. \\*.+\\*$").FindAllString(string(page), -1)
	if len(complete) != len(rows) {
		t.Errorf("%s: %d codes, of which %d have a meaning and a remedy", warningsPage, len(rows), len(complete))
	}
	found := findCodes(t)
	if len(found.codes) < 60 {
		t.Errorf("%d codes found in the source", len(found.codes))
	}
	for code, where := range found.codes {
		if rows[code] != 1 {
			t.Errorf("%s: %s has %d rows for code %s", where, warningsPage, rows[code], code)
		}
	}
	for code, where := range found.codes {
		if figures.Cause(code) == code {
			t.Errorf("%s: code %s has no words for places without its message", where, code)
		}
	}
	for code := range rows {
		if found.codes[code] == "" && !found.literals[code] {
			t.Errorf("%s has code %s, which is not in the source", warningsPage, code)
		}
	}
}
