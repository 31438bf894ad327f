package session

import (
	"context"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// Options select and change an experiment.
type Options struct {
	Set    []string // key=value
	Meshes []string // files of mesh definitions
	// Recorded: the file is that of results. The files and objects that it names are not read: they may have changed, and the
	// file may come from others.
	Recorded bool
	// Resumed is a results directory, whose seed and order a file without a seed gets.
	Resumed string
}

// Read reads an experiment file and expands it to a plan.
func (p *Program) Read(ctx context.Context, file string, o Options) (*Study, error) {
	data, err := strict.ReadFile(file)
	if err != nil {
		return nil, hint.InvalidFile(err)
	}
	return p.Decode(ctx, file, data, o)
}
