// Package console contains the parts that all commands share: streams, tables, questions, errors and exit codes.
package console

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
)

// Console is where a command reads and writes: results go to Out, everything else to Err.
type Console struct {
	In       io.Reader
	Out, Err io.Writer
}

// Notef writes one line to Err, after the program's name.
func (c Console) Notef(format string, args ...any) {
	fmt.Fprintf(c.Err, "tare: %s\n", printable.Text(fmt.Sprintf(format, args...)))
}

// Table writes aligned columns to Out.
func (c Console) Table(header []string, rows [][]string) error {
	return Table(c.Out, header, rows)
}

// Confirm prompts on the terminal before a change. Without a terminal only yes (the flag --yes) confirms.
func (c Console) Confirm(what string, yes bool) error {
	if yes {
		return nil
	}
	f, ok := c.In.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return hint.Usage(fmt.Errorf("%s: cannot ask for confirmation without a terminal", what), "add --yes")
	}
	fmt.Fprintf(c.Err, "%s? [y/N] ", what)
	answer, err := bufio.NewReader(f).ReadString('\n')
	if err != nil {
		return fmt.Errorf("%s: read the answer: %w", what, err)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return fmt.Errorf("%s: not confirmed", what)
	}
	return nil
}

// Table writes columns aligned with two spaces between them. Where the width of w is known
// ([Columns]), cells are wrapped to it.
func Table(w io.Writer, header []string, rows [][]string) error {
	all := [][]string{header}
	for _, row := range rows {
		all = append(all, printable.Texts(row, func(cell string) string { return strings.ReplaceAll(printable.Line(cell), "\t", " ") }))
	}
	width := cmp.Or(Columns(w), math.MaxInt)
	return wrapTable(w, all, width)
}

// Columns returns the width for text on w: $COLUMNS, else the width of the terminal, else 0.
func Columns(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return Width(w)
}

// Width is the number of columns of w, or 0 if w is not a terminal.
func Width(w io.Writer) int {
	if !IsTerminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Color reports whether w shows colours: a terminal, unless $NO_COLOR is set.
func Color(w io.Writer) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
