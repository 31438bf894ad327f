package metric

import (
	"maps"
	"slices"
)

// unitScales turn a unit that people write into that of a metric.
var unitScales = map[string]map[string]float64{
	"us":    {"us": 1, "µs": 1, "μs": 1, "ns": 1e-3, "ms": 1e3, "s": 1e6},
	"ms":    {"ms": 1, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ns": 1e-6, "s": 1e3},
	"cores": {"cores": 1, "core": 1, "m": 1e-3},
	"MiB":   {"MiB": 1, "KiB": 1.0 / 1024, "GiB": 1024},
	"1/s":   {"1/s": 1, "/s": 1, "rps": 1},
	"B/s":   {"B/s": 1, "kB/s": 1e3, "MB/s": 1e6},
}

// Scale is what a value in unit is multiplied by to be in the metric's own; no
// unit is the metric's own.
func (m Metric) Scale(unit string) (float64, bool) {
	if unit == "" {
		return 1, true
	}
	s, ok := unitScales[m.Unit][unit]
	return s, ok
}

// Units are those that Scale knows, in order.
func (m Metric) Units() []string { return slices.Sorted(maps.Keys(unitScales[m.Unit])) }
