package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/show/loadpage"
)

// loadGate is a bound on one figure of a load: "p99 < 50ms", "errors < 0.1%", "rate >= 950".
type loadGate struct {
	text   string
	figure gateFigure
	below  bool // the figure must be below limit, else above
	equal  bool // or equal to it
	limit  float64
}

// gateFigure is a figure that a gate can bound.
type gateFigure struct {
	name string
	unit string // ms, % or /s
	of   func(*load.Report) float64
	// quantile of the figure, 0..1; negative: it is none.
	quantile float64
}

// gateFigures are in the order in which errors list them. Times are response times.
var gateFigures = []gateFigure{
	{"p50", "ms", func(r *load.Report) float64 { return r.ResponseMS.P50 }, 0.5},
	{"p75", "ms", func(r *load.Report) float64 { return r.ResponseMS.P75 }, 0.75},
	{"p90", "ms", func(r *load.Report) float64 { return r.ResponseMS.P90 }, 0.9},
	{"p95", "ms", func(r *load.Report) float64 { return r.ResponseMS.P95 }, 0.95},
	{"p99", "ms", func(r *load.Report) float64 { return r.ResponseMS.P99 }, 0.99},
	{"p99.9", "ms", func(r *load.Report) float64 { return r.ResponseMS.P999 }, 0.999},
	{"p99.99", "ms", func(r *load.Report) float64 { return r.ResponseMS.P9999 }, 0.9999},
	{"mean", "ms", func(r *load.Report) float64 { return r.ResponseMS.Mean }, -1},
	{"max", "ms", func(r *load.Report) float64 { return r.ResponseMS.Max }, 1},
	{"errors", "%", func(r *load.Report) float64 { return 100 * (1 - *r.Result.Success) }, -1},
	{"success", "%", func(r *load.Report) float64 { return 100 * *r.Result.Success }, -1},
	{"rate", "/s", func(r *load.Report) float64 { return r.Rate }, -1},
}

// parseLoadGates reads gates with commas between them.
func parseLoadGates(texts []string) ([]loadGate, error) {
	var gates []loadGate
	for _, text := range texts {
		for part := range strings.SplitSeq(text, ",") {
			g, err := parseLoadGate(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			gates = append(gates, g)
		}
	}
	return gates, nil
}

func parseLoadGate(text string) (loadGate, error) {
	g := loadGate{text: text}
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return g, fmt.Errorf("gate %q has no < or >: write it as p99 < 50ms, errors < 0.1%% or rate > 950", text)
	}
	name := strings.TrimSpace(text[:at])
	i := slices.IndexFunc(gateFigures, func(f gateFigure) bool { return f.name == name })
	if i < 0 {
		var known []string
		for _, f := range gateFigures {
			known = append(known, f.name)
		}
		return g, fmt.Errorf("gate %q: unknown figure %q: %s", text, name, strict.DidYouMean(name, known))
	}
	g.figure, g.below = gateFigures[i], text[at] == '<'
	limit, equal := strings.CutPrefix(text[at+1:], "=")
	g.equal = equal
	var err error
	if g.limit, err = g.figure.parse(strings.TrimSpace(limit)); err != nil {
		return g, fmt.Errorf("gate %q: %w", text, err)
	}
	return g, nil
}

// parse reads a limit in the figure's unit.
func (f gateFigure) parse(text string) (float64, error) {
	number := text
	switch f.unit {
	case "ms":
		if d, err := time.ParseDuration(text); err == nil {
			return float64(d) / 1e6, nil
		}
	case "%":
		number = strings.TrimSpace(strings.TrimSuffix(text, "%"))
	case "/s":
		number = strings.TrimSpace(strings.TrimSuffix(text, "/s"))
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not a limit of %s, such as %s", text, f.name, map[string]string{"ms": "50ms", "%": "0.1%", "/s": "950"}[f.unit])
	}
	return v, nil
}

// check compares the report with the gate. undecided is the reason why it cannot be
// decided.
func (g loadGate) check(r *load.Report) (holds bool, value float64, undecided string) {
	switch {
	case r.Result.Success == nil:
		return false, 0, "no request was measured"
	case g.figure.unit != "ms":
	case r.ResponseMS.Count == 0:
		return false, 0, "no request succeeded, so there are no response times"
	case g.figure.quantile >= 0 && 1-*r.Result.Success > 1-g.figure.quantile:
		return false, 0, fmt.Sprintf("%.4g %% of the requests failed, so the %s of all requests has no time", 100*(1-*r.Result.Success), g.figure.name)
	}
	value = g.figure.of(r)
	switch {
	case value == g.limit:
		holds = g.equal
	default:
		holds = (value < g.limit) == g.below
	}
	if !holds && !r.Generator.OK && g.figure.unit != "%" { // its lateness only adds to times
		return false, 0, fmt.Sprintf("the generator was the limit, and %s with it", g.figure.text(value))
	}
	return holds, value, ""
}

// gatesOf checks every gate against the report.
func (f *loadFlags) gatesOf(r *load.Report) (checked []loadpage.Gate) {
	for _, g := range f.checkedGates {
		var text string
		holds, value, undecided := g.check(r)
		switch {
		case undecided != "":
			text = fmt.Sprintf("gate %q cannot be decided: %s", g.text, undecided)
		case holds:
			text = fmt.Sprintf("gate %q holds: %s", g.text, g.figure.text(value))
		default:
			text = fmt.Sprintf("gate %q does not hold: %s", g.text, g.figure.text(value))
		}
		checked = append(checked, loadpage.Gate{Text: text, Holds: holds})
	}
	return checked
}

// text is a value with the figure's unit.
func (f gateFigure) text(value float64) string {
	number := strconv.FormatFloat(value, 'g', 4, 64)
	if value >= 1000 {
		number = strconv.FormatFloat(value, 'f', 0, 64)
	}
	return f.name + " " + number + map[string]string{"ms": " ms", "%": " %", "/s": "/s"}[f.unit]
}
