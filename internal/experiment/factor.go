package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/jsonschema"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
)

// Factors with a meaning of their own outside the table.
const (
	MeshFactor        = "mesh"
	RateFactor        = "rate"
	ConnectionsFactor = "connections"
	ReplicasFactor    = "replicas"

	ConnectionRateFactor = "connectionRate"
	ApplicationFactor    = "application"

	BackgroundServicesFactor = "backgroundServices"
	BackgroundChangesFactor  = "backgroundChanges"
	BackgroundProxiesFactor  = "backgroundProxies"
	BackgroundPodsFactor     = "backgroundPods"

	RequestSizeFactor  = "requestSize"
	ResponseSizeFactor = "responseSize"
)

// Table lists every factor. Reading, defaults, schema, plan and report take factors from it, in this order.
// A new factor is a row here and the field of [Levels] that the row sets.
var Table = []Factor{
	Column[string]{
		Name: MeshFactor, Default: "none", Text: "Meshes to compare; none is the application alone.",
		Field:     func(l *Levels) *string { return &l.Mesh },
		bounds:    func(n Names) bounds { return examples(n.Meshes) },
		check:     func(v factorRules, path, x string) { v.validation.check(path, x, oneOf(MeshFactor, v.meshNames()...)) },
		twiceHint: "for a second run of the baseline write control: true",
	}.Factor(),
	Column[RateLevel]{
		Name: RateFactor, Default: RateLevel{Rate: 1000}, Token: "rate", Text: "Requests per second in an open loop; max: a closed loop, as fast as the connections allow; {max: OBJECTIVE}: the highest rate with an objective.",
		get:   func(l Levels) RateLevel { return RateLevel{l.Rate, l.Capacity} },
		set:   func(l *Levels, x RateLevel) { l.Rate, l.Capacity = x.Rate, x.Capacity },
		check: factorRules.rate,
	}.Factor(),
	Column[int]{
		Name: ConnectionsFactor, Default: 16, Token: "conn", Text: "Connections of the load generator.",
		Field:  func(l *Levels) *int { return &l.Connections },
		bounds: func(Names) bounds { return between(1, maxConnections, "") },
	}.Factor(),
	Column[int]{
		Name: ConnectionRateFactor, written: 0, Token: "newconn", Text: "New connections per second: the load generator replaces a connection after as many requests as make that rate; 0 keeps connections.",
		Field:  func(l *Levels) *int { return &l.ConnectionRate },
		bounds: func(Names) bounds { return between(0, load.MaxRate, "") },
	}.Factor(),
	Column[int]{
		Name: ReplicasFactor, Default: 1, Token: "rep", Text: "Replicas of each service.",
		Field:  func(l *Levels) *int { return &l.Replicas },
		bounds: func(Names) bounds { return between(1, maxReplicas, "") },
	}.Factor(),
	Column[Size]{
		Name: RequestSizeFactor, Default: 0, Token: "req", Text: "Bytes of the request's body: 512, 1KiB, 1MB.",
		Field:  func(l *Levels) *Size { return &l.RequestSize },
		bounds: func(Names) bounds { return between(0, maxBodySize, "") },
	}.Factor(),
	Column[Size]{
		Name: ResponseSizeFactor, Default: 1024, Token: "resp", Text: "Bytes of the response's body: 512, 1KiB, 1MB.",
		Field:  func(l *Levels) *Size { return &l.ResponseSize },
		bounds: func(Names) bounds { return between(0, maxBodySize, "") },
	}.Factor(),
	Column[string]{
		Name: "protocol", Default: app.HTTP1, Text: "Protocol of the requests.",
		Field:  func(l *Levels) *string { return &l.Protocol },
		bounds: func(n Names) bounds { return oneOf("protocol", n.Protocols...) },
	}.Factor(),
	Column[string]{
		Name: "generator", Default: "tare", Text: "Load generators to compare on one server; what each measures: docs/reference/generators.md.",
		Field:  func(l *Levels) *string { return &l.Generator },
		bounds: func(n Names) bounds { return oneOf("generator", n.Generators...) },
	}.Factor(),
	Column[string]{
		Name: "route", written: "/", Text: "Path requested from the entry; several with commas between are requested in turn; /* is every route of the entry's program.",
		Field:  func(l *Levels) *string { return &l.Route },
		bounds: func(Names) bounds { return form(func(level *jsonschema.Schema) { level.Pattern = "^/" }) },
		check:  factorRules.route,
	}.Factor(),
	Column[string]{
		Name: ApplicationFactor, Text: "Applications to compare, instead of one in application: entries of applications, and topologies by name or file.",
		Field:  func(l *Levels) *string { return &l.Application },
		bounds: func(n Names) bounds { return examples(n.topologies()) },
		check:  factorRules.application,
	}.Factor(),
	Column[string]{
		Name: "placement", Text: "Services on one node (same-node), or each on a node without another (other-nodes); default: platform.affinity. Kubernetes.",
		Field:  func(l *Levels) *string { return &l.Placement },
		bounds: func(Names) bounds { return oneOf("placement", placements...) },
		check:  factorRules.placement,
	}.Factor(),
	Column[int]{
		Name: BackgroundServicesFactor, Token: "behind", Text: "Services that no request calls, which the control plane and each proxy know.",
		Field:  func(l *Levels) *int { return &l.BackgroundServices },
		bounds: func(Names) bounds { return between(0, maxBackgroundServices, "") },
	}.Factor(),
	Column[PerSecond]{
		Name: BackgroundChangesFactor, Token: "changing", Text: "Changes of their endpoints during the measure phase: 2/s.",
		Field:  func(l *Levels) *PerSecond { return &l.BackgroundChanges },
		bounds: func(Names) bounds { return between(0, maxBackgroundChanges, "") },
	}.Factor(),
	Column[int]{
		Name: BackgroundProxiesFactor, Token: "proxies", Text: "Simulated proxies, which the control plane configures beside the real ones.",
		Field:  func(l *Levels) *int { return &l.BackgroundProxies },
		bounds: func(Names) bounds { return between(0, mesh.MaxBackgroundProxies, "") },
	}.Factor(),
	Column[int]{
		Name: BackgroundPodsFactor, Token: "pods", Text: "Pods of background services, on simulated nodes. Kubernetes.",
		Field:  func(l *Levels) *int { return &l.BackgroundPods },
		bounds: func(Names) bounds { return between(0, maxBackgroundPods, "") },
	}.Factor(),
}

