package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/answer/effective"
	"github.com/tare-mesh/tare/internal/base/printable"
)

// mostDifferences of two configurations are printed, but the JSON has all.
const mostDifferences = 10

// configurationsSection prints what treatments of one mesh and its variants really ran differently.
func configurationsSection(t text) {
	for _, c := range t.view.r.Configurations {
		t.page.heading(fmt.Sprintf("Configuration of %s and %s", nameOf(t.view, c.A), nameOf(t.view, c.B)))
		for _, s := range ConfigurationLines(c) {
			t.page.item(s)
		}
	}
}

// ConfigurationLines are the differences of two configurations, at most ten lines.
func ConfigurationLines(c answer.Configuration) (lines []string) {
	if c.Versions[0] != c.Versions[1] {
		lines = append(lines, fmt.Sprintf("program: %s → %s", cmp.Or(c.Versions[0], "unknown"), cmp.Or(c.Versions[1], "unknown")))
	}
	if c.NotCompared != "" {
		lines = append(lines, "not compared: "+c.NotCompared)
	}
	differences := c.Differences
	if c.Versions[0] != c.Versions[1] { // the line of the program is enough, without its path on this machine
		differences = slices.DeleteFunc(slices.Clone(differences), func(d effective.Difference) bool {
			return d.Path == "command line" && isProgram(d.A) && isProgram(d.B)
		})
	}
	for i, d := range differences {
		if len(lines) == mostDifferences-1 && len(differences)-i > 1 {
			return append(lines, fmt.Sprintf("… and %d more (--format json has all)", len(differences)-i))
		}
		lines = append(lines, differenceLine(d))
	}
	if len(lines) == 0 {
		return []string{"the same"}
	}
	return lines
}

// isProgram reports whether the words in which a command line differs are the path of a program.
func isProgram(words string) bool { return filepath.IsAbs(words) && !strings.Contains(words, " ") }

// differenceLine is one difference: only in A "−", only in B "+", else both values.
func differenceLine(d effective.Difference) string {
	where := " (" + printable.Listed(d.Files, mostFiles) + ")"
	switch {
	case d.Path == "command line":
		return fmt.Sprintf("arguments: %s → %s%s", orNone(d.A), orNone(d.B), where)
	case d.A == "":
		return "+ " + partLine(shortPath(d.Path), d.B, d.Values) + where
	case d.B == "":
		return "− " + partLine(shortPath(d.Path), d.A, d.Values) + where
	}
	return fmt.Sprintf("%s: %s → %s%s", shortPath(d.Path), d.A, d.B, where)
}

func orNone(words string) string {
	if words == "" {
		return "none"
	}
	return words
}

func partLine(path, value string, values int) string {
	if values > 1 {
		return fmt.Sprintf("%s (%s)", path, printable.Counted(values, "value"))
	}
	return path + ": " + value
}

// mostPath is the largest number of characters of a path. Its end is kept.
const mostPath = 110

func shortPath(path string) string {
	if r := []rune(path); len(r) > mostPath {
		return "…" + string(r[len(r)-mostPath:])
	}
	return path
}

// mostFiles bounds the files that a line names.
const mostFiles = 3
