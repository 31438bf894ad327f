package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Size of a picture and of its plot area, in pixels.
const (
	width, height            = 760.0, 300.0
	left, right, top, bottom = 60.0, 130.0, 34.0, 40.0
)

// colours are distinguished by colour-blind readers too (Okabe, Ito 2008).
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"}

// chart collects marks and the range that they need. The y axis begins at zero.
type chart struct {
	title, xTitle string
	marks         []func(x, y func(float64) float64) string
	labels        []string
	low, high     float64 // of x
	most          float64 // of y
}

func newChart(title, xTitle string) *chart {
	return &chart{title: title, xTitle: xTitle, low: math.Inf(1), high: math.Inf(-1)}
}

func colour(i int) string { return colours[i%len(colours)] }

func (c *chart) cover(x, y float64) {
	c.low, c.high, c.most = min(c.low, x), max(c.high, x), max(c.most, y)
}

// line draws points with a line between them.
func (c *chart) line(i int, name string, xs, ys []float64) {
	for k := range xs {
		c.cover(xs[k], ys[k])
	}
	c.labels = append(c.labels, name)
	c.marks = append(c.marks, func(x, y func(float64) float64) string {
		var points, dots strings.Builder
		for k := range xs {
			fmt.Fprintf(&points, "%.1f,%.1f ", x(xs[k]), y(ys[k]))
			fmt.Fprintf(&dots, `<circle cx="%.1f" cy="%.1f" r="2.2"/>`, x(xs[k]), y(ys[k]))
		}
		return fmt.Sprintf(`<polyline fill="none" stroke="%s" stroke-width="1" points="%s"/><g fill="%s">%s</g>`, colour(i), points.String(), colour(i), dots.String())
	})
}

// bars draws points with an error bar each.
func (c *chart) bars(i int, name string, xs, ys, es []float64) {
	for k := range xs {
		c.cover(xs[k], ys[k]+es[k])
	}
	c.labels = append(c.labels, name)
	c.marks = append(c.marks, func(x, y func(float64) float64) string {
		var b strings.Builder
		fmt.Fprintf(&b, `<g fill="%s" stroke="%s">`, colour(i), colour(i))
		for k := range xs {
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="2.8"/><path d="M%.1f %.1fV%.1f"/>`, x(xs[k]), y(ys[k]), x(xs[k]), y(ys[k]-es[k]), y(ys[k]+es[k]))
		}
		return b.String() + "</g>"
	})
}

// step is a round distance of ticks for a range.
func step(span float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(span/5)))
	for _, m := range []float64{1, 2, 5, 10} {
		if span/(m*unit) <= 6 {
			return m * unit
		}
	}
	return 10 * unit
}

func (c *chart) svg() string {
	pad := 0.03 * (c.high - c.low)
	from, to, most := c.low-pad, c.high+pad, 1.05*c.most
	x := func(v float64) float64 { return left + (v-from)/(to-from)*(width-left-right) }
	y := func(v float64) float64 { return height - bottom - v/most*(height-top-bottom) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12" role="img">`, width, height)
	fmt.Fprintf(&b, "<title>%s</title>", html.EscapeString(c.title))
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="#fff"/><text x="%.0f" y="18" font-weight="bold">%s</text>`, width, height, left, html.EscapeString(c.title))
	for v, d := 0.0, step(most); v <= most; v += d {
		fmt.Fprintf(&b, `<path d="M%.0f %.1fH%.0f" stroke="#ddd"/><text x="%.0f" y="%.1f" text-anchor="end">%g</text>`, left, y(v), width-right, left-6, y(v)+4, v)
	}
	d := step(to - from)
	for v := math.Ceil(from/d) * d; v <= to; v += d {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.0f" text-anchor="middle">%g</text>`, x(v), height-bottom+18, math.Round(v*1e6)/1e6+0)
	}
	fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="middle">%s</text>`, (left+width-right)/2, height-6, html.EscapeString(c.xTitle))
	for i, draw := range c.marks {
		b.WriteString(draw(x, y))
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" fill="%s">%s</text>`, width-right+12, top+14+18*float64(i), colour(i), html.EscapeString(c.labels[i]))
	}
	return b.String() + "</svg>\n"
}
