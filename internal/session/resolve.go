package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load/template"
	"github.com/tare-mesh/tare/internal/result"
)

// Decode is [Program.Read] for the content of a file.
func (p *Program) Decode(ctx context.Context, file string, data []byte, o Options) (*Study, error) {
	definitions, err := mesh.Collect(o.Meshes...)
	if err != nil {
		return nil, hint.InvalidFile(err)
	}
	s := &Study{Program: p, Meshes: map[string]mesh.Definition{}, definitions: o.Meshes}
	known := p.Known()
	known.Meshes = nil
	for _, d := range definitions {
		s.Meshes[d.Name] = d
		known.Meshes = append(known.Meshes, d.Name)
	}
	known.Draw, known.Order = drawSeed, s.chooseOrder
	if o.Resumed != "" {
		seed, order := recordedSeed(o.Resumed)
		known.Draw = func() uint64 { return seed }
		known.Order = func(*experiment.Experiment) string { return order }
	}
	draw := known.Draw
	known.Draw = func() uint64 {
		s.Drawn = true
		return draw()
	}
	var unread error // of the objects of the application
	if known.Recorded = o.Recorded; !o.Recorded {
		known.Objects = func(x *experiment.Experiment) (set *manifest.Set, err error) {
			if set, err = p.objects(ctx, x); x.Application.Namespace != "" || errors.Is(err, ErrKubernetes) {
				unread = err
			}
			return set, err
		}
		known.Targets = func(path string, texts *template.Reader, instants bool) ([]experiment.Request, error) {
			return Targets(path, texts, instants, s.notef)
		}
	}
	known.Definition = func(name string) (mesh.Definition, bool) { d, ok := s.Meshes[name]; return d, ok }
	if s.Experiment, err = experiment.Decode(file, data, known, o.Set...); err != nil {
		if mistakes := (strict.Problems)(nil); errors.Is(unread, context.Canceled) || errors.Is(unread, ErrKubernetes) || unread != nil && errors.As(err, &mistakes) && len(mistakes) == 1 {
			return nil, unread // the cluster's answer is not a mistake in the file
		}
		return nil, hint.InvalidFile(err)
	}
	return s, s.validate(file)
}

// drawSeed returns a fresh seed, short enough to be typed.
func drawSeed() uint64 { return 1 + rand.Uint64N(1e9) }

// recordedSeed returns the seed and order of an earlier run, for a file without a seed.
func recordedSeed(dir string) (seed uint64, order string) {
	x, err := experiment.Read(filepath.Join(dir, result.ExperimentFile), experiment.Known{Recorded: true})
	if err != nil { // opening the directory reports it
		return drawSeed(), experiment.OrderBalanced
	}
	return x.Seed, x.Order
}

// copyWithin bounds the reading of a namespace.
const copyWithin = time.Minute

// objects reads the objects of an application from manifests, or from the namespace where it runs.
func (p *Program) objects(ctx context.Context, x *experiment.Experiment) (*manifest.Set, error) {
	if ns := x.Application.Namespace; ns != "" {
		if err := p.Runs(x); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, copyWithin)
		defer cancel()
		set, err := p.Kubernetes.Copy(ctx, x.Platform, ns)
		if err == nil && x.Application.InPlace {
			set.InPlace()
		}
		return set, err
	}
	if !slices.ContainsFunc(x.Application.Manifests, func(path string) bool { return manifest.Kustomized(path) != "" }) {
		return manifest.Read(nil, x.Application.Manifests...)
	}
	if err := p.Runs(x); err != nil {
		return nil, err
	}
	return manifest.Read(p.Kubernetes.Kustomize, x.Application.Manifests...)
}
