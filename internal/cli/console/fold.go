package console

import (
	"bytes"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
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
		if _, err := io.WriteString(f.w, Fold(string(f.part.Next(at+1)), f.width)); err != nil {
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
