package live

import (
	"math"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
)

// color is an SGR parameter. Each color stands beside a shape or a word with the same meaning.
type color string

const (
	noColor color = ""
	bold    color = "1"
	faint   color = "2"
	reverse color = "7"
	red     color = "31"
	green   color = "32"
	yellow  color = "33"
	cyan    color = "36"
)

// marks are the shape and color of each state of a trial.
var marks = map[Status]struct {
	shape string
	color color
}{
	Planned: {"·", faint}, Running: {"◐", yellow}, Valid: {"●", green}, Invalid: {"✗", red}, Failed: {"!", red},
}

// painter writes text in color, or plain.
type painter struct{ plain bool }

// colored is s in a color, on a terminal that has them.
func (p painter) colored(c color, s string) string {
	if p.plain || c == noColor || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// clean is the text of others in one line.
func clean(s string) string { return strings.ReplaceAll(printable.Line(s), "\t", " ") }

// padded is s in exactly width columns.
func padded(s string, width int) string {
	s = cut(s, width)
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}

// onRight is s in width columns, at their right end.
func onRight(s string, width int) string {
	s = cut(s, width)
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(s))) + s
}

// cut shortens s to width columns.
func cut(s string, width int) string {
	if width <= 0 {
		return ""
	}
	return ansi.Truncate(s, width, "…")
}

const bars = "▁▂▃▄▅▆▇█"

// spark draws the last values in width columns, from zero to their maximum.
func spark(values []float64, width int) string {
	if width <= 0 {
		return ""
	}
	if len(values) > width {
		values = values[len(values)-width:]
	}
	most := lists.Most(values, func(v float64) float64 { return v })
	var b strings.Builder
	shapes := []rune(bars)
	for _, v := range values {
		at := 0
		if most > 0 && v > 0 {
			at = min(len(shapes)-1, int(v/most*float64(len(shapes))))
		}
		b.WriteRune(shapes[at])
	}
	return b.String()
}

// axis is a linear scale from low to high onto columns.
type axis struct {
	low, high float64
	width     int
}

// axisOf contains zero and every interval.
func axisOf(all map[string]Difference, width int) axis {
	a := axis{width: width}
	for _, d := range all {
		for _, v := range []float64{d.Estimate, d.Low, d.High} {
			if !math.IsNaN(v) {
				a.low, a.high = min(a.low, v), max(a.high, v)
			}
		}
	}
	return a
}

// interval draws a difference on the axis with its zero: "│     ├──●──┤ ".
func (a axis) interval(d Difference) string {
	if a.width < 3 || a.high <= a.low {
		return ""
	}
	row := []rune(strings.Repeat(" ", a.width))
	row[a.column(0)] = '│'
	if !math.IsNaN(d.Low) {
		from, to := a.column(d.Low), a.column(d.High)
		for i := from; i <= to; i++ {
			row[i] = '─'
		}
		if to > from {
			row[from], row[to] = '├', '┤'
		}
	}
	row[a.column(d.Estimate)] = '●'
	return string(row)
}

func (a axis) column(v float64) int {
	if a.high <= a.low {
		return 0
	}
	return min(a.width-1, max(0, int(math.Round((v-a.low)/(a.high-a.low)*float64(a.width-1)))))
}
