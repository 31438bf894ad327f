package live

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
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

// trendSeconds is the time of a measure phase from which the screen shows how figures change.
const trendSeconds = 30

// course is a quantity with the seconds of its values. The oldest values are dropped.
type course struct{ seconds, values []float64 }

func (c *course) add(second, value float64) {
	if c.seconds, c.values = append(c.seconds, second), append(c.values, value); len(c.values) > mostPoints {
		c.seconds, c.values = slices.Delete(c.seconds, 0, 1), slices.Delete(c.values, 0, 1)
	}
}

// span is the time of the values, in seconds.
func (c *course) span() float64 {
	if len(c.seconds) < 2 {
		return 0
	}
	return c.seconds[len(c.seconds)-1] - c.seconds[0]
}

// perMinute is the slope of the values.
func (c *course) perMinute() float64 {
	_, slope := stats.Regression(c.seconds, c.values)
	return slope * 60
}

// trendLines is a line about how memory and the median change in a long measure phase. There is none in a short one.
func trendLines(t *Trial, width int) []string {
	var parts []string
	span := 0.0
	for _, plane := range []metric.Plane{metric.Data, metric.Control, metric.App} {
		if c := t.memory[string(plane)]; c != nil && c.span() >= trendSeconds {
			span = max(span, c.span())
			parts = append(parts, fmt.Sprintf("%s %.1f MiB %+.2f/min", plane, c.values[len(c.values)-1], c.perMinute()))
		}
	}
	if span == 0 {
		return nil
	}
	if c := &t.medians; c.span() >= trendSeconds {
		parts = append(parts, fmt.Sprintf("p50 %+.4f ms/min", c.perMinute()))
	}
	line := fmt.Sprintf("  trend, %s: %s", lastSpan(span), strings.Join(parts, ", "))
	return []string{shortened(line, max(10, width-1))}
}

// lastSpan is a time in words: "last 45 s", "last 10 min".
func lastSpan(seconds float64) string {
	if seconds < 120 {
		return fmt.Sprintf("last %.0f s", seconds)
	}
	return fmt.Sprintf("last %.0f min", seconds/60)
}

// shortened leaves out the last parts of a line that is too long.
func shortened(line string, width int) string {
	for len(line) > width {
		i := strings.LastIndex(line, ", ")
		if i < 0 {
			break
		}
		line = line[:i]
	}
	return line
}
