package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// marker precedes the results in a page.
const marker = "<!-- make bench-forecast writes the rest -->\n"

// fill replaces the part of a page after the marker.
func fill(page, text string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, _, found := strings.Cut(string(old), marker)
	if !found {
		return fmt.Errorf("%s has no line %q", page, strings.TrimSpace(marker))
	}
	return os.WriteFile(page, []byte(head+marker+"\n"+text), 0o644)
}

// quantity is a cost that was forecast and measured.
type quantity struct {
	name, unit string
	scale      float64 // of the table
	measured   func(application) float64
	expected   func(predict.Forecast) *predict.Amount
}

var quantities = []quantity{
	{"CPU", "millicores", 1000, func(a application) float64 { return a.cpu }, func(f predict.Forecast) *predict.Amount { return &f.CPU }},
	{"memory", "MiB", 1, func(a application) float64 { return a.memory }, func(f predict.Forecast) *predict.Amount { return &f.Memory }},
	{"median", "ms added", 1, application.added, func(f predict.Forecast) *predict.Amount { return f.Latency }},
}

// results are the conditions, a summary of each quantity, and the table.
func (p program) results(curve string, all []application) (string, error) {
	var b strings.Builder
	d, err := result.Open(curve)
	if err != nil {
		return "", err
	}
	defer d.Close()
	e := d.Environment()
	day := func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04") }
	fmt.Fprintf(&b, "## Measured\n\nThe curve began on %s UTC: %d blocks. %d %ss (%s), Envoy %s, tare %s, seed %d.", day(e.Time), d.Plan().Blocks, e.CPUs, "CPU", e.CPUModel, e.Versions["envoy"], e.Tare, p.seed)
	if len(all) > 0 {
		written := slices.MaxFunc(all, func(x, y application) int { return x.written.Compare(y.written) }).written
		first := slices.MinFunc(all, func(x, y application) int { return x.started.Compare(y.started) }).started
		last := slices.MaxFunc(all, func(x, y application) int { return x.started.Compare(y.started) }).started
		var loads []float64
		for _, a := range all {
			loads = append(loads, a.load)
		}
		fmt.Fprintf(&b, " The last forecast was written at %s. Applications were measured from %s to %s.", written.UTC().Format("15:04:05"), first.UTC().Format("15:04:05"), last.UTC().Format("15:04:05"))
		fmt.Fprintf(&b, " Load averages before them: %.1f to %.1f.", slices.Min(loads), slices.Max(loads))
		if first.Before(written) {
			return "", fmt.Errorf("an application was measured at %v, before the last forecast was written at %v", first, written)
		}
	}
	b.WriteString("\n\n| quantity | held | of | 95 % interval | half of a range, median | measured / forecast, mean | its standard deviation |\n|---|---|---|---|---|---|---|\n")
	for _, q := range quantities {
		b.WriteString(q.summary(all))
	}
	b.WriteString("\n## Every application\n\nForecasts have the estimate and the 95 % range.\n\n| application | requests/s")
	for _, q := range quantities {
		fmt.Fprintf(&b, " | %s, %s | forecast", q.name, q.unit)
	}
	b.WriteString(" |\n|---|---" + strings.Repeat("|---|---", len(quantities)) + "|\n")
	for _, a := range all {
		fmt.Fprintf(&b, "| %s | %d", a.shape, a.rate)
		for _, q := range quantities {
			b.WriteString(q.cells(a))
		}
		b.WriteString(" |\n")
	}
	return b.String(), nil
}

// summary is the row of a quantity.
func (q quantity) summary(all []application) string {
	held, n := 0, 0
	var halves, ratios []float64
	for _, a := range all {
		x, v := q.expected(a.expected), q.measured(a)
		if x == nil || math.IsNaN(v) {
			continue
		}
		n++
		if holds(x, v) {
			held++
		}
		halves, ratios = append(halves, (x.High-x.Low)/2/x.Estimate), append(ratios, v/x.Estimate)
	}
	if n == 0 {
		return fmt.Sprintf("| %s | 0 | 0 | | | | |\n", q.name)
	}
	const tail = 0.025
	low := 1 - stats.ShareBound(int64(n-held), int64(n), tail)
	return fmt.Sprintf("| %s | %d | %d | %.0f to %.0f %% | %.0f %% | %.3f | %.3f |\n", q.name, held, n, 100*low, 100*stats.ShareBound(int64(held), int64(n), tail), 100*stats.Quantile(halves, 0.5), stats.Mean(ratios), stats.SD(ratios))
}

func holds(x *predict.Amount, v float64) bool { return v >= x.Low && v <= x.High }

// cells are the measured cost and the forecast.
func (q quantity) cells(a application) string {
	x, v := q.expected(a.expected), q.measured(a)
	text := "unknown"
	if !math.IsNaN(v) {
		text = fmt.Sprintf("%.3g", v*q.scale)
	}
	switch {
	case x == nil:
		return fmt.Sprintf(" | %s | refused", text)
	case !math.IsNaN(v) && !holds(x, v):
		text += " **missed**"
	}
	return fmt.Sprintf(" | %s | %.3g, %.3g to %.3g", text, x.Estimate*q.scale, x.Low*q.scale, x.High*q.scale)
}
