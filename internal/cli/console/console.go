// Package console contains the parts that all commands share: streams, tables, questions, errors and exit codes.
package console

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/strict"
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
		all = append(all, lists.Map(row, func(cell string) string { return strings.ReplaceAll(printable.Line(cell), "\t", " ") }))
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

func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Exit codes of every program. This is the only list.
const (
	Done        = 0
	Failed      = 1
	BadUsage    = 2 // wrong arguments, or an invalid file
	Incomplete  = 3 // finished, but some trials failed or were invalid
	Gate        = 4 // a gate or an expectation does not hold
	Undecided   = 5 // a gate is neither shown to hold nor to be breached
	Interrupted = 130
	NoReader    = 141 // the reader of an output ended before the program, as after SIGPIPE
)

// ErrNoReader is wrapped by the error of a write whose reader has ended. It is not printed.
var ErrNoReader = errors.New("the reader of the output has ended")

// ExitError ends a program with Code. Nothing is printed if Err is nil.
type ExitError struct {
	Err  error
	Code int
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Exit prints err as program prints errors, and returns the exit code.
func Exit(stderr io.Writer, program string, err error) int {
	exit, isExit := errors.AsType[*ExitError](err)
	if err != nil && !errors.Is(err, ErrNoReader) && (!isExit || exit.Err != nil) {
		printError(stderr, program, err)
	}
	return Code(err)
}

// Code is the exit code of a program that ends with err.
func Code(err error) int {
	exit, isExit := errors.AsType[*ExitError](err)
	_, isUsage := errors.AsType[*hint.UsageError](err)
	switch {
	case err == nil:
		return Done
	case errors.Is(err, ErrNoReader):
		return NoReader
	case isExit:
		return exit.Code
	case isUsage, strings.HasPrefix(err.Error(), "unknown command "), errors.As(err, new(interface{ InvalidFile() })):
		return BadUsage
	case errors.Is(err, context.Canceled):
		return Interrupted
	}
	return Failed
}

// printError writes "program: message", then the hint. Each mistake of a file has its own hint.
func printError(w io.Writer, program string, err error) {
	mistakes, wrong := errors.AsType[strict.Problems](err)
	if !wrong {
		printLine(w, program, err.Error(), hint.Of(err))
		return
	}
	for _, p := range mistakes {
		printLine(w, program, p.Error(), p.Tip)
	}
}

func printLine(w io.Writer, program, message, text string) {
	fmt.Fprintf(w, "%s: %s\n", program, printable.Text(printable.Translate(strings.TrimRight(message, "\n"))))
	if text != "" {
		fmt.Fprintf(w, "hint: %s\n", printable.Text(text))
	}
}

// buildVersion is set by the Makefile from git: a build in a work tree may not record its version.
var buildVersion string

// Version is the one that the build of this program recorded: a release's tag, or the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	if buildVersion != "" {
		return buildVersion
	}
	return "devel"
}

// Keys calls press for each key on a terminal until ctx ends, and then restores the terminal. The
// terminal shows no keys meanwhile, but its interrupts work as before. Without a terminal, or in
// the background, it does nothing, and wait is nil. wait returns when the terminal is as it was.
func Keys(ctx context.Context, in io.Reader, press func(key byte)) (wait func()) {
	f, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || !inForeground(f) {
		return nil
	}
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, getTerminal)
	if err != nil {
		return nil
	}
	single := *before
	single.Lflag &^= unix.ICANON | unix.ECHO
	single.Cc[unix.VMIN], single.Cc[unix.VTIME] = 0, 2 // a read ends after 0.2 s
	if unix.IoctlSetTermios(fd, setTerminal, &single) != nil {
		return nil
	}
	done := make(chan struct{})
	go routine.Guarded(func() {
		defer close(done)
		defer func() { _ = unix.IoctlSetTermios(fd, setTerminal, before) }()
		var key [1]byte
		for ctx.Err() == nil && inForeground(f) {
			switch n, err := unix.Read(fd, key[:]); {
			case n == 1:
				press(key[0])
			case err != nil && err != unix.EINTR:
				return
			}
		}
	})()
	return func() { <-done }
}

// inForeground reports whether this process may use its terminal: one in the background would be
// stopped.
func inForeground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
