package capacity

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/condition"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// Figures are the results of one load.
type Figures struct {
	Success  *float64 // share of the requests, nil if none was measured
	Answered float64  // answers per second
	// TimesMS are the response times of successful requests by the names of figures, in ms, empty if none
	// succeeded.
	TimesMS map[string]float64
	// GeneratorOK is false if the generator was the limit, not the server.
	GeneratorOK bool

	Intended, Completed int64
	Growth              int64 // of the backlog
}

// Bound is a bound on one figure of a load: "p99 < 50ms", "errors < 0.1%", "rate >= 950".
type Bound struct {
	Text    string
	figure  figure
	compare condition.Comparison
	limit   float64
}

// figure is a figure that can be bounded.
type figure struct {
	name string
	unit string // ms, % or /s
	// quantile of the response times, 0..1, negative if it is none.
	quantile float64
}

// figures are in the order in which errors list them. Times are response times.
var figures = []figure{
	{"p50", "ms", 0.5},
	{"p75", "ms", 0.75},
	{"p90", "ms", 0.9},
	{"p95", "ms", 0.95},
	{"p99", "ms", 0.99},
	{"p99.9", "ms", 0.999},
	{"p99.99", "ms", 0.9999},
	{"mean", "ms", -1},
	{"max", "ms", 1},
	{"errors", "%", -1},
	{"success", "%", -1},
	{"rate", "/s", -1},
}

// ParseBounds reads bounds with commas between them.
func ParseBounds(text string) ([]Bound, error) {
	var bounds []Bound
	for part := range strings.SplitSeq(text, ",") {
		b, err := parseBound(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		bounds = append(bounds, b)
	}
	return bounds, nil
}

func parseBound(text string) (Bound, error) {
	b, t := Bound{Text: text}, condition.New(text)
	name := strings.TrimSpace(t.While(func(r rune) bool { return !condition.IsSign(r) }))
	compare, ok := condition.Compare(t.While(condition.IsSign))
	if !ok || compare.Sign == "==" || compare.Sign == "!=" {
		return b, fmt.Errorf("%.60q has no < or >: write it as p99 < 50ms, errors < 0.1%% or rate > 950", text)
	}
	i := slices.IndexFunc(figures, func(f figure) bool { return f.name == name })
	if i < 0 {
		known := lists.Map(figures, func(f figure) string { return f.name })
		return b, fmt.Errorf("%.60q: unknown figure %.20q: %s", text, name, strict.DidYouMean(name, known))
	}
	b.figure, b.compare = figures[i], compare
	var err error
	if b.limit, err = b.figure.parse(strings.TrimSpace(t.While(func(rune) bool { return true }))); err != nil {
		return b, fmt.Errorf("%.60q: %w", text, err)
	}
	return b, nil
}

// parse reads a limit in the figure's unit.
func (f figure) parse(text string) (float64, error) {
	number := text
	switch f.unit {
	case "ms":
		if d, err := time.ParseDuration(text); err == nil {
			return float64(d) / 1e6, nil
		}
	case "%":
		v, err := ParseShare(text)
		if err != nil {
			return 0, fmt.Errorf("limit of %s: %w", f.name, err)
		}
		return v, nil
	case "/s":
		number = strings.TrimSpace(strings.TrimSuffix(text, "/s"))
	}
	v, err := strict.Number(number)
	if err != nil {
		return 0, fmt.Errorf("%.20q is not a limit of %s, such as %s", text, f.name, map[string]string{"ms": "50ms", "/s": "950"}[f.unit])
	}
	return v, nil
}

// ParseShare reads a share of requests, "99.9%" or 0.999, in percent. A number from 1 on without % has no clear
// meaning.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	number = strings.TrimSpace(number)
	v, err := strict.Number(number)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%.20q is not a share, such as 99.9%% or 0.999", text)
	case percent && v >= 0 && v <= 100:
		return v, nil
	case percent || v < 0 || v > 100:
		return 0, fmt.Errorf("%.20q is not between 0%% and 100%%", text)
	case v >= 1:
		return 0, fmt.Errorf("%.20q without %% is not below 1: write %s%% or %g", text, number, v/100)
	}
	return strconv.ParseFloat(strconv.FormatFloat(v, 'f', -1, 64)+"e2", 64) // exact, which 100*v is not
}

// OfFailures reports whether the bound is on the share of requests that fail or succeed.
func (b Bound) OfFailures() bool { return b.figure.unit == "%" }

// Check compares a load with the bound. undecided is the reason why it cannot be decided.
func (b Bound) Check(x *Figures) (holds bool, value float64, undecided string) {
	switch {
	case x.Success == nil:
		return false, 0, "no request was measured"
	case b.figure.unit != "ms":
	case len(x.TimesMS) == 0:
		return false, 0, "no request succeeded, so there are no response times"
	case b.figure.quantile >= 0 && 1-*x.Success > 1-b.figure.quantile:
		return false, 0, fmt.Sprintf("%.4g %% of the requests failed, so the %s of all requests has no time", 100*(1-*x.Success), b.figure.name)
	}
	value = b.figure.value(x)
	if holds = b.compare.Holds(value, b.limit); !holds && !x.GeneratorOK && b.figure.unit != "%" { // its lateness only adds to times
		return false, 0, fmt.Sprintf("the generator was the limit, and %s with it", b.Value(value))
	}
	return holds, value, ""
}

// TimeLimit returns the percentile and its upper limit in ms, if the bound is one of response times.
func (b Bound) TimeLimit() (percentile string, ms float64, ok bool) {
	return b.figure.name, b.limit, b.compare.Upper() && b.figure.quantile > 0 && b.figure.quantile < 1
}

// value returns the figure of a load, in its unit.
func (f figure) value(x *Figures) float64 {
	switch f.name {
	case "errors":
		return 100 * (1 - *x.Success)
	case "success":
		return 100 * *x.Success
	case "rate":
		return x.Answered
	}
	return x.TimesMS[f.name]
}

// Value is a value of the bound's figure in words: "p99 51.2 ms".
func (b Bound) Value(value float64) string {
	number := strconv.FormatFloat(value, 'g', 4, 64)
	if value >= 1000 {
		number = strconv.FormatFloat(value, 'f', 0, 64)
	}
	return b.figure.name + " " + number + map[string]string{"ms": " ms", "%": " %", "/s": "/s"}[b.figure.unit]
}
