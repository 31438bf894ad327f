// Package hint attaches a remedy to an error.
package hint

import (
	"errors"
	"fmt"
)

// Hinted is an error with a hint. Error types with fields of their own embed it.
// The zero value has no hint and an empty message.
type Hinted struct {
	Err  error  // what went wrong; the message is its message
	Text string // what to do about it: one line, no final period, "" for none
}

// New returns an error with a formatted message and a hint.
// The format is as in [fmt.Errorf], %w included.
func New(hint, format string, args ...any) error {
	return &Hinted{Err: fmt.Errorf(format, args...), Text: hint}
}

// Wrap attaches a hint to err. It returns nil if err is nil.
func Wrap(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &Hinted{Err: err, Text: hint}
}

// Prefix puts what failed before the message of err, as [fmt.Errorf] with %w does. It returns nil if err is nil.
func Prefix(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// Of returns the hint of the outermost error in err's chain that has one, or "".
func Of(err error) string {
	for err != nil {
		var h interface{ Hint() string }
		if !errors.As(err, &h) {
			return ""
		}
		if text := h.Hint(); text != "" {
			return text
		}
		inner, ok := h.(error)
		if !ok {
			return ""
		}
		err = errors.Unwrap(inner)
	}
	return ""
}

func (e *Hinted) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *Hinted) Unwrap() error { return e.Err }

// Hint returns the text for Of, also through embedding.
func (e *Hinted) Hint() string { return e.Text }

// UsageError is a mistake of the user, in the command line or in a file: the program ends with exit code 2.
type UsageError struct{ Hinted }

// Usage makes err a [UsageError] with a hint, "" for none.
func Usage(err error, text string) error { return &UsageError{Hinted{err, text}} }

// InvalidFile marks an error of reading a user's file as a mistake of the user: in the file, in its name, or in an override.
// An error with the method InvalidFile, such as a list of mistakes with hints, is kept as it is.
func InvalidFile(err error) error {
	if err == nil || errors.As(err, new(interface{ InvalidFile() })) {
		return err
	}
	return Usage(err, "")
}
