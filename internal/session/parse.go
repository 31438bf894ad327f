package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tare-mesh/tare/examples"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
)

// Options select and change an experiment.
type Options struct {
	Set    []string // key=value
	Meshes []string // files of mesh definitions
	// Recorded: the file is part of results. The files and objects that it names are not read: they may have changed, and the
	// file may come from others.
	Recorded bool
	// Resumed is a results directory, whose seed and order a file without a seed gets.
	Resumed string
}

// Read reads an experiment file and expands it to a plan. If the file does not exist, or is a directory without one, its name may
// belong to an embedded example.
func (p *Program) Read(ctx context.Context, file string, o Options) (*Study, error) {
	data, err := strict.ReadFile(file)
	at, _ := os.Stat(file)
	dir := at != nil && at.IsDir()
	if inside := filepath.Join(file, result.ExperimentFile); dir {
		if _, err := os.Stat(inside); err == nil {
			return nil, hint.Usage(fmt.Errorf("%s is a directory", file), "name its experiment file: "+inside)
		}
	}
	if (dir || errors.Is(err, fs.ErrNotExist)) && filepath.Ext(file) == "" && filepath.Base(file) == file {
		if !slices.Contains(examples.Names(), file) {
			help := "name a file, or an example of `tare list examples`"
			if near, ok := strict.Nearest(file, examples.Names()); ok {
				help = "did you mean the example `" + near + "`?"
			}
			return nil, hint.Usage(err, help)
		}
		data, err = examples.Read(file)
	}
	if err != nil {
		return nil, hint.InvalidFile(err)
	}
	return p.Decode(ctx, file, data, o)
}

// Decode is [Program.Read] for the content of a file.
func (p *Program) Decode(ctx context.Context, file string, data []byte, o Options) (*Study, error) {
	var f *experiment.File
	var err error
	if o.Recorded {
		f, err = experiment.DecodeRecord(file, data)
	} else {
		f, err = experiment.Decode(file, data, o.Set...)
	}
	if err != nil {
		return nil, hint.InvalidFile(err)
	}
	s, err := p.resolve(ctx, f, filepath.Dir(file), o)
	if err != nil {
		return nil, err
	}
	if err := s.validate(f, file); err != nil {
		return nil, err
	}
	return s, s.expand()
}
