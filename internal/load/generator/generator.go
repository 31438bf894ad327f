// Package generator calls load generators: ours and the ones people already trust.
// An adapter is two pure functions, from a profile to a command line and from
// the generator's output to a result; who runs the command is the platform's affair.
package generator

import (
	"io"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// Generator is one load generator.
type Generator interface {
	Name() string
	// Command translates p. It wraps errors.ErrUnsupported, with the reason, for
	// a profile the generator cannot carry out.
	Command(p load.Profile) (proc.Command, error)
	// Parse reads the generator's standard output to its end. It calls progress
	// once a second where the generator says how it is getting on.
	Parse(stdout io.Reader, p load.Profile, progress func(load.Progress)) (result.Load, error)
}
