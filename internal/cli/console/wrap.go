package console

import (
	"io"
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

// fitted are the widths of columns that fit into width together, if they can. Each step narrows the column that costs
// the fewest lines, the widest of equals, and cuts a word only if all columns are as narrow as their words.
func fitted(rows [][]string, width int) []int {
	var widths, words []int
	cells := make([][]int, len(rows)) // widths
	for r, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths, words = append(widths, 0), append(words, 0)
			}
			cells[r] = append(cells[r], ansi.StringWidth(cell))
			widths[i] = max(widths[i], cells[r][i])
			for word := range strings.FieldsSeq(cell) {
				words[i] = max(words[i], ansi.StringWidth(word))
			}
		}
	}
	for _, least := range [][]int{words, make([]int, len(widths))} {
		for total(widths) > width {
			narrowed, fewest := -1, 0
			for i := range widths {
				if widths[i] <= max(minColumn, least[i]) {
					continue
				}
				widths[i]--
				n := lines(cells, widths)
				widths[i]++
				if narrowed < 0 || n < fewest || n == fewest && widths[i] > widths[narrowed] {
					narrowed, fewest = i, n
				}
			}
			if narrowed < 0 {
				break
			}
			widths[narrowed]--
		}
	}
	return widths
}

// lines estimates the number of lines of rows, from the widths of their cells.
func lines(cells [][]int, widths []int) (n int) {
	for _, row := range cells {
		height := 1
		for i, cell := range row {
			height = max(height, (cell+widths[i]-1)/max(1, widths[i]))
		}
		n += height
	}
	return n
}

func total(widths []int) (sum int) {
	for _, n := range widths {
		sum += n + columnGap
	}
	return sum - columnGap
}
