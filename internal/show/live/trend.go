package live

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

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
