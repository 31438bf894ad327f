package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Factor is one factor that the file names, with its levels in the file's order.
type Factor struct {
	Name   string // as in the file
	Levels []Level
}

// Level is one level of a [Factor].
type Level struct {
	// Value is what records and reports show: a string, or a float64.
	Value any
	// Token is a short form for names, e.g. "rate1000"; it is not yet safe for file names.
	Token string
	// Apply sets this level.
	Apply func(*Levels)
}

// Named lists the factors that the file names, in the order of the type's fields.
func (f Factors) Named() []Factor {
	var named []Factor
	for _, x := range f.list() {
		if len(x.Levels) > 0 {
			named = append(named, x)
		}
	}
	return named
}

// list has every factor, those without levels too. A new factor is a line here,
// in [Levels] and in [Baseline].
func (f Factors) list() []Factor {
	return []Factor{
		{"mesh", levels(f.Mesh, "", text, func(l *Levels, x string) { l.Mesh = x })},
		{"rate", levels(f.Rate, "rate", Rate.value, func(l *Levels, x Rate) { l.Rate = x })},
		{"connections", levels(f.Connections, "conn", number, func(l *Levels, x int) { l.Connections = x })},
		{"replicas", levels(f.Replicas, "rep", number, func(l *Levels, x int) { l.Replicas = x })},
		{"requestSize", levels(f.RequestSize, "req", sizeValue, func(l *Levels, x Size) { l.RequestSize = x })},
		{"responseSize", levels(f.ResponseSize, "resp", sizeValue, func(l *Levels, x Size) { l.ResponseSize = x })},
		{"protocol", levels(f.Protocol, "", text, func(l *Levels, x string) { l.Protocol = x })},
		{"generator", levels(f.Generator, "", text, func(l *Levels, x string) { l.Generator = x })},
		{"route", levels(f.Route, "", text, func(l *Levels, x string) { l.Route = x })},
		{"topology", levels(f.Topology, "", text, func(l *Levels, x string) { l.Topology = x })},
	}
}

func levels[T any](from []T, prefix string, value func(T) any, apply func(*Levels, T)) []Level {
	out := make([]Level, len(from))
	for i, x := range from {
		out[i] = Level{Value: value(x), Token: prefix + fmt.Sprint(x), Apply: func(l *Levels) { apply(l, x) }}
	}
	return out
}

func text(s string) any { return s }
func number(n int) any  { return float64(n) }

func (r Rate) value() any {
	if r == Max {
		return r.String()
	}
	return float64(r)
}

// Apply gives l the levels that the baseline names.
func (b *Baseline) Apply(l *Levels) {
	set(&l.Mesh, b.Mesh)
	set(&l.Rate, b.Rate)
	set(&l.Connections, b.Connections)
	set(&l.Replicas, b.Replicas)
	set(&l.RequestSize, b.RequestSize)
	set(&l.ResponseSize, b.ResponseSize)
	set(&l.Protocol, b.Protocol)
	set(&l.Generator, b.Generator)
	set(&l.Route, b.Route)
	set(&l.Topology, b.Topology)
}

