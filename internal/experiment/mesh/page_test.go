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

	"github.com/tare-mesh/tare/test/must"
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
	files := must.Get(filepath.Glob("*.go"))(t)
	all := source{}
	for _, file := range files {
		f := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution))(t)
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
		key, options, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("yaml"), ",")
		if of, is := field.Type.(*ast.Ident); is && options == "inline" && seen[of.Name] == "" {
			seen[of.Name] = strings.TrimSuffix(at, ".")
			b.WriteString(s.rows(of.Name, at, seen))
		}
		if key == "-" || key == "" {
			continue
		}
		text := s.described(field)
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

// templateOver is how comments name the Go type of the values of a template. The page lists the values above the fields.
var templateOver = regexp.MustCompile(`(?:text/)?template(s?) over \[\w+\]`)

// keys are the keys of the fields of all types in a definition, by their names in Go.
func (s source) keys() map[string]string {
	keys := map[string]string{}
	for _, body := range s {
		for _, field := range body.Fields.List {
			if field.Tag == nil {
				continue
			}
			key, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("yaml"), ",")
			if key != "-" && key != "" {
				keys[field.Names[0].Name] = key
			}
		}
	}
	return keys
}

// goName matches a capitalized word that begins a text or follows a small letter: the name of a field, or a name in English.
var (
	goName   = regexp.MustCompile(`(^|[a-z,;:] )([A-Z]\w*)( API)?`)
	initials = regexp.MustCompile(`^[A-Z0-9]+s?$`)
	// identifier matches other names in Go, but for the data of templates and the kinds of Kubernetes objects.
	identifier     = regexp.MustCompile(`\b(?:[Nn]il|[A-Z][a-z]+[A-Z]\w*)\b`)
	namesOfReaders = regexp.MustCompile("^(?:DaemonSet|StatefulSet|(?:Mutating|Validating)WebhookConfiguration)$")
)

// readable replaces the names of fields in Go with those in a definition, and nil.
func readable(text string, keys map[string]string) string {
	text = goName.ReplaceAllStringFunc(text, func(found string) string {
		m := goName.FindStringSubmatch(found)
		key, is := keys[m[2]]
		if !is || m[3] != "" || m[2] == "Kubernetes" || initials.MatchString(m[2]) {
			return found
		}
		return m[1] + "`" + key + "`"
	})
	return strings.ReplaceAll(text, "nil:", "absent:")
}

// described is the comment of a field without its name: "Hub is the registry" is "the registry".
func (s source) described(field *ast.Field) string {
	text := strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
	if rest, ok := strings.CutPrefix(text, field.Names[0].Name); ok {
		for _, verb := range []string{" is ", " are ", ": "} {
			if after, ok := strings.CutPrefix(rest, verb); ok {
				text = after
				break
			}
		}
	}
	text = templateOver.ReplaceAllString(text, "template$1")
	text = readable(docLink.ReplaceAllString(text, "$1"), s.keys())
	return strings.NewReplacer("{{", "`{{", "}}", "}}`").Replace(text)
}

// contexts are the data of templates, by the parts of a definition that read them. A sidecar's have types of their own below.
var contexts = []struct{ name, readers string }{
	{"SidecarContext", "`local.sidecar`, and the counters of `local.verify`, of which `outbound` ones also read `.Out`, one of `.Outbound`"},
	{"ControlContext", "`local.control`"},
	{"CertificateContext", "`local.certificates`"},
	{"ChangeContext", "`changes`"},
	{"BackgroundContext", "`local.background`"},
	{"InstallContext", "installations, `kubernetes`"},
	{"EnrolContext", "enrolment, gateways and `background`, `kubernetes`"},
}

// variables lists the data of templates with the comments in the source.
func (s source) variables() string {
	var b strings.Builder
	for _, c := range contexts {
		fmt.Fprintf(&b, "%s:\n\n%s\n", c.readers, s.variablesOf(c.name, "."))
	}
	return b.String()
}

func (s source) variablesOf(name, at string) string {
	var b strings.Builder
	for _, field := range s[name].Fields.List {
		if field.Names == nil { // the secrets
			b.WriteString("- `{{.Secret \"name\"}}`: a random UUID of the trial\n")
			continue
		}
		var names []string
		for _, n := range field.Names {
			names = append(names, "`"+at+n.Name+"`")
		}
		text := strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
		text = docLink.ReplaceAllString(strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(text, field.Names[0].Name+" is "), field.Names[0].Name+" are "), field.Names[0].Name+": "), "nil", "absent"), "$1")
		if text != "" {
			text = ": " + text
		}
		fmt.Fprintf(&b, "- %s%s\n", strings.Join(names, ", "), text)
		below := field.Type
		if list, is := below.(*ast.ArrayType); is {
			below = list.Elt
		}
		if star, is := below.(*ast.StarExpr); is {
			below = star.X
		}
		if of, is := below.(*ast.Ident); is && s[of.Name] != nil {
			b.WriteString(s.variablesOf(of.Name, at+field.Names[0].Name+"."))
		}
	}
	return b.String()
}

const variablesBegin = "<!-- variables: go test ./internal/experiment/mesh -run TestDefinitionPage -update -->\n"

// The page lists the fields of a definition, and the variables of its templates, with their comments in the source.
func TestDefinitionPage(t *testing.T) {
	s := parsed(t)
	rows := s.rows("Definition", "", map[string]string{})
	for line := range strings.Lines(rows) {
		for _, at := range identifier.FindAllStringIndex(line, -1) {
			if name := line[at[0]:at[1]]; !namesOfReaders.MatchString(name) && line[at[0]-1] != '.' {
				t.Errorf("%s is a name in Go, which a definition does not have: %s", name, line)
			}
		}
	}
	b := must.Get(os.ReadFile(definitionPage))(t)
	page := string(b)
	for _, part := range []struct{ begin, text string }{{fieldsBegin, rows}, {variablesBegin, "Fields of a command and its configuration: " + CommandFields() + ".\n\n" + s.variables()}} {
		before, rest, found := strings.Cut(page, part.begin)
		_, after, closed := strings.Cut(rest, fieldsEnd)
		if !found || !closed {
			t.Fatalf("%s has no part %s", definitionPage, part.begin)
		}
		page = before + part.begin + "\n" + part.text + fieldsEnd + after
	}
	if page == string(b) {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date: go test ./internal/experiment/mesh -run TestDefinitionPage -update", definitionPage)
	}
	must.OK(t, os.WriteFile(definitionPage, []byte(page), 0o644))
}
