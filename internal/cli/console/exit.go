package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/strict"
)

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
	case isUsage, isUnknownCommand(err), isInvalidFile(err):
		return BadUsage
	case errors.Is(err, context.Canceled):
		return Interrupted
	}
	return Failed
}

// isInvalidFile recognises mistakes in a file that the user wrote.
func isInvalidFile(err error) bool {
	var invalid interface{ InvalidFile() }
	return errors.As(err, &invalid)
}

// isUnknownCommand recognises cobra's error, which has no type.
func isUnknownCommand(err error) bool {
	return strings.HasPrefix(err.Error(), "unknown command ")
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
