package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// quantity is a metric as a person reads it.
type quantity struct {
	name  string
	unit  string
	scale float64 // from the metric's unit to this one
}

func (q quantity) unitText() string {
	if q.unit == "" {
		return ""
	}
	return " " + q.unit
}

// families names metric families in words; %s is the part.
var families = map[string]string{
	"cpu_us_per_request": "CPU/request, %s", "cpu_cores": "CPU, %s", "cpu_cores_per_1000_rps": "cores per 1000 req/s, %s",
	"memory_mib": "memory, %s", "memory_peak_mib": "peak memory, %s", "memory_pss_mib": "memory (PSS), %s",
	"context_switches_per_request": "context switches per request, %s",
	"latency_ms":                   "response time, %s", "service_ms": "service time, %s", "lateness_us": "send lateness, %s",
	"bytes_per_s": "bytes %s", "mesh_ratio": "mesh over the rest, %s", "data_plane_ratio": "data plane over the rest, %s",
	"rate": "answered requests", "error_ratio": "errors", "node_cpu_cores": "CPU of the whole machine", "probe_us": "calibration probe",
	"requests_lost": "requests that failed", "longest_outage_s": "longest outage", "recovery_s": "time to recover",
	"timeouts": "time-outs", "mesh_retries": "retries of the mesh", "mesh_timeouts": "time-outs of the mesh",
}

// parts names parts in words where their own name will not do.
var parts = map[string]string{"data": "data plane", "control": "control plane", "app": "application", "load": "load generator", "harness": "tare itself"}

// units as people write them, and the scale.
var units = map[string]struct {
	unit  string
	scale float64
}{"us": {"µs", 1}, "1/s": {"/s", 1}, "1": {"", 1}}

func quantityOf(name string) quantity {
	m, _ := metric.Lookup(name)
	q := quantity{name: name, unit: m.Unit, scale: 1}
	if u, ok := units[m.Unit]; ok {
		q.unit, q.scale = u.unit, u.scale
	}
	base := metric.Base(name)
	if base == "error_ratio" {
		q.unit, q.scale = "%", 100
	}
	words, ok := families[base]
	if !ok {
		return q
	}
	_, part, has := strings.Cut(name, "/")
	if !has {
		q.name = words
		return q
	}
	if p, ok := parts[part]; ok {
		part = p
	}
	q.name = fmt.Sprintf(words, part)
	return q
}

// labels names treatments by the factors that vary.
type labels struct {
	factors  []string // that vary
	constant []string // "rate 1000", what all treatments have in common
}

// factorOrder is the order in which factors are told; others follow by name.
var factorOrder = []string{"mesh", "rate", "connections", "replicas", "requestSize", "responseSize", "protocol", "generator", "route", "topology"}

func newLabels(r *analysis.Report) labels {
	levels := map[string]map[string]bool{}
	for _, t := range r.Treatments {
		for f, v := range t.Factors {
			if f == plan.ControlFactor { // the A/A pair is marked as such beside its label
				continue
			}
			if levels[f] == nil {
				levels[f] = map[string]bool{}
			}
			levels[f][level(v)] = true
		}
	}
	var l labels
	names := slices.SortedFunc(maps.Keys(levels), byRank)
	for _, f := range names {
		if len(levels[f]) > 1 {
			l.factors = append(l.factors, f)
			continue
		}
		for v := range levels[f] {
			l.constant = append(l.constant, f+" "+v)
		}
	}
	// Something must name the treatments even where they are all alike.
	if len(l.factors) == 0 && len(names) > 0 {
		l.factors, l.constant = names[:1], l.constant[1:]
	}
	return l
}

func byRank(a, b string) int {
	rank := func(f string) int {
		if i := slices.Index(factorOrder, f); i >= 0 {
			return i
		}
		return len(factorOrder)
	}
	return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
}

func level(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// of is a treatment in one phrase: "envoy, rate 1000".
func (l labels) of(f plan.Factors) string { return l.phrase(f, l.factors) }

func (l labels) phrase(f plan.Factors, factors []string) string {
	var words []string
	for _, name := range factors {
		v, ok := f[name]
		switch {
		case !ok:
		case name == "mesh": // its levels are names and need none
			words = append(words, level(v))
		default:
			words = append(words, name+" "+level(v))
		}
	}
	return strings.Join(words, ", ")
}

// against names t's baseline by what differs from t.
func (l labels) against(t analysis.Treatment, r *analysis.Report) string {
	for _, b := range r.Treatments {
		if b.ID != t.Baseline {
			continue
		}
		var differ []string
		for _, f := range l.factors {
			if level(b.Factors[f]) != level(t.Factors[f]) {
				differ = append(differ, f)
			}
		}
		if s := l.phrase(b.Factors, differ); s != "" {
			return s
		}
	}
	return t.Baseline
}

func (l labels) withControl(t analysis.Treatment) string {
	s := l.of(t.Factors)
	if s == "" {
		s = t.ID
	}
	if t.Control {
		s += " (A/A)"
	}
	return s
}

// columns are the labels of treatments: a column a factor.
func (l labels) columns(ts []analysis.Treatment) []column {
	if len(l.factors) == 0 {
		c := column{heads: []string{"treatment"}, left: true}
		for _, t := range ts {
			c.cells = append(c.cells, l.withControl(t))
		}
		return []column{c}
	}
	var cs []column
	for i, f := range l.factors {
		c := column{heads: []string{f}, left: i == 0}
		for _, t := range ts {
			v := none
			if x, ok := t.Factors[f]; ok {
				v = level(x)
			}
			if i == 0 && t.Control {
				v += " (A/A)"
			}
			c.cells = append(c.cells, v)
		}
		cs = append(cs, c)
	}
	return cs
}
