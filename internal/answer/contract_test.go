package answer_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/test/must"
)

// The JSON is the contract: these names, these kinds, no null.
func TestReportJSON(t *testing.T) {
	b := must.Get(json.Marshal(quickstartReport(t)))(t)
	var doc map[string]any
	must.OK(t, json.Unmarshal(b, &doc))
	for path, kind := range map[string]string{
		"schema": "string", "experiment": "string", "method": "string", "confidence": "number", "baseline/mesh": "string", "warnings": "list",
		"treatments/0/factors/mesh": "string", "treatments/0/n": "number", "treatments/2/metrics/cpu_us_per_request∕data/estimate": "number",
		"treatments/2/metrics/cpu_us_per_request∕data/low": "number", "treatments/2/metrics/cpu_us_per_request∕data/high": "number",
		"treatments/2/metrics/cpu_us_per_request∕data/unit": "string", "treatments/2/metrics/cpu_us_per_request∕data/n": "number",
		"treatments/2/metrics/cpu_us_per_request∕data/warnings": "list",
		"comparisons/0/factors/mesh":                            "string", "comparisons/0/against/mesh": "string", "comparisons/0/metric": "string", "comparisons/0/unit": "string",
		"comparisons/0/difference/estimate": "number", "comparisons/0/difference/low": "number", "comparisons/0/ratio/high": "number",
		"comparisons/0/n": "number", "comparisons/0/p": "number", "comparisons/0/p_adjusted": "number", "comparisons/0/verdict": "string", "comparisons/0/warnings": "list",
		"trials/0/id": "string", "trials/0/block": "number", "trials/0/factors/mesh": "string", "trials/0/valid": "bool",
		"trials/0/metrics/rate": "number", "trials/0/warnings": "list",
		"floor/0/metric": "string", "floor/0/difference/low": "number", "floor/0/detectable": "number",
	} {
		if got := kindAt(doc, strings.Split(path, "/")); got != kind {
			t.Errorf("%s is %s, want %s", path, got, kind)
		}
	}
	if strings.Contains(string(b), "null") {
		t.Error("a null: unknown figures must be absent")
	}
}

// A decoded report has all that a report has.
func TestReportHasNoHiddenFields(t *testing.T) {
	seen := map[reflect.Type]bool{reflect.TypeFor[answer.Prices](): true} // whose kind and version are its file's
	var check func(reflect.Type)
	check = func(x reflect.Type) {
		if seen[x] || x.PkgPath() == "time" {
			return
		}
		seen[x] = true
		switch x.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			check(x.Elem())
		case reflect.Struct:
			for i := range x.NumField() {
				f := x.Field(i)
				if !f.IsExported() || f.Tag.Get("json") == "-" {
					t.Errorf("%v.%s is not in the JSON", x, f.Name)
				}
				check(f.Type)
			}
		}
	}
	check(reflect.TypeFor[answer.Report]())
	if len(seen) < 20 {
		t.Errorf("%d types seen: the walk is broken", len(seen))
	}
}

func kindAt(v any, path []string) string {
	for _, step := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[strings.ReplaceAll(step, "∕", "/")]
		case []any:
			i := int(step[0] - '0')
			if i >= len(x) {
				return "absent"
			}
			v = x[i]
		default:
			return "absent"
		}
	}
	switch v.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "bool"
	case []any:
		return "list"
	case map[string]any:
		return "object"
	}
	return "absent"
}
