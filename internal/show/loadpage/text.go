package loadpage

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/base/printable"
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
