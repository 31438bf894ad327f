package console

import (
	"bytes"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/base/lists"
)

// Folded returns a writer that folds lines longer than the width of w, if that is known. Continued lines are indented.
// end writes the rest of a text that ends within a line.
func Folded(w io.Writer) (folding io.Writer, end func() error) {
	width := Columns(w)
	if width == 0 {
		return w, func() error { return nil }
	}
	f := &folded{w: w, width: width}
	return f, f.end
}

// folded keeps the part of a line that is not complete yet.
type folded struct {
	w     io.Writer
	width int
	part  bytes.Buffer
}

func (f *folded) Write(p []byte) (int, error) {
	f.part.Write(p)
	for {
		at := bytes.IndexByte(f.part.Bytes(), '\n')
		if at < 0 {
			return len(p), nil
		}
		line := string(f.part.Next(at + 1))
		if rest := strings.TrimLeft(line, " "); rest == line || !strings.HasPrefix(rest, "tare ") { // else it is a command to copy
			line = Fold(line, f.width)
		}
		if _, err := io.WriteString(f.w, line); err != nil {
			return 0, err
		}
	}
}

func (f *folded) end() error {
	_, err := io.WriteString(f.w, Fold(f.part.String(), f.width))
	f.part.Reset()
	return err
}

// Fold breaks a line at spaces where it is wider than width.
func Fold(line string, width int) string {
	indent := strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " "))+4)
	if len(indent) > width/2 {
		indent = "    "
	}
	var b strings.Builder
	for ansi.StringWidth(strings.TrimRight(line, "\n")) > width {
		at := strings.LastIndexByte(ansi.Truncate(line, width+1, ""), ' ')
		if at <= len(line)-len(strings.TrimLeft(line, " ")) {
			break // a word wider than the line
		}
		b.WriteString(strings.TrimRight(line[:at], " ") + "\n")
		line = indent + strings.TrimLeft(line[at:], " ")
	}
	return b.String() + line
}

// Paragraphs folds a text to a width, 0 for none. Lines of a paragraph follow one another. Indented lines keep theirs.
func Paragraphs(text string, width int) string {
	if width == 0 {
		return text
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		last := len(lines) - 1
		if last >= 0 && isProse(lines[last]) && isProse(line) {
			lines[last] += " " + line
			continue
		}
		lines = append(lines, line)
	}
	for i, line := range lines {
		if isProse(line) {
			lines[i] = filled(line, width)
			continue
		}
		lines[i] = Fold(line, width)
	}
	return strings.Join(lines, "\n")
}

// filled breaks a line at spaces alone.
func filled(line string, width int) string {
	var b strings.Builder
	at := 0
	for word := range strings.FieldsSeq(line) {
		n := ansi.StringWidth(word)
		switch {
		case at > 0 && at+1+n > width:
			b.WriteString("\n")
			at = 0
		case at > 0:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

func isProse(line string) bool { return line != "" && line[0] != ' ' }

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

func total(widths []int) int {
	return lists.Sum(widths, func(n int) int { return n + columnGap }) - columnGap
}
