package page

import (
	"fmt"
	"io"
	"strings"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/show/report"
)

// mostLinked is the largest number of curves in the contents. With more, only curves of CPU are there.
const mostLinked = 6

// WriteForecasts writes the page of tare forecast.
func WriteForecasts(w io.Writer, f report.Forecasts, tare string) error {
	p := Prediction{
		Name: "tare forecast", Tare: tare, Schema: f.Schema, Command: "tare forecast", Steps: f.Next,
		Text: func(w io.Writer) error { return report.ForecastsForms()[0].Write(w, f) },
	}
	for _, x := range f.Forecasts {
		part := Part{Title: report.ForecastFor(f, x), Facts: report.ForecastFacts(f, x)}
		if table := report.ForecastServices(x); len(table.Rows) > 0 {
			part.Table = &table
		}
		p.Parts = append(p.Parts, part)
		for _, u := range x.Curves {
			drawn := usedCurve(u)
			drawn.Unlinked = len(x.Curves) > mostLinked && u.Kind != predict.CPU
			if len(f.Forecasts) > 1 {
				drawn.Title = x.Mesh + ", " + drawn.Title
			}
			p.Curves = append(p.Curves, drawn)
		}
		if x.Refused != "" {
			continue
		}
		p.Facts = append(p.Facts, report.Fact{Name: "Results of " + x.Mesh, Text: strings.Join(x.From, ", ")})
	}
	return WritePrediction(w, p)
}

// usedCurve draws a curve at the sizes of messages of its busiest place, with the services on it.
func usedCurve(u predict.Used) Curve {
	unit, scale := "CPU, thousandths of a core", 1000.0
	switch u.Kind {
	case predict.Memory:
		unit, scale = "Memory, MiB", 1
	case predict.Latency:
		unit, scale = "Share of the median response, ms", 1
	}
	busiest := u.Places[0]
	for _, p := range u.Places {
		if p.Rate > busiest.Rate {
			busiest = p
		}
	}
	drawn := drawnCurve(u.Curve, busiest.At, unit, scale)
	drawn.Title = u.Of + ", " + u.Protocol
	for i, axis := range u.Curve.Axes[1:] {
		if axis.Levels > 1 {
			drawn.Title += fmt.Sprintf(", %s %s", axis.Name, report.LevelWords(axis.Name, busiest.At[i+1]))
		}
	}
	for _, p := range u.Places {
		b := bandOf(p.At[0], p.Band, scale)
		b.Name = p.Service
		if u.Curve.Axes[0].Name == experiment.RateFactor && p.Rate > 0 && p.Rate < p.At[0] {
			b.Name += fmt.Sprintf(", whose %.3g requests per second are below the curve", p.Rate)
		}
		drawn.Wanted = append(drawn.Wanted, b)
	}
	return drawn
}
