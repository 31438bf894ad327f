package metric

import (
	"maps"
	"slices"
)

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
