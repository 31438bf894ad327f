// Package generator has an adapter for each load generator, tare's own and others.
// An adapter is two pure functions: from a profile to a command line, and from
// the generator's output to a result. The platform runs the command.
package generator

import (
	"context"
	"io"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// Generator is one load generator.
type Generator interface {
	Name() string
	// Command translates p into a command line. The error for a profile that the
	// generator does not support wraps errors.ErrUnsupported and contains the reason.
	Command(p load.Profile) (proc.Command, error)
	// Parse reads the generator's standard output to its end. It calls progress
	// once a second if the generator prints its progress.
	Parse(stdout io.Reader, p load.Profile, progress func(load.Progress)) (result.Load, error)
	// Abilities returns what the generator can do beyond the above. A generator that wraps
	// another returns the other's abilities.
	Abilities() Abilities
}

// Abilities differ between generators. The zero value is a generator of this program without requirements.
type Abilities struct {
	// Find returns the path and version of the external program. The error of a missing
	// program wraps exec.ErrNotFound. Any other error contains the program's output.
	// Both have a hint. nil: the generator is tare's own.
	Find func(context.Context) (Found, error)
	// Needs are the requirements of an external program.
	Needs Needs
	// Holds reports that the process announces that it is ready, and gets its start then ([load.Profile.Hold]).
	Holds bool
}

// Foreign reports whether the generator runs an external program.
func (a Abilities) Foreign() bool { return a.Find != nil }
