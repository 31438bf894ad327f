package loadpage

import (
	"fmt"
	"io"
	"strings"
	"sync"
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

	mu      sync.Mutex // keys come while seconds do
	seconds []load.Progress
	done    int64 // answers
	errors  int64
	shown   bool
	paused  bool
}

// Begin draws the keys, if there are any, until the first second is over.
func (l *Live) Begin(keys bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if keys {
		l.draw("q ends the load  p pauses this line")
	}
}

// Show draws the next second.
func (l *Live) Show(p load.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seconds = append(l.seconds, p)
	l.done += p.Completed
	l.errors += p.Errors
	if !l.paused {
		l.redraw()
	}
}

// Pause keeps the line as it is until the next call. The load goes on.
func (l *Live) Pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = !l.paused
	if len(l.seconds) > 0 {
		l.redraw()
	}
}

// redraw draws the last second.
func (l *Live) redraw() {
	width := l.width() - 1
	mark := ""
	if l.paused {
		mark = "paused  "
	}
	l.draw(mark + l.text(l.seconds[len(l.seconds)-1], width-len(mark)))
}

func (l *Live) draw(text string) {
	width := l.width() - 1
	fmt.Fprintf(l.W, "\r%s\x1b[K", ansi.Truncate(text, width, "…"))
	l.shown = true
}

func (l *Live) width() int {
	if width := l.Width(); width > 0 {
		return width
	}
	return defaultWidth
}

// Clear removes the line.
func (l *Live) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
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
	noMedian   = -1 // in place of sparklines: only p99 fits
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
	if room += len(p.Phase); room < 0 {
		return l.line(p, "", 0, noMedian)
	}
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
	parts := []string{strings.TrimLeft(phase+" "+left, " "), fmt.Sprintf("%d/s", p.Completed), errors}
	if sparks != noMedian {
		parts = append(parts, times("p50", func(p load.Progress) float64 { return p.P50MS }))
	}
	parts = append(parts, times("p99", func(p load.Progress) float64 { return p.P99MS }))
	return strings.TrimLeft(strings.Join(parts, "  "), " ")
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
