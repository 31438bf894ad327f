package page

import (
	"io"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/show/report"
)

// WriteSizes writes the page of tare size.
func WriteSizes(w io.Writer, s report.Sizes, tare string) error {
	p := Prediction{
		Name: "tare size", Tare: tare, Schema: s.Schema, Command: "tare size",
		Facts: []report.Fact{{Name: "Results", Text: s.From}}, Steps: s.Next,
		Text: func(w io.Writer) error { return report.SizesForms()[0].Write(w, s) },
	}
	for _, size := range s.Sizes {
		p.Parts = append(p.Parts, Part{Title: report.SizedFor(s, size), Facts: report.SizeFacts(s, size)})
		if len(size.Place) == 0 {
			continue // the mean has no axis
		}
		name := report.SizedName(s, size)
		p.Curves = append(p.Curves, curveOf(size, size.Curve, name, "CPU, thousandths of a core", 1000), curveOf(size, size.MemoryCurve, name, "Memory, MiB", 1))
	}
	return WritePrediction(w, p)
}

// intervals of a drawn curve.
const intervals = 40

// curveOf draws a curve over its first axis, at the wanted levels of the others.
func curveOf(size report.Sized, c *predict.Curve, title, unit string, scale float64) Curve {
	drawn := drawnCurve(c, size.Place, unit, scale)
	drawn.Title = title
	if b, err := c.At(size.Place...); err == nil {
		drawn.Wanted = []Band{bandOf(size.Place[0], b, scale)}
	}
	return drawn
}

func bandOf(x float64, b predict.Band, scale float64) Band {
	return Band{X: x, Estimate: b.Estimate * scale, Low: b.Low * scale, High: b.High * scale, NewLow: b.NewLow * scale, NewHigh: b.NewHigh * scale}
}

// drawnCurve draws a curve over its first axis, at the levels of the others at a place.
func drawnCurve(c *predict.Curve, place []float64, unit string, scale float64) Curve {
	axis := c.Axes[0]
	drawn := Curve{X: axis.Name, Y: unit, About: c.Reason}
	if axis.Name == experiment.RateFactor {
		drawn.X = "requests per second through one proxy"
	}
	var others []string
	for _, other := range c.Axes[1:] {
		if other.Levels > 1 {
			others = append(others, other.Name)
		}
	}
	if others != nil {
		drawn.About += ". Marks are at all measured levels of " + printable.And(others)
	}
	place = slices.Clone(place)
	for i := range intervals + 1 {
		share := float64(i) / intervals
		x := axis.From + (axis.To-axis.From)*share
		if axis.From > 0 {
			x = min(axis.To, axis.From*math.Pow(axis.To/axis.From, share))
		}
		place[0] = x
		if b, err := c.At(place...); err == nil {
			drawn.Line = append(drawn.Line, bandOf(x, b, scale))
		}
	}
	for _, p := range c.Points {
		drawn.Points = append(drawn.Points, [2]float64{p.At[0], p.Cost * scale})
	}
	return drawn
}
