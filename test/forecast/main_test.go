package main

import (
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/predict"
)

// Every application that is drawn is a valid topology, and its sidecars have rates that the curve has.
func TestApplicationsAreWithinTheCurve(t *testing.T) {
	p := program{out: t.TempDir(), most: 5, seed: 3}
	shapes := map[string]bool{}
	for i := range 100 {
		a := p.draw(i)
		shapes[a.shape] = true
		g := predict.Graph{Topology: must.Get(app.Load(filepath.Clean(a.file)))(t)}
		flow := must.Get(g.Spread(map[string]float64{g.Entry: float64(a.rate)}))(t)
		for _, s := range g.Services {
			var rate float64
			for _, c := range flow.Calls {
				if c.From == s.Name || c.To == s.Name {
					rate += c.Rate
				}
			}
			if rate < lowest || rate > highest {
				t.Errorf("%s: %v requests/s through the sidecar of %s, want %d to %d", a.file, rate, s.Name, lowest, highest)
			}
		}
	}
	if len(shapes) < 8 {
		t.Errorf("%d shapes: %v", len(shapes), shapes)
	}
}
