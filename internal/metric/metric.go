// Package metric is the table of everything tare measures. A metric exists when
// it has a row in the table. Analysis, reports, gates, exports, imports and
// `tare list metrics` read its properties from there.
//
// A name is "<base>/<part>", or the base alone. For resources the part is a
// plane or a sum of planes ([Parts]), for times a quantile or the mean.
package metric

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
)

// Direction is the way in which a metric improves.
type Direction int

const (
	Neither        Direction = iota // a description, neither good nor bad
	LowerIsBetter                   // cost, latency, errors
	HigherIsBetter                  // throughput
)

func (d Direction) String() string {
	return [...]string{"neither", "lower", "higher"}[d]
}

// Of is the name of a part of a metric.
func Of(base, part string) string { return base + "/" + part }

// metrics are the rows' metrics in order, index their places by name.
var metrics, index = expand(rows)

func expand(rows []Row) ([]Metric, map[string]int) {
	var all []Metric
	for i := range rows {
		all = append(all, rows[i].metrics()...)
	}
	places := make(map[string]int, len(all))
	for i, m := range all {
		places[m.Name] = i
	}
	return all, places
}

// All lists every metric except metrics of routes, in the order of reports. The slice is
// shared, so do not change it.
func All() []Metric { return metrics }

// Known lists the metrics that are keys of any of the maps, in the order of reports.
func Known[V any](values ...map[string]V) []Metric {
	names := Names(values...)
	var known []Metric
	for i := range rows {
		if rows[i].Routes {
			known = append(known, routes(&rows[i], names)...)
			continue
		}
		for _, m := range rows[i].metrics() {
			if names[m.Name] {
				known = append(known, m)
			}
		}
	}
	return known
}

// Names are the keys of all maps.
func Names[V any](values ...map[string]V) map[string]bool {
	names := map[string]bool{}
	for _, m := range values {
		for name := range m {
			names[name] = true
		}
	}
	return names
}

// routes lists the metrics of a row whose parts are routes.
func routes(r *Row, names map[string]bool) (all []Metric) {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if part, ok := PartOf(r.Name, name); ok {
			all = append(all, r.metric(part))
		}
	}
	return all
}

// PartOf returns the part of name, if name is one of base.
func PartOf(base, name string) (part string, ok bool) {
	return strings.CutPrefix(name, base+"/")
}

// Matches reports whether a pattern is the name of a metric, or that without its part. A * stands for any text.
func Matches(pattern, name string) bool {
	form := "^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$"
	found, err := regexp.MatchString(form, name)
	return found && err == nil || pattern == Base(name)
}

// Judgement is the comparison that a verdict rests on.
type Judgement int

const (
	// ByDifference is the default: treatment minus baseline.
	ByDifference Judgement = iota
	// ByRatio is for latencies. They are skewed, and a trial on a slow minute is
	// slow in proportion: on logarithms the blocks are alike, while the slowest
	// block rules the difference in ms.
	ByRatio
)

// Source is where the readings of a metric come from.
type Source string

const (
	Tasks      Source = "CPU and memory of tasks"
	IdleTasks  Source = "CPU and memory of tasks without load"
	Generator  Source = "report of the load generator"
	LatencyLog Source = "latency log"
	Mesh       Source = "counters of the proxies"
	Machine    Source = "CPU counter of the machine"
	Proxies    Source = "simulated proxies"
	Executions Source = "executions of programs that end"
)

// Metric is one named quantity of a trial.
type Metric struct {
	Name     string // e.g. "cpu_us_per_request/data"
	Unit     string // e.g. "us", "cores", "MiB", "ms", "1/s", "" for a ratio
	Better   Direction
	Doc      string // one sentence
	Headline bool   // reports show it without --all
	Judged   Judgement
	Source   Source
	// SpeedSensitive metrics grow when the processor is slow. They are adjusted for drift
	// within blocks, and followed over runs relative to the baseline.
	SpeedSensitive bool

	row *Row
}

// Base returns the part of name before the slash.
func Base(name string) string {
	base, _, _ := strings.Cut(name, "/")
	return base
}