// Column describes a factor whose levels have type T.
type Column[T comparable] struct {
	Name    string
	Text    string // meaning, for the schema and the reference page
	Default T      // the level of experiments that do not name the factor, zero for no level
	Token   string // prefix of a level in treatment names: "rate" makes rate1000
	// Field is where a treatment keeps its level. Nil means that get and set use several fields.
	Field func(*Levels) *T
	get   func(Levels) T
	set   func(*Levels, T)

	bounds    func(Names) bounds                        // of a level, may be nil
	check     func(v factorRules, path string, level T) // reports a level that does not suit other fields, may be nil
	twiceHint string
	written   any // the default as the file writes it, if it is not Default
}

// Factor is a row of [Table]: a [Column] without the type of its levels.
type Factor struct {
	Name, Text string

	twiceHint string
	written   any                           // default as the file writes it, nil for none
	list, one func() any                    // pointers to a new list of levels, and to a new level
	levels    func(list any) []Level        // of a list
	apply     func(l *Levels, level any)    // sets one level
	preset    func(*Levels)                 // sets the default
	value     func(Levels) any              // of a treatment
	level     func(Levels) Level            // of a treatment, with its forms
	check     func(v factorRules, list any) // reports levels that are not possible
	schema    func(Names) *jsonschema.Schema
	print     func(value any) string // a level of a record, as the file writes it
}

