// Package routine ends the program with exit code 1 if a goroutine panics, and prints a line that asks for a report. Go's
// runtime would end it with 2, which is the exit code of a wrong command line.
package routine

import (
	"fmt"
	"os"
	"runtime/debug"
)

// failed is the exit code.
const failed = 1

// Guarded returns f with [Report] deferred. Every goroutine of tare runs such a function.
func Guarded[F func() | func() error](f F) F {
	var guarded any
	switch f := any(f).(type) {
	case func():
		guarded = func() {
			defer Report()
			f()
		}
	case func() error:
		guarded = func() error {
			defer Report()
			return f()
		}
	}
	return guarded.(F)
}

// Report ends the program if the goroutine panics. It must be deferred itself.
func Report() {
	if cause := recover(); cause != nil {
		fmt.Fprintf(os.Stderr, "%s\ntare: %v\nThis is a defect of tare. Please report it with the lines above and the command.\n", debug.Stack(), cause)
		os.Exit(failed)
	}
}
