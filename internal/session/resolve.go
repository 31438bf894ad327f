package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
)

// resolve reads what a decoded file in dir refers to, and completes the experiment. Mistakes are added to the file. An
// error reports a mesh definition that cannot be read, or that this program lacks the Kubernetes libraries.
func (p *Program) resolve(ctx context.Context, f *experiment.File, dir string, o Options) (*Study, error) {
	definitions, err := mesh.Collect(o.Meshes...)
	if err != nil {
		return nil, hint.InvalidFile(err)
	}
	s := &Study{Program: p, Experiment: f.Experiment, Meshes: map[string]mesh.Definition{}, definitions: o.Meshes}
	for _, d := range definitions {
		s.Meshes[d.Name] = d
	}
	if !o.Recorded {
		r := references{f, f.Experiment, dir}
		s.unread = r.objects(ctx, p)
		if errors.Is(s.unread, ErrKubernetes) || errors.Is(s.unread, context.Canceled) {
			return nil, s.unread
		}
		r.topology()
		r.applications()
		r.targets(s.notef)
		r.bodies()
		r.paths()
	}
	f.Complete()
	if s.Drawn = !f.Has("seed"); s.Drawn {
		s.draw(f, o.Resumed)
	}
	return s, nil
}

// draw gives a file without a seed the seed of the run in the directory resumed, or a fresh one. A file without an order
// gets the order of that run, or the one that suits it.
func (s *Study) draw(f *experiment.File, resumed string) {
	s.Experiment.Seed = 1 + rand.Uint64N(1e9) // short enough to be typed
	order := experiment.OrderBalanced
	if resumed != "" {
		earlier, err := experiment.ReadRecord(filepath.Join(resumed, result.ExperimentFile))
		if err == nil { // opening the directory reports it
			s.Experiment.Seed, order = earlier.Seed, earlier.Order
		}
	}
	if f.Has("order") {
		return
	}
	if resumed == "" {
		order = s.chooseOrder()
	}
	f.SetOrder(order)
}
