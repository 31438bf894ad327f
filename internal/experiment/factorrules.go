package experiment

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load"
)

type factorRules struct{ validation }

func (v factorRules) factors() {
	f := v.e.Factors
	if len(f.Named()) == 0 && v.doc.Sound("factors") && !v.anyWritten() {
		v.report("factors", "write the levels to compare, such as mesh: [none, envoy]", "no factor is named")
	}
	for _, x := range Table {
		path := "factors." + x.Name
		levels := x.levels(f[x.Name])
		switch n := len(levels); {
		case n == 0 && v.doc.Has(path):
			v.report(path, "write at least one level, or omit the factor to use its default", "the list is empty")
		case n > maxLevels:
			v.report(path, "", "%d levels, max %d", n, maxLevels)
			return
		}
		v.distinct(path, levels, x.twiceHint)
	}
	for _, x := range Table {
		x.check(v, f[x.Name])
	}
}

func (v factorRules) anyWritten() bool {
	return slices.ContainsFunc(Table, func(x Factor) bool { return v.doc.Has("factors." + x.Name) })
}

// distinct reports repeated levels: two treatments would be the same.
func (v factorRules) distinct(path string, levels []Level, hint string) {
	first := map[any]int{}
	for i, l := range levels {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !v.doc.Sound(at) {
			continue
		}
		if j, ok := first[l.Value]; ok {
			v.report(at, hint, "%s is already level %d: two treatments would be the same", clip(fmt.Sprint(l.Value)), j+1)
			continue
		}
		first[l.Value] = i
	}
}

// rate reports rates out of bounds, and rates that send nothing in the measure phase.
func (v factorRules) rate(path string, level RateLevel) {
	if level.Capacity != (Capacity{}) {
		v.capacity(path, level.Capacity)
		return
	}
	if _, number := v.doc.Text(path); v.doc.Has(path) && !number {
		v.report(path, `write {max: "p99 < 50ms"}, or max for a closed loop`, "the search has no objective")
		return
	}
	x, measure := level.Rate, v.e.Phases.Measure
	if x > 0 && measure > 0 && float64(x)*time.Duration(measure).Seconds() < 1 {
		v.report(path, "raise the rate or phases.measure", "%s requests per second send no request in a measure phase of %v", clip(x.String()), measure)
	}
	if x < 0 || x > load.MaxRate {
		v.report(path, "write max for a closed loop", "%s requests per second is not above 0 and at most %v", clip(x.String()), Rate(load.MaxRate))
	}
}

// route reports a level other than a list of paths.
func (v factorRules) route(path, routes string) {
	for r := range strings.SplitSeq(routes, ",") {
		if !app.IsPath(r) {
			v.report(path, "write a path such as /pay, or several with commas between: /a,/b", "%q is not a path", clip(r))
			return
		}
	}
}

const otherNodes = "other-nodes"

// placements are the levels of the factor placement.
var placements = []string{"same-node", otherNodes}

// placement reports applications and platforms without a choice of nodes.
func (v factorRules) placement(path, x string) {
	switch {
	case !v.e.onCluster():
		v.report(path, "remove it, or use platform kubernetes", "platform %s has one node", v.e.Platform.Kind)
	case v.e.Platform.Affinity != "" && v.e.Platform.Affinity != affinities[0]:
		v.report(path, "remove one of the two", "platform.affinity: %s places the pods already", v.e.Platform.Affinity)
	case slices.ContainsFunc(LevelsOf[int](v.e.Factors, "replicas"), func(n int) bool { return n > 1 }):
		v.report(path, "write replicas: 1", "with several replicas a service is on several nodes")
	case x == otherNodes && v.replicated() != "":
		v.report(path, "write replicas: 1 there", "with several replicas service %s is on several nodes", v.replicated())
	case v.foreign():
		v.report(path, "write placement into its own objects", "tare does not place the pods of a chart, manifests or a namespace")
	}
}

// replicated is a service with several replicas of its own, or empty if there is none.
func (v factorRules) replicated() string {
	all, _ := v.e.Topologies()
	for _, t := range all {
		for _, s := range t.Services {
			if s.Replicas > 1 {
				return s.Name
			}
		}
	}
	return ""
}

// foreign reports whether others' objects run the application.
func (v factorRules) foreign() bool {
	all, _ := v.e.Topologies()
	return slices.ContainsFunc(all, app.Topology.Foreign)
}

// application reports an unknown application. The topologies of files are entries of applications once they were read.
func (v factorRules) application(path, name string) {
	names := append(sortedKeys(v.e.Applications), v.names.topologies()...)
	if slices.Contains(names, name) {
		return
	}
	v.report(path, strict.DidYouMean(name, names), "there is no application %q", clip(name))
}

func (v factorRules) baseline() {
	b := v.e.Baseline
	switch {
	case len(b) > 0:
	case v.doc.Has("baseline"):
		v.report("baseline", "write the levels to compare with, such as {mesh: none}", "no factor is named")
		return
	default:
		field := "control"
		if v.e.ControlAll {
			field = "controlAll"
		}
		if levels := v.e.meshes(); (v.e.Control || v.e.ControlAll) && len(levels) > 0 && v.doc.Sound("factors.mesh") {
			v.report(field, fmt.Sprintf("write a baseline, such as baseline: {mesh: %s}", levels[0]), "a control is a second run of the baseline, and there is no baseline")
		}
		return
	}
	otherwise := v.e.DefaultLevels()
	for _, x := range Table {
		if level, ok := b[x.Name]; ok {
			v.isLevel(x, level, otherwise)
		}
	}
}

// isLevel reports a baseline level that no treatment has.
func (v factorRules) isLevel(x Factor, level any, otherwise Levels) {
	if !v.doc.Sound("factors." + x.Name) {
		return
	}
	levels := elements(v.e.Factors[x.Name])
	if len(levels) == 0 {
		levels = []any{x.value(otherwise)}
	}
	if !slices.Contains(levels, level) {
		v.report("baseline."+x.Name, fmt.Sprintf("add it to factors.%s, or write one of %s", x.Name, listed(levels)),
			"%s is not among the levels of %s", clip(fmt.Sprint(level)), x.Name)
	}
}

func elements(list any) []any {
	v := reflect.ValueOf(list)
	if v.Kind() != reflect.Slice {
		return nil
	}
	out := make([]any, v.Len())
	for i := range out {
		out[i] = v.Index(i).Interface()
	}
	return out
}

func each[T any](v validation, path string, xs []T, check func(path string, x T)) {
	for i, x := range xs {
		check(fmt.Sprintf("%s[%d]", path, i), x)
	}
}

func listed[T any](xs []T) string {
	const most = 8
	words := lists.Map(xs[:min(len(xs), most)], func(x T) string { return clip(fmt.Sprint(x)) })
	if len(xs) > most {
		words = append(words, "…")
	}
	return strings.Join(words, ", ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