// Rows lists the rows of the table. The slice is shared, so do not change it.
func Rows() []Row { return rows }

// Lookup finds a metric by its full name.
func Lookup(name string) (Metric, bool) {
	if i, ok := index[name]; ok {
		return metrics[i], true
	}
	base, route, _ := strings.Cut(name, "/")
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == base })
	if i < 0 || !rows[i].Routes || route == "" {
		return Metric{}, false
	}
	return rows[i].metric(route), true
}

// Headlines lists the names of the headline metrics in the order of reports.
func Headlines() []string {
	var names []string
	for i := range rows {
		for _, part := range rows[i].Headline {
			names = append(names, rows[i].name(part))
		}
	}
	return names
}

// Shown lists the metrics that reports show without --all: the headlines of each row,
// and the parts beside them.
func Shown() []string {
	var names []string
	for i := range rows {
		for _, part := range slices.Concat(rows[i].Headline, rows[i].Beside) {
			names = append(names, rows[i].name(part))
		}
	}
	return names
}

// FamilyTitle is the metric of a base name in words, without a part, e.g. "CPU per request".
func FamilyTitle(base string) string {
	row, _ := LookupBase(base)
	return cmp.Or(row.FamilyTitle, strings.TrimSuffix(row.Title, ", %s"), base)
}

// LookupBase finds the first row of a base name.
func LookupBase(base string) (Row, bool) {
	return lists.First(rows, func(r Row) bool { return r.Name == base })
}

// Title is the metric in words, e.g. "CPU/request, data plane".
func (m Metric) Title() string {
	if m.row == nil || m.row.Title == "" {
		return m.Name
	}
	return m.words(m.row.Title)
}

// Heads are the two lines that head a column of the metric. Values are
// multiplied by scale to be in the unit of the heads.
func (m Metric) Heads() (heads [2]string, scale float64) {
	if m.row == nil || m.row.Heads == [2]string{} {
		return [2]string{m.Name, m.Unit}, 1
	}
	scale = cmp.Or(m.row.HeadScale, 1)
	return [2]string{m.words(m.row.Heads[0]), m.words(m.row.Heads[1])}, scale
}

// words fills the metric's part into a template.
func (m Metric) words(template string) string {
	if !strings.Contains(template, "%s") {
		return template
	}
	_, part, _ := strings.Cut(m.Name, "/")
	return fmt.Sprintf(template, partTitle(part))
}

// unitScales turn a unit that people write into the metric's unit.
var unitScales = map[string]map[string]float64{
	"us":    {"us": 1, "µs": 1, "μs": 1, "ns": 1e-3, "ms": 1e3, "s": 1e6},
	"ns":    {"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9},
	"KiB":   {"KiB": 1, "B": 1.0 / 1024, "MiB": 1024},
	"ms":    {"ms": 1, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ns": 1e-6, "s": 1e3},
	"cores": {"cores": 1, "core": 1, "m": 1e-3},
	"MiB":   {"MiB": 1, "KiB": 1.0 / 1024, "GiB": 1024},
	"1/s":   {"1/s": 1, "/s": 1, "rps": 1},
	"B/s":   {"B/s": 1, "kB/s": 1e3, "MB/s": 1e6},
}

// displayUnits are the units that reports print otherwise.
var displayUnits = map[string]string{"us": "µs", "1/s": "/s", "1": ""}

// Scale is the factor from unit to the metric's own. An empty unit is the
// metric's own. It is not ok for a unit of another quantity.
func (m Metric) Scale(unit string) (float64, bool) {
	if unit == "" {
		return 1, true
	}
	s, ok := unitScales[m.Unit][unit]
	return s, ok
}

// Units are the units that Scale accepts, sorted.
func (m Metric) Units() []string { return slices.Sorted(maps.Keys(unitScales[m.Unit])) }

// Display is the unit in which reports print the metric, and the factor to it.
func (m Metric) Display() (unit string, scale float64) {
	if m.row != nil && m.row.Percent {
		return "%", 100
	}
	if u, ok := displayUnits[m.Unit]; ok {
		return u, 1
	}
	return m.Unit, 1
}
