package page

import "github.com/tare-mesh/tare/internal/metric"

// Drawing is one figure for a file.
type Drawing struct {
	Figure string // one of [Figures], by ID
	// Choices as a reader of the page makes them, such as metric. Absent means the page's first.
	Choices map[string]string
	Width   float64 // px, 1/96 inch
	Columns int     // of panels
	Theme   string  // light or dark
	NoTitle bool
}

// Figures lists the figures that figures.js draws, in the order of the page.
var Figures = []struct{ ID, Doc string }{
	{"differences", "difference to the baseline with intervals, and the band of noise"},
	{"ladder", "what each step of a ladder adds, by report --ladder"},
	{"bill", "CPU per request and memory by plane"},
	{"trials", "every trial in order of time, and slices (--choose metric=NAME, block=N)"},
	{"latency", "percentiles of response and service time, and one trial's times (--choose trial=ID)"},
	{metric.Capacity, "response time against rate with the objective (--choose part=p99)"},
	{"slopes", "cost of each item of a background, with the fitted lines (--choose items=FACTOR, metric=NAME)"},
	{"rate", "cost against rate with the fitted line and its band (--choose part=NAME)"},
	{"timeline", "one trial, second by second (--choose trial=ID)"},
	{"soak", "memory, CPU and response times over a soak, a panel a treatment"},
	{"memory", "resident memory over the measure phase, where it grows or is measured for long"},
	{"change-times", "time of changes by treatment: distribution with its band"},
	{"change-failures", "failed requests around changes, zero at the change"},
	{"change-cpu", "CPU of changes by plane"},
	{"boundary", "the change after each block against the limit of a gate (--choose gate=N)"},
	{"changes", "what changed: BASE… NEW, as tare compare"},
	{"history", "run by run, with change points (--choose series=N)"},
}
