package result_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// paths returns the JSON paths of all fields of a type: "tasks[].start.cpu",
// "classes{}" for a map. Types in cut are not entered.
func paths(t reflect.Type, at string, cut map[string]bool) []string {
	switch {
	case t.Kind() == reflect.Pointer:
		return paths(t.Elem(), at, cut)
	case t.Kind() == reflect.Slice:
		return paths(t.Elem(), at+"[]", cut)
	case t.Kind() == reflect.Map:
		return paths(t.Elem(), at+"{}", cut)
	case t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() || cut[t.Name()]:
		return []string{at}
	}
	var all []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous:
			all = append(all, paths(f.Type, at, cut)...)
		case at == "":
			all = append(all, paths(f.Type, name, cut)...)
		default:
			all = append(all, paths(f.Type, at+"."+name, cut)...)
		}
	}
	return all
}

// The page lists exactly the existing fields of every file.
func TestPageNamesEveryField(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/results-directory.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		section string
		of      reflect.Type
		cut     map[string]bool
	}{
		{"plan.json", reflect.TypeFor[plan.Plan](), nil},
		{"environment.json", reflect.TypeFor[result.Environment](), nil},
		{"record.json", reflect.TypeFor[result.Record](), map[string]bool{"Reading": true, "NodeReading": true, "Processor": true, "Sampled": true, "Latency": true}},
		{"a reading", reflect.TypeFor[result.Reading](), nil},
		{"a node reading", reflect.TypeFor[result.NodeReading](), nil},
		{"a probe reading", reflect.TypeFor[probe.Reading](), nil},
		{"manifest.json", reflect.TypeFor[result.Manifest](), nil},
		{"events.jsonl", reflect.TypeFor[result.Event](), map[string]bool{"Reading": true, "NodeReading": true}},
	} {
		t.Run(c.section, func(t *testing.T) {
			_, section, ok := strings.Cut(string(page), "\n<!-- fields of "+c.section+" -->\n")
			if !ok {
				t.Fatalf("no section %s", c.section)
			}
			section, _, _ = strings.Cut(section, "\n\n")
			var named []string
			for _, m := range regexp.MustCompile("(?m)^- `([^`]+)`:").FindAllStringSubmatch(section, -1) {
				named = append(named, m[1])
			}
			want := paths(c.of, "", c.cut)
			for _, f := range want {
				if !slices.Contains(named, f) {
					t.Errorf("field %s is not on the page", f)
				}
			}
			for _, f := range named {
				if !slices.Contains(want, f) {
					t.Errorf("the page has %s, which is no field", f)
				}
			}
		})
	}
	for _, kind := range []string{result.KindRun, result.KindTrial, result.KindPhase, result.KindProgress, result.KindSample,
		result.KindError, result.KindInvalid, result.KindLog, result.KindDone, result.KindEnd} {
		if !strings.Contains(string(page), "- `\""+kind+"\"`:") {
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
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range absent {
			if strings.Contains(string(b), `"`+name+`"`) {
				t.Errorf("%s has %s", b, name)
			}
		}
	}
}
