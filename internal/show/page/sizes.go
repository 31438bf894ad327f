package page

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/show/report"
)

// WriteSizes writes the page of tare size.
func WriteSizes(w io.Writer, s report.Sizes, tare string) error {
	p := Prediction{
		Name: "tare size", Answer: report.SizesAnswer(s), Tare: tare, Schema: s.Schema, Command: "tare size",
		Facts: []Fact{{"Results", s.From}},
		Text:  func(w io.Writer) error { return report.SizesForms()[0].Write(w, s) },
	}
	for _, size := range s.Sizes {
		title := report.SizedFor(s, size)
		part := Part{Title: title}
		for _, f := range report.SizeFacts(s, size) {
			part.Facts = append(part.Facts, Fact(f))
		}
		p.Parts = append(p.Parts, part)
		if len(size.Place) == 0 {
			continue // the mean has no axis
		}
		p.Curves = append(p.Curves, curveOf(size, size.Curve, title, "CPU, thousandths of a core", 1000), curveOf(size, size.MemoryCurve, title, "Memory, MiB", 1))
	}
	for _, next := range s.Next {
		p.Steps = append(p.Steps, Next{next.Words(), next.Command})
	}
	return WritePrediction(w, p)
}

// intervals of a drawn curve.
const intervals = 40

// curveOf draws a curve over its first axis, at the wanted levels of the others.
func curveOf(size report.Sized, c *predict.Curve, title, unit string, scale float64) Curve {
	axis := c.Axes[0]
	drawn := Curve{Title: title, X: axis.Name, Y: unit, About: c.Reason}
	if axis.Name == experiment.RateFactor {
		drawn.X = "requests per second through one proxy"
	}
	if len(c.Axes) > 1 {
		drawn.About += fmt.Sprintf("; points are at all levels of %s", c.Axes[1].Name)
	}
	place := slices.Clone(size.Place)
	at := func(x float64) (Band, error) {
		place[0] = x
		b, err := c.At(place...)
		return Band{x, b.Estimate * scale, b.Low * scale, b.High * scale, b.NewLow * scale, b.NewHigh * scale}, err
	}
	for i := range intervals + 1 {
		share := float64(i) / intervals
		x := axis.From + (axis.To-axis.From)*share
		if axis.From > 0 {
			x = min(axis.To, axis.From*math.Pow(axis.To/axis.From, share))
		}
		if b, err := at(x); err == nil {
			drawn.Line = append(drawn.Line, b)
		}
	}
	for _, p := range c.Points {
		drawn.Points = append(drawn.Points, [2]float64{p.At[0], p.Cost * scale})
	}
	if b, err := at(size.Place[0]); err == nil {
		drawn.Wanted = &b
	}
	return drawn
}
