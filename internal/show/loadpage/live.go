package loadpage

import (
	"fmt"
	"io"
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

	done   int64 // answers
	errors int64
	shown  bool
}

// Begin draws the key, until the first second is over.
func (l *Live) Begin() { l.draw("q ends the load") }

// Show draws the next second.
func (l *Live) Show(p load.Progress) {
	l.done += p.Completed
	l.errors += p.Errors
	l.draw(l.text(p, l.width()))
}

func (l *Live) draw(text string) {
	fmt.Fprintf(l.W, "\r%s\x1b[K", ansi.Truncate(text, l.width(), "…"))
	l.shown = true
}

// width is the room of the line: the last column stays free.
func (l *Live) width() int {
	if width := l.Width(); width > 0 {
		return width - 1
	}
	return defaultWidth - 1
}

// Clear removes the line.
func (l *Live) Clear() {
	if l.shown {
		fmt.Fprint(l.W, "\r\x1b[K")
		l.shown = false
	}
}

// Widths of the bar, in columns.
const (
	maxLiveBar = 24
	minLiveBar = 4
)

// text is the phase, a bar, the time left, the rate, the errors, p50 and p99. On a narrow terminal it has neither phase nor bar, on
// a narrower one no p50 either.
func (l *Live) text(p load.Progress, width int) string {
	paint := palette{on: l.Color}
	share, left := l.progress(p)
	errors := fmt.Sprintf("%d errors", l.errors)
	if l.errors > 0 {
		errors = paint.bad(errors)
	}
	ms := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return short(v) + " ms"
	}
	begin, end := fmt.Sprintf("%s  %d/s  %s  ", left, p.Completed, errors), "p99 "+ms(p.P99MS)
	figures := begin + "p50 " + ms(p.P50MS) + "  " + end
	room := width - ansi.StringWidth(figures)
	if room < 0 {
		return begin + end
	}
	if room -= len(p.Phase) + 2; room < minLiveBar {
		return figures
	}
	return p.Phase + " " + paint.bar(bar(share, min(maxLiveBar, room))) + " " + figures
}

// progress is the elapsed share of the load, and the rest.
func (l *Live) progress(p load.Progress) (share float64, left string) {
	if n := l.Profile.Requests; n > 0 {
		return min(1, float64(l.done)/float64(n)), fmt.Sprintf("%d left", max(0, n-l.done))
	}
	total := l.Profile.Warmup + l.Profile.Measure + l.Profile.Tail
	over := min(total, time.Duration(p.Second+1)*time.Second)
	return float64(over) / float64(total), fmt.Sprintf("%v left", (total - over).Round(time.Second))
}
