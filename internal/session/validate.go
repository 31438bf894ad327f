package session

import (
	"errors"
	"fmt"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
)

// validate returns the mistakes of the file, whose name is for those in gates. It changes nothing.
func (s *Study) validate(f *experiment.File, name string) error {
	if err := f.Validate(s.Program.namesWith(s.Meshes)); err != nil {
		if mistakes, _ := errors.AsType[strict.Problems](err); s.unread != nil && len(mistakes) == 1 {
			return s.unread
		}
		return hint.InvalidFile(err)
	}
	for i, text := range s.Experiment.Decide.Gates {
		if _, err := compare.ParseGate(text); err != nil {
			return hint.InvalidFile(hint.Wrap(fmt.Errorf("%s: decide.gates[%d]: %w", name, i, err), hint.Of(err)))
		}
	}
	return nil
}

// CheckSource refuses an application whose pods cannot start.
func (s *Study) CheckSource() error {
	if s.Experiment.Application.Objects == nil {
		return nil
	}
	fatal := s.Experiment.Application.Objects.Fatal()
	if len(fatal) == 0 {
		return nil
	}
	var all []error
	for _, n := range fatal {
		all = append(all, errors.New(printable.Line(n.String())))
	}
	return hint.Usage(fmt.Errorf("pods of the application cannot start: %w", errors.Join(all...)), fatal[0].Hint)
}