// Factor returns the table row of a column.
func (c Column[T]) Factor() Factor {
	if c.Field != nil {
		c.get, c.set = func(l Levels) T { return *c.Field(&l) }, func(l *Levels, x T) { *c.Field(l) = x }
	}
	level := func(x T) Level {
		return Level{Value: record(x), Token: c.Token + fmt.Sprint(x), Apply: func(l *Levels) { c.set(l, x) }}
	}
	levels := func(list any) []Level {
		from, _ := list.([]T)
		return lists.Map(from, level)
	}
	return Factor{
		Name: c.Name, Text: c.Text, twiceHint: c.twiceHint, written: c.defaultLevel(), levels: levels, print: printLevel[T],
		list: func() any { return new([]T) },
		one:  func() any { return new(T) },
		apply: func(l *Levels, level any) {
			if x, ok := level.(T); ok {
				c.set(l, x)
			}
		},
		preset: func(l *Levels) { c.set(l, c.Default) },
		value:  func(l Levels) any { return c.get(l) },
		level:  func(l Levels) Level { return level(c.get(l)) },
		check: func(v factorRules, list any) {
			xs, _ := list.([]T)
			each(v.validation, "factors."+c.Name, xs, func(path string, x T) {
				if c.check != nil {
					c.check(v, path, x)
				}
				if c.bounds != nil {
					v.check(path, x, c.bounds(v.names))
				}
			})
		},
		schema: func(n Names) *jsonschema.Schema {
			s := scalarSchema(reflect.TypeFor[T]())
			if c.bounds != nil {
				c.bounds(n).describe(s)
			}
			return s
		},
	}
}

// defaultLevel is the default as the file writes it.
func (c Column[T]) defaultLevel() any {
	var zero T
	switch x := any(c.Default).(type) {
	case Size:
		if x == 0 {
			return 0
		}
		return x.String()
	case RateLevel:
		return float64(x.Rate)
	}
	if c.Default == zero {
		return c.written
	}
	return c.Default
}

// record returns a level's form in records and reports: a string or a float64, for a lossless JSON round trip.
func record(level any) any {
	switch x := level.(type) {
	case RateLevel:
		if x.Rate == Max {
			return x.String()
		}
		return float64(x.Rate)
	case Size:
		return float64(x)
	case int:
		return float64(x)
	case PerSecond:
		return float64(x)
	}
	return fmt.Sprint(level)
}

// PrintLevel prints a level of a record as the experiment file writes it.
func PrintLevel(factor string, value any) string {
	if f, ok := row(factor); ok {
		return f.print(value)
	}
	return printLevel[any](value)
}

func printLevel[T any](value any) string {
	number, ok := value.(float64)
	if !ok {
		return fmt.Sprint(value)
	}
	switch reflect.TypeFor[T]() {
	case reflect.TypeFor[Size]():
		return Size(number).String()
	case reflect.TypeFor[PerSecond]():
		return PerSecond(number).String()
	}
	return strconv.FormatFloat(number, 'f', -1, 64)
}

// LevelOf is a level of a factor of the table, where levels have one. It is not ok without the factor.
func LevelOf(factor string, levels Levels) (Level, bool) {
	f, ok := row(factor)
	if !ok {
		return Level{}, false
	}
	return f.level(levels), true
}

// Factors are lists of levels by the factor's name, each a slice of the type of the factor's [Column]. Their
// product is the treatments. An absent factor has its default as its only level and is not reported.
type Factors map[string]any

// LevelsOf returns the levels of a factor, or nil if the factors do not name it.
func LevelsOf[T any](f Factors, name string) []T {
	xs, _ := f[name].([]T)
	return xs
}

// NamedFactor is a factor that the file names, with its levels in the file's order.
type NamedFactor struct {
	Name   string
	Levels []Level
}

type Level struct {
	// Value is the level in records and reports: a string, or a float64.
	Value any
	// Token is a short form for names, e.g. "rate1000", which is not yet safe for file names.
	Token string
	// Apply sets this level.
	Apply func(*Levels)
}

// Named lists the factors that the file names, in the order of [Table].
func (f Factors) Named() []NamedFactor {
	var named []NamedFactor
	for _, x := range Table {
		if levels := x.levels(f[x.Name]); len(levels) > 0 {
			named = append(named, NamedFactor{x.Name, levels})
		}
	}
	return named
}

func (Factors) Fields() []string { return FactorNames() }

func (f *Factors) Field(name string) (value any, store func()) {
	x, _ := row(name)
	return field(f, name, x.list)
}

// MarshalYAML writes the factors in the order of [Table].
func (f Factors) MarshalYAML() (any, error) { return orderedYAML(f) }

// MarshalJSON writes the factors in the order of [Table].
func (f Factors) MarshalJSON() ([]byte, error) { return orderedJSON(f) }

