package console

import (
	"bytes"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/test/must"
)

// Tables fit into COLUMNS, and lose no word. Without a known width a row is a line.
func TestTableWraps(t *testing.T) {
	header := []string{"NAME", "MEANING", "PARTS"}
	rows := [][]string{
		{"cpu", strings.Repeat("meaning of a metric ", 8), strings.Repeat("part, ", 20)},
		{"größe", "kurz", "-"},
		{"e", "", strings.Repeat("x", 300)},
	}
	words := func(text string) int {
		return strings.Count(text, "meaning") + strings.Count(text, "part,") + strings.Count(text, "x")
	}
	for _, width := range []int{60, 80, 120} {
		t.Setenv("COLUMNS", map[int]string{60: "60", 80: "80", 120: "120"}[width])
		var out bytes.Buffer
		must.OK(t, Table(&out, header, rows))
		for line := range strings.Lines(out.String()) {
			if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
			if strings.HasSuffix(line, " \n") {
				t.Errorf("spaces at the end: %q", line)
			}
		}
		if got := words(out.String()); got != 8+20+300 {
			t.Errorf("%d columns: %d words of 328\n%s", width, got, out.String())
		}
	}
	t.Setenv("COLUMNS", "")
	var out bytes.Buffer
	if err := Table(&out, header, rows); err != nil || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("%v\n%s", err, out.String())
	}
	lines := strings.Split(out.String(), "\n")
	if at := strings.Index(lines[0], "MEANING"); ansi.StringWidth(lines[2][:strings.Index(lines[2], "kurz")]) != at {
		t.Errorf("columns are not aligned\n%s", out.String())
	}
}
