// Package generator has an adapter for each load generator, tare's own and others.
// An adapter is two pure functions: from a profile to a command line, and from
// the generator's output to a result. The platform runs the command.
package generator

import (
	"io"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// Holder is a generator whose process announces that it is ready, and gets its start then ([load.Profile.Hold]).
type Holder interface {
	Generator
	Holds()
}

// Generator is one load generator.
type Generator interface {
	Name() string
	// Command translates p into a command line. The error for a profile that the
	// generator does not support wraps errors.ErrUnsupported and contains the reason.
	Command(p load.Profile) (proc.Command, error)
	// Parse reads the generator's standard output to its end. It calls progress
	// once a second if the generator prints its progress.
	Parse(stdout io.Reader, p load.Profile, progress func(load.Progress)) (result.Load, error)
}
