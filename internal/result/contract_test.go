package result_test

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

var update = flag.Bool("update", false, "write the field lists of docs/reference/results-directory.md again")

const (
	fieldsPage = "../../docs/reference/results-directory.md"
	module     = "github.com/tare-mesh/tare/"
)

// structs has the line comments of fields, by package, type and name.
type structs map[string]map[string]string

// comment returns the line comment of a field.
func (s structs) comment(t *testing.T, of reflect.Type, field string) string {
	t.Helper()
	pkg := of.PkgPath()
	if s[pkg] == nil {
		s[pkg] = lineComments(t, "../../"+strings.TrimPrefix(pkg, module))
	}
	text := s[pkg][of.Name()+"."+field]
	if text == "" {
		t.Errorf("%s.%s has no line comment for the page", of, field)
	}
	return text
}

func lineComments(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := must.Get(filepath.Glob(dir + "/*.go"))(t)
	found := map[string]string{}
	for _, file := range files {
		f := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution))(t)
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			body, ok := spec.Type.(*ast.StructType)
			if !ok {
				return false
			}
			for _, field := range body.Fields.List {
				for _, name := range field.Names {
					found[spec.Name.Name+"."+name.Name] = strings.TrimSpace(field.Comment.Text())
				}
			}
			return false
		})
	}
	return found
}

// rows returns a row for each leaf of a type: its JSON path, such as "tasks[].start.cpu" or
// "classes{}", and the comment of its field. Types in cut are leaves.
func (s structs) rows(t *testing.T, of reflect.Type, at, comment string, cut map[string]bool) []string {
	t.Helper()
	switch {
	case of.Kind() == reflect.Pointer:
		return s.rows(t, of.Elem(), at, comment, cut)
	case of.Kind() == reflect.Slice:
		return s.rows(t, of.Elem(), at+"[]", comment, cut)
	case of.Kind() == reflect.Map:
		return s.rows(t, of.Elem(), at+"{}", comment, cut)
	case of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() || cut[of.Name()]:
		return []string{"- `" + at + "`: " + comment + "\n"}
	}
	var all []string
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case f.Anonymous:
			name = at
		case at != "":
			name = at + "." + name
		}
		text := ""
		if !f.Anonymous && !deep(f.Type, cut) {
			text = s.comment(t, of, f.Name)
		}
		all = append(all, s.rows(t, f.Type, name, text, cut)...)
	}
	return all
}

// deep reports whether the page has the fields of a type instead of one row.
func deep(of reflect.Type, cut map[string]bool) bool {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	return of.Kind() == reflect.Struct && of != reflect.TypeFor[time.Time]() && !cut[of.Name()]
}

// The page lists exactly the existing fields of every file, with their comments.
func TestPageNamesEveryField(t *testing.T) {
	b := must.Get(os.ReadFile(fieldsPage))(t)
	page, comments := string(b), structs{}
	for _, c := range []struct {
		section string
		of      reflect.Type
		cut     map[string]bool
	}{
		{"plan.json", reflect.TypeFor[plan.Plan](), nil},
		{"environment.json", reflect.TypeFor[result.Environment](), nil},
		{"record.json", reflect.TypeFor[result.Record](), map[string]bool{"Reading": true, "NodeReading": true, "Sampled": true, "Latency": true}},
		{"a reading", reflect.TypeFor[result.Reading](), nil},
		{"a node reading", reflect.TypeFor[result.NodeReading](), nil},
		{"sampled figures", reflect.TypeFor[result.Sampled](), map[string]bool{"Task": true, "SampledNode": true}},
		{"manifest.json", reflect.TypeFor[result.Manifest](), nil},
		{"events.jsonl", reflect.TypeFor[result.Event](), map[string]bool{"Reading": true, "NodeReading": true, "Fault": true, "Change": true, "Task": true}},
	} {
		before, rest, ok := strings.Cut(page, "\n<!-- fields of "+c.section+" -->\n")
		_, after, closed := strings.Cut(rest, "\n<!-- end -->\n")
		if !ok || !closed {
			t.Fatalf("no section %s", c.section)
		}
		page = before + "\n<!-- fields of " + c.section + " -->\n\n" + strings.Join(comments.rows(t, c.of, "", "", c.cut), "") + "\n<!-- end -->\n" + after
	}
	if page != string(b) {
		if !*update {
			t.Fatalf("%s is out of date: go test ./internal/result -run TestPageNamesEveryField -update", fieldsPage)
		}
		must.OK(t, os.WriteFile(fieldsPage, []byte(page), 0o644))
	}
	for _, kind := range []string{result.KindRun, result.KindTrial, result.KindPhase, result.KindProgress, result.KindSample,
		result.KindError, result.KindInvalid, result.KindLog, result.KindDone, result.KindEnd} {
		if !strings.Contains(page, "- `\""+kind+"\"`:") {
			t.Errorf("kind %q is not on the page", kind)
		}
	}
}

// Unknown figures are absent, not zero.
func TestAbsentIsNotZero(t *testing.T) {
	for v, absent := range map[any][]string{
		&result.Reading{CPU: 5}:                    {"rss", "peak", "pss", "voluntary"},
		&result.Sample{}:                           {"node", "cores"},
		&result.Record{ID: "1"}:                    {"load", "node", "tasks", "edges", "error"},
		&result.Load{Generator: "wrk"}:             {"latenessP99US", "cpuSeconds", "threadCPURatio"},
		&result.Environment{Schema: result.Schema}: {"kernel", "cpuModel", "governor"},
	} {
		b := must.Get(json.Marshal(v))(t)
		for _, name := range absent {
			if strings.Contains(string(b), `"`+name+`"`) {
				t.Errorf("%s has %s", b, name)
			}
		}
	}
}