// Baseline holds the levels of the baseline treatment, by factor. For an absent factor, a treatment's baseline has
// the treatment's own level. Nil: no comparison.
type Baseline map[string]any

// Apply sets in l the levels that the baseline names.
func (b Baseline) Apply(l *Levels) {
	for _, f := range Table {
		if level, ok := b[f.Name]; ok {
			f.apply(l, level)
		}
	}
}

// Differences counts the factors in which l differs from the baseline.
func (b Baseline) Differences(l Levels) (n int) {
	for name, level := range b {
		other := l
		Baseline{name: level}.Apply(&other)
		if other != l {
			n++
		}
	}
	return n
}

func (Baseline) Fields() []string { return FactorNames() }

// FactorNames lists every factor by its name in the file, in order.
func FactorNames() []string {
	return lists.Map(Table, func(f Factor) string { return f.Name })
}

func (b *Baseline) Field(name string) (value any, store func()) {
	x, _ := row(name)
	return field(b, name, x.one)
}

func row(name string) (Factor, bool) {
	return lists.First(Table, func(f Factor) bool { return f.Name == name })
}

// MarshalYAML writes the levels in the order of [Table].
func (b Baseline) MarshalYAML() (any, error) { return orderedYAML(b) }

// MarshalJSON writes the levels in the order of [Table].
func (b Baseline) MarshalJSON() ([]byte, error) { return orderedJSON(b) }

// field returns a pointer to a new value, and a function that stores the value in m.
func field[M ~map[string]any](m *M, name string, pointer func() any) (any, func()) {
	p := pointer()
	return p, func() {
		if *m == nil {
			*m = M{}
		}
		if v := reflect.ValueOf(p).Elem(); v.Kind() != reflect.Slice || !v.IsNil() {
			(*m)[name] = v.Interface()
		}
	}
}

func orderedYAML(m map[string]any) (any, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range Table {
		x, ok := m[f.Name]
		if !ok || isEmptyList(x) {
			continue
		}
		var v yaml.Node
		if err := v.Encode(x); err != nil {
			return nil, fmt.Errorf("render factor %s: %w", f.Name, err)
		}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: f.Name}, &v)
	}
	return n, nil
}

func orderedJSON(m map[string]any) ([]byte, error) {
	if m == nil {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for _, f := range Table {
		x, ok := m[f.Name]
		if !ok || isEmptyList(x) {
			continue
		}
		v, err := json.Marshal(x)
		if err != nil {
			return nil, fmt.Errorf("render factor %s: %w", f.Name, err)
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", f.Name, v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func isEmptyList(x any) bool {
	v := reflect.ValueOf(x)
	return v.Kind() == reflect.Slice && v.Len() == 0
}

// Levels is one level of every factor.
type Levels struct {
	Mesh        string `json:"mesh"`        // mesh
	Rate        Rate   `json:"rate"`        // requests per second, or 0 for `max`, the closed loop
	Connections int    `json:"connections"` // connections of the load generator
	Replicas    int    `json:"replicas"`    // replicas of each service

	ConnectionRate int `json:"connectionRate,omitempty"` // new connections per second, 0 to keep connections

	RequestSize  Size   `json:"requestSize"`         // body of a request, bytes
	ResponseSize Size   `json:"responseSize"`        // body of a response, bytes
	Protocol     string `json:"protocol"`            // protocol of the load
	Generator    string `json:"generator"`           // load generator
	Route        string `json:"route,omitempty"`     // path of the requests
	Application  string `json:"topology,omitempty"`  // application, if it is a factor
	Placement    string `json:"placement,omitempty"` // of services on nodes

	BackgroundServices int       `json:"backgroundServices,omitempty"` // services that no request calls
	BackgroundChanges  PerSecond `json:"backgroundChanges,omitempty"`  // changes of their endpoints per second
	BackgroundProxies  int       `json:"backgroundProxies,omitempty"`  // simulated proxies
	BackgroundPods     int       `json:"backgroundPods,omitempty"`     // pods of these services, on simulated nodes

	Capacity Capacity `json:"capacity,omitzero"` // search for the rate before each trial, and then rate is 0
}

// DefaultLevels are the levels of an experiment that names no factor.
func DefaultLevels() Levels {
	var l Levels
	for _, f := range Table {
		f.preset(&l)
	}
	return l
}

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
