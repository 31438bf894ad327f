package mesh

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the fields of docs/reference/mesh-definition.md again")

const (
	definitionPage = "../../../docs/reference/mesh-definition.md"
	fieldsBegin    = "<!-- fields: go test ./internal/experiment/mesh -run TestDefinitionPage -update -->\n"
	fieldsEnd      = "\n<!-- end -->\n"
)

// source has the struct types of this package.
type source map[string]*ast.StructType

func parsed(t *testing.T) source {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := source{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if body, ok := spec.Type.(*ast.StructType); ok {
					all[spec.Name.Name] = body
				}
			}
			return true
		})
	}
	return all
}

// rows lists the fields of a type below a path, with their comments. Types of several fields are
// listed at the first of them; seen has its path.
func (s source) rows(name, at string, seen map[string]string) string {
	var b strings.Builder
	for _, field := range s[name].Fields.List {
		if field.Tag == nil {
			continue
		}
		key, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("yaml"), ",")
		if key == "-" || key == "" {
			continue
		}
		text := described(field)
		path, below := at+key, field.Type
		for {
			switch kind := below.(type) {
			case *ast.StarExpr:
				below = kind.X
				continue
			case *ast.ArrayType:
				path, below = path+"[]", kind.Elt
				continue
			case *ast.MapType:
				path, below = path+".*", kind.Value
				continue
			}
			break
		}
		if text != "" {
			text = ": " + text
		}
		of, ok := below.(*ast.Ident)
		ok = ok && s[of.Name] != nil
		if ok && seen[of.Name] != "" {
			text = strings.TrimSuffix(text, ".") + " (fields of `" + seen[of.Name] + "`)"
		}
		fmt.Fprintf(&b, "- `%s`%s\n", path, text)
		if ok && seen[of.Name] == "" {
			seen[of.Name] = path
			b.WriteString(s.rows(of.Name, path+".", seen))
		}
	}
	return b.String()
}

var docLink = regexp.MustCompile(`\[(\w[\w.]*)\]`)

// described is the comment of a field without its name: "Hub is the registry" is "the registry".
func described(field *ast.Field) string {
	text := strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
	if rest, ok := strings.CutPrefix(text, field.Names[0].Name); ok {
		for _, verb := range []string{" is ", " are ", ": "} {
			if after, ok := strings.CutPrefix(rest, verb); ok {
				text = after
				break
			}
		}
	}
	return strings.NewReplacer("{{", "`{{", "}}", "}}`").Replace(docLink.ReplaceAllString(text, "$1"))
}

// The page lists the fields of a definition with their comments in the source.
func TestDefinitionPage(t *testing.T) {
	b, err := os.ReadFile(definitionPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(b), fieldsBegin)
	_, after, closed := strings.Cut(rest, fieldsEnd)
	if !found || !closed {
		t.Fatalf("%s has no generated fields", definitionPage)
	}
	page := before + fieldsBegin + "\n" + parsed(t).rows("Definition", "", map[string]string{}) + fieldsEnd + after
	if page == string(b) {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date: go test ./internal/experiment/mesh -run TestDefinitionPage -update", definitionPage)
	}
	if err := os.WriteFile(definitionPage, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}
