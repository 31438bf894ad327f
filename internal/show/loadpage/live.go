package loadpage

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/load"
)

// Live is one line on a terminal that is redrawn once a second.
type Live struct {
	W       io.Writer
	Width   func() int // columns
	Profile *load.Profile
	Color   bool

	seconds []load.Progress
	done    int64 // answers
	errors  int64
	shown   bool
}

// Show draws the next second.
func (l *Live) Show(p load.Progress) {
	l.seconds = append(l.seconds, p)
	l.done += p.Completed
	l.errors += p.Errors
	width := l.Width()
	if width <= 0 {
		width = defaultWidth
	}
	fmt.Fprintf(l.W, "\r%s\x1b[K", ansi.Truncate(l.text(p, width-1), width-1, "…"))
	l.shown = true
}

// Clear removes the line.
func (l *Live) Clear() {
	if l.shown {
		fmt.Fprint(l.W, "\r\x1b[K")
		l.shown = false
	}
}

// Widths of parts of the line, in columns.
const (
	maxLiveBar = 24
	maxSparks  = 20
	minSparks  = 5
)

// text is the phase, a bar with the time left, the rate, the errors, and p50 and p99 with
// their recent values. On a narrow terminal the sparklines go first, then the phase, then the bar.
func (l *Live) text(p load.Progress, width int) string {
	const spaces = 2 // beside the bar, and beside the sparklines
	room := width - ansi.StringWidth(l.line(p, p.Phase, 0, 0))
	if sparks := min(maxSparks, (room-spaces)/4-1); sparks >= minSparks {
		return l.line(p, p.Phase, min(maxLiveBar, room-2*(sparks+1)-spaces), sparks)
	}
	if room > spaces {
		return l.line(p, p.Phase, min(maxLiveBar, room-spaces), 0)
	}
	room += len(p.Phase)
	return l.line(p, "", max(0, room-spaces), 0)
}

// line is the text with a bar and sparklines of these widths in columns.
func (l *Live) line(p load.Progress, phase string, blocks, sparks int) string {
	paint := palette{on: l.Color}
	share, left := l.progress(p)
	if blocks > 0 {
		left = paint.bar(bar(share, blocks)) + " " + left
	}
	times := func(name string, of func(load.Progress) float64) string {
		if sparks > 0 {
			recent := l.seconds[max(0, len(l.seconds)-sparks):]
			values := make([]float64, len(recent))
			for i := range recent {
				values[i] = of(recent[i])
			}
			name += " " + paint.bar(sparkline(values))
		}
		if of(p) == 0 {
			return name + " -"
		}
		return name + " " + short(of(p)) + " ms"
	}
	errors := fmt.Sprintf("%d errors", l.errors)
	if l.errors > 0 {
		errors = paint.bad(errors)
	}
	return strings.TrimLeft(strings.Join([]string{
		strings.TrimLeft(phase+" "+left, " "), fmt.Sprintf("%d/s", p.Completed), errors,
		times("p50", func(p load.Progress) float64 { return p.P50MS }), times("p99", func(p load.Progress) float64 { return p.P99MS }),
	}, "  "), " ")
}

// progress is the share of the load that is over, and what is left of it.
func (l *Live) progress(p load.Progress) (share float64, left string) {
	if n := l.Profile.Requests; n > 0 {
		return min(1, float64(l.done)/float64(n)), fmt.Sprintf("%d left", max(0, n-l.done))
	}
	total := l.Profile.Warmup + l.Profile.Measure + l.Profile.Tail
	over := min(total, time.Duration(p.Second+1)*time.Second)
	return float64(over) / float64(total), fmt.Sprintf("%v left", (total - over).Round(time.Second))
}
