package loadpage

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/load"
)

// palette colours text for a terminal.
type palette struct{ on bool }

func (p palette) bold(s string) string { return p.code("1", s) }

func (p palette) faint(s string) string { return p.code("2", s) }

func (p palette) good(s string) string { return p.code("32", s) }

func (p palette) warn(s string) string { return p.code("33", s) }

func (p palette) bad(s string) string { return p.code("31", s) }

func (p palette) bar(s string) string { return p.code("36", s) }

func (p palette) code(code, text string) string {
	if !p.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// hardSpace keeps a number and its unit on one line while text is folded.
const hardSpace = "\u00a0"

var units = strings.NewReplacer("p50 ", "p50"+hardSpace, "p99 ", "p99"+hardSpace, " ms", hardSpace+"ms", " %", hardSpace+"%", " req/s", hardSpace+"req/s")

// fold writes text over as many lines as it needs. Later lines begin with indent.
func (t *page) fold(text, indent string) {
	text = units.Replace(text)
	lines := strings.Split(ansi.Wrap(text, t.width, ""), "\n")
	if len(lines) > 1 {
		rest := strings.TrimLeft(strings.Join(lines[1:], " "), " ")
		lines = append(lines[:1], strings.Split(ansi.Wrap(rest, t.width-len(indent), ""), "\n")...)
	}
	for i, line := range lines {
		if i > 0 {
			line = indent + line
		}
		t.line("%s", strings.ReplaceAll(strings.TrimRight(line, " "), hardSpace, " "))
	}
}

// cut shortens text to a number of columns.
func (t *page) cut(text string, width int) string {
	return ansi.Truncate(printable.Line(text), max(1, width), "…")
}

// eighths of a block.
var eighths = []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// bar is a share of width columns, padded to width. A share above 0 has at least an eighth.
func bar(share float64, width int) string {
	n := int(math.Round(share * float64(width) * 8))
	if n == 0 && share > 0 {
		n = 1
	}
	text := strings.Repeat("█", n/8) + eighths[n%8]
	return text + strings.Repeat(" ", max(0, width-(n+7)/8))
}

// short prints two significant digits.
func short(v float64) string {
	if v <= 0 || v >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	digits := 1 - int(math.Floor(math.Log10(v)))
	return fmt.Sprintf("%.*f", min(digits, 6), v)
}

// counts lists what occurred, the most frequent first, with its share of all.
func counts(of map[string]int64, all int64) string {
	var words []string
	for _, name := range printable.MostFirst(of) {
		if n := of[name]; n > 0 {
			words = append(words, fmt.Sprintf("%s: %d (%s)", name, n, percentText(float64(n)/float64(max(1, all)))))
		}
	}
	return cmp.Or(strings.Join(words, ", "), "none")
}

// percentText is a share as a percentage. Only the whole is 100 %, and only nothing is 0 %.
func percentText(share float64) string {
	switch {
	case share == 0, share == 1:
		return fmt.Sprintf("%.0f %%", 100*share)
	case share > 0.9995:
		return fmt.Sprintf("%.*f %%", min(8, int(math.Ceil(-math.Log10(1-share)-1e-9))-2), 100*share)
	case share < 0.001:
		return fmt.Sprintf("%.*f %%", min(8, 1-int(math.Floor(math.Log10(100*share)))), 100*share)
	case share < 0.1:
		return fmt.Sprintf("%.2f %%", 100*share)
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

func sum(of map[string]int64) (all int64) {
	for _, n := range of {
		all += n
	}
	return all
}

func bytesText(n int64) string {
	const step = 1024
	v := float64(n)
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if v < step {
			return figure(v) + " " + unit
		}
		v /= step
	}
	return figure(v) + " TiB"
}

// figure prints four significant digits, without an exponent.
func figure(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 1:
		return fmt.Sprintf("%.4f", v)
	case v < 10:
		return fmt.Sprintf("%.3f", v)
	case v < 100:
		return fmt.Sprintf("%.2f", v)
	case v < 1000:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

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