// names tells whether the baseline fixes the level of a factor.
func (b *Baseline) names(factor string) bool {
	if b == nil {
		return false
	}
	return map[string]bool{
		"mesh": b.Mesh != nil, "rate": b.Rate != nil, "connections": b.Connections != nil, "replicas": b.Replicas != nil,
		"requestSize": b.RequestSize != nil, "responseSize": b.ResponseSize != nil, "protocol": b.Protocol != nil,
		"generator": b.Generator != nil, "route": b.Route != nil, "topology": b.Topology != nil,
	}[factor]
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (v validation) factors() {
	f := v.e.Factors
	if len(f.Named()) == 0 && v.doc.Sound("factors") && !anyGiven(v, f) {
		v.report("factors", "write what to compare, such as mesh: [none, envoy]", "no factor is named")
	}
	for _, x := range f.list() {
		path := "factors." + x.Name
		switch n := len(x.Levels); {
		case n == 0 && v.doc.Has(path):
			v.report(path, "give at least one level, or leave the factor out for its default", "the list is empty")
		case n > maxLevels:
			v.report(path, "", "%d levels, more than %d", n, maxLevels)
			return
		}
		v.twice(path, x.Levels)
	}
	each(v, "factors.mesh", f.Mesh, func(p, x string) { v.oneOf(p, "mesh", x, v.known.Meshes) })
	each(v, "factors.rate", f.Rate, func(p string, x Rate) {
		if x < 0 || x > maxRate {
			v.report(p, "for as fast as possible write max", "%s requests per second is not above 0 and at most %v", clip(x.String()), Rate(maxRate))
		}
	})
	each(v, "factors.connections", f.Connections, func(p string, x int) { within(v, p, x, 1, maxConnections, "") })
	each(v, "factors.replicas", f.Replicas, func(p string, x int) { within(v, p, x, 1, maxReplicas, "") })
	each(v, "factors.requestSize", f.RequestSize, func(p string, x Size) { within(v, p, x, 0, maxBodySize, "") })
	each(v, "factors.responseSize", f.ResponseSize, func(p string, x Size) { within(v, p, x, 0, maxBodySize, "") })
	each(v, "factors.protocol", f.Protocol, func(p, x string) { v.oneOf(p, "protocol", x, v.known.Protocols) })
	each(v, "factors.route", f.Route, v.route)
	each(v, "factors.topology", f.Topology, v.namedTopology)
	each(v, "factors.generator", f.Generator, func(p, x string) { v.oneOf(p, "generator", x, v.known.Generators) })
}

// forwards reports meshes that cannot carry what a service speaks on this machine:
// each level of the mesh meets each of the protocol.
func (v validation) forwards() {
	if v.e.Platform.Kind != mesh.OnLocal || !v.doc.Sound("application") || !v.doc.Sound("factors") {
		return
	}
	all, err := v.e.Topologies()
	if err != nil {
		return // that is reported
	}
	speaker := ""
	for _, t := range all {
		for _, s := range t.Services {
			if s.Protocol == app.TCP || s.Protocol == "" && slices.Contains(v.e.Factors.Protocol, app.TCP) {
				speaker = cmp.Or(speaker, s.Name)
			}
		}
	}
	if speaker == "" {
		return
	}
	each(v, "factors.mesh", v.e.Factors.Mesh, func(p, name string) {
		if d, ok := v.definition(name); ok && d.Provides.L7 && d.Local != nil && !d.Local.TCP {
			v.report(p, "take a mesh that forwards connections, such as envoy-tcp", "service %s speaks tcp, and %s forwards HTTP alone", speaker, name)
		}
	})
}

// route reports what is not a list of paths.
func (v validation) route(path, routes string) {
	if routes == app.EveryRoute {
		v.everyRoute(path)
		return
	}
	for r := range strings.SplitSeq(routes, ",") {
		if !app.IsPath(r) {
			v.report(path, "write a path such as /adder, or several with commas between: /a,/b", "%q is not a path", clip(r))
			return
		}
	}
}

// everyRoute reports that the entry has no routes to stand for.
func (v validation) everyRoute(path string) {
	if !v.doc.Sound("application") {
		return
	}
	all, _ := v.e.Topologies()
	for _, t := range all {
		if len(t.Services) == 0 {
			return
		}
		entry, ok := t.Service(cmp.Or(t.Entry, t.Services[0].Name))
		if ok && entry.Program != app.Adder {
			v.report(path, "write the paths, with commas between: /a,/b", "%s stands for the routes of %s, and service %s is none", app.EveryRoute, app.Adder, entry.Name)
			return
		}
	}
}

func anyGiven(v validation, f Factors) bool {
	return slices.ContainsFunc(f.list(), func(x Factor) bool { return v.doc.Has("factors." + x.Name) })
}

func each[T any](v validation, path string, xs []T, check func(path string, x T)) {
	for i, x := range xs {
		check(fmt.Sprintf("%s[%d]", path, i), x)
	}
}

// twice reports levels given again: two treatments would be the same.
func (v validation) twice(path string, ls []Level) {
	first := map[any]int{}
	for i, l := range ls {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !v.doc.Sound(at) {
			continue
		}
		if j, ok := first[l.Value]; ok {
			hint := ""
			if path == "factors.mesh" {
				hint = "for a second run of the baseline write control: true"
			}
			v.report(at, hint, "%s is already level %d: two treatments would be the same", clip(fmt.Sprint(l.Value)), j+1)
			continue
		}
		first[l.Value] = i
	}
}

func (v validation) baseline() {
	b := v.e.Baseline
	if b == nil {
		if v.e.Control && v.doc.Sound("baseline") && v.doc.Sound("factors.mesh") {
			v.report("control", "name one, such as baseline: {mesh: none}", "a control is a second run of the baseline, and there is no baseline")
		}
		return
	}
	if *b == (Baseline{}) {
		v.report("baseline", "write the levels to compare with, such as {mesh: none}", "no factor is named")
	}
	f, d := v.e.Factors, v.e.DefaultLevels()
	among(v, "mesh", b.Mesh, f.Mesh, d.Mesh)
	among(v, "rate", b.Rate, f.Rate, d.Rate)
	among(v, "connections", b.Connections, f.Connections, d.Connections)
	among(v, "replicas", b.Replicas, f.Replicas, d.Replicas)
	among(v, "requestSize", b.RequestSize, f.RequestSize, d.RequestSize)
	among(v, "responseSize", b.ResponseSize, f.ResponseSize, d.ResponseSize)
	among(v, "protocol", b.Protocol, f.Protocol, d.Protocol)
	among(v, "route", b.Route, f.Route, d.Route)
	among(v, "topology", b.Topology, f.Topology, d.Topology)
	among(v, "generator", b.Generator, f.Generator, d.Generator)
}

// among reports a baseline level that no treatment has.
func among[T comparable](v validation, name string, level *T, levels []T, otherwise T) {
	if level == nil || !v.doc.Sound("factors."+name) {
		return
	}
	if len(levels) == 0 {
		levels = []T{otherwise}
	}
	if !slices.Contains(levels, *level) {
		v.report("baseline."+name, fmt.Sprintf("add it to factors.%s, or name one of %s", name, listed(levels)),
			"%s is not among the levels of %s", clip(fmt.Sprint(*level)), name)
	}
}

func listed[T any](xs []T) string {
	const most = 8
	var words []string
	for _, x := range xs[:min(len(xs), most)] {
		words = append(words, clip(fmt.Sprint(x)))
	}
	if len(xs) > most {
		words = append(words, "…")
	}
	return strings.Join(words, ", ")
}

// ParseCPUs reads a list of processors as taskset writes it, such as "0-3,6".
// The processors are returned in ascending order.
func ParseCPUs(list string) ([]int, error) {
	seen := map[int]bool{}
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			to = from
		}
		a, err := cpu(from)
		if err != nil {
			return nil, fmt.Errorf("%q is not a list of processors", clip(list))
		}
		b, err := cpu(to)
		if err != nil {
			return nil, fmt.Errorf("%q is not a list of processors", clip(list))
		}
		if a > b || b > maxCPU {
			return nil, fmt.Errorf("%q: processors count up, from 0 to %d", clip(list), maxCPU)
		}
		for i := a; i <= b; i++ {
			seen[i] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

func cpu(digits string) (int, error) {
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), err
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// FactorNames lists every factor there is by its name in the file, in order.
func FactorNames() []string {
	var names []string
	for _, f := range (Factors{}).list() {
		names = append(names, f.Name)
	}
	return names
}
