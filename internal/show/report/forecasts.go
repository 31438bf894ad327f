package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/predict"
)

// Forecasts are the answer of tare forecast.
type Forecasts struct {
	Schema    string             `json:"schema"` // tare.forecast/v1
	Graph     string             `json:"graph"`  // name of the application
	Rates     map[string]float64 `json:"rates"`  // requests/s from outside, by service
	Currency  string             `json:"currency,omitempty"`
	Forecasts []predict.Forecast `json:"forecasts"` // one for each mesh that was measured
	// Command measures the rates, sizes and protocols of the graph.
	Command string `json:"command"`
}

// NewForecasts returns forecasts with the command that measures the graph's rates.
func NewForecasts(g predict.Graph, rates map[string]float64, all []predict.Forecast, currency string) (Forecasts, error) {
	flow, err := g.Spread(rates)
	if err != nil {
		return Forecasts{}, err
	}
	return Forecasts{Schema: "tare.forecast/v1", Graph: g.Name, Rates: rates, Currency: currency, Forecasts: all, Command: g.Command(flow)}, nil
}

// ForecastsForms lists every form of forecasts, the default first.
func ForecastsForms() []Form[Forecasts] {
	return Safe(
		Form[Forecasts]{"text", "what the sidecars would cost, in all and by service", writeForecasts},
		Form[Forecasts]{"json", "everything, schema tare.forecast/v1", writeJSON[Forecasts]},
	)
}

func writeForecasts(w io.Writer, f Forecasts) error {
	for i, x := range f.Forecasts {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := writeForecast(w, f, x); err != nil {
			return err
		}
	}
	return nil
}

func writeForecast(w io.Writer, f Forecasts, x predict.Forecast) error {
	fmt.Fprintf(w, "%s around %s, %s, with %s:\n", forecastName(x), f.Graph, printable.Counted(len(x.Services), "service"), entryWords(f.Rates))
	fmt.Fprintf(w, "  CPU of sidecars:  %s\n", cpuAmount(x.CPU))
	fmt.Fprintf(w, "  memory:           %s\n", memoryAmount(x.Memory))
	if x.Latency != nil {
		fmt.Fprintf(w, "  median response:  +%.3g ms (%.3g to %.3g), on %s\n", x.Latency.Estimate, x.Latency.Low, x.Latency.High, strings.Join(x.Path, " > "))
	} else {
		fmt.Fprintf(w, "  median response:  no forecast: %s\n", x.NoLatency)
	}
	if m := x.Month; m != nil {
		fmt.Fprintf(w, "  a month, as used: %.2f %s (%.2f to %.2f)\n", m.Estimate, f.Currency, m.Low, m.High)
	}
	fmt.Fprintf(w, "  half of the range of CPU: %s\n\n", causeWords(x.CPU))
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "  service\trequests/s\tcalls/s\tCPU\tmemory")
	for _, s := range x.Services {
		name := s.Service
		if s.Replicas > 1 {
			name += fmt.Sprintf(" (%d replicas)", s.Replicas)
		}
		fmt.Fprintf(tw, "  %s\t%.4g\t%.4g\t%s\t%s\n", name, s.Rate, s.Calls, cpuAmount(s.CPU), memoryAmount(s.Memory))
	}
	tw.Flush()
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
	fmt.Fprintf(w, "\nRanges hold a new deployment with %.3g %%. From %s of %s.\n", 100*x.Confidence, printable.Counted(x.Blocks, "block"), printable.And(x.From))
	if c := x.CPU.Causes; x.NoLatency != "" || c.Curve > c.Deployment || c.Range > c.Deployment {
		fmt.Fprintf(w, "To narrow it: %s\n", f.Command)
	}
	return nil
}

func forecastName(x predict.Forecast) string {
	return sizedName(predict.Size{Factors: x.Factors})
}

// entryWords are the rates from outside.
func entryWords(rates map[string]float64) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		words = append(words, fmt.Sprintf("%s requests/s at %s", Level(rates[name]), name))
	}
	return printable.And(words)
}

// causeWords are the half width of an interval, and the half widths from each cause alone.
func causeWords(a predict.Amount) string {
	text := fmt.Sprintf("%s; from a new deployment alone %s, the curve %s", cpuQuantity((a.High-a.Low)/2), cpuQuantity(a.Causes.Deployment), cpuQuantity(a.Causes.Curve))
	if a.Causes.Graph > 0 {
		text += fmt.Sprintf(", the counts of the graph %s", cpuQuantity(a.Causes.Graph))
	}
	if a.Causes.Range > 0 {
		text += fmt.Sprintf(", rates below the measured ones %s", cpuQuantity(a.Causes.Range))
	}
	return text
}

func cpuAmount(a predict.Amount) string {
	return fmt.Sprintf("%s (%s to %s)", cpuQuantity(a.Estimate), cpuQuantity(a.Low), cpuQuantity(a.High))
}

func memoryAmount(a predict.Amount) string {
	return fmt.Sprintf("%.0f MiB (%.0f to %.0f)", a.Estimate, math.Floor(a.Low), math.Ceil(a.High))
}
