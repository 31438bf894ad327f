package console

import (
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

const (
	columnGap = 2
	// minColumn is the width below which no column is wrapped.
	minColumn = 12
)

// wrapTable writes rows in at most width columns: the widest columns are wrapped.
func wrapTable(w io.Writer, rows [][]string, width int) error {
	widths := fitted(rows, width)
	var b strings.Builder
	for _, row := range rows {
		var cells [][]string
		height := 1
		for i, cell := range row {
			lines := strings.Split(ansi.Wrap(cell, widths[i], ""), "\n")
			cells, height = append(cells, lines), max(height, len(lines))
		}
		for line := range height {
			var text strings.Builder
			for i, lines := range cells {
				part := ""
				if line < len(lines) {
					part = strings.TrimSpace(lines[line])
				}
				text.WriteString(part + strings.Repeat(" ", max(0, widths[i]-ansi.StringWidth(part))+columnGap))
			}
			b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fitted are the widths of columns that fit into width together, if they can: the widest are
// narrowed.
func fitted(rows [][]string, width int) []int {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	if len(widths) == 0 {
		return nil
	}
	for total(widths) > width {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= minColumn {
			break
		}
		widths[widest]--
	}
	return widths
}

func total(widths []int) (sum int) {
	for _, n := range widths {
		sum += n + columnGap
	}
	return sum - columnGap
}
