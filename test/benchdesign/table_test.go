package main

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/test/difftest"
)

// filled is the output of a suite whose blocks have these figures, by design, treatment and metric.
func filled(name string, blocks int, of func(design int, treatment, metric string) float64) string {
	var out bytes.Buffer
	t := newTable(&bench{out: &out, blocks: blocks}, suites[name])
	for range blocks {
		for i := range t.columns {
			r := &answer.Report{}
			for _, x := range append(t.suite.comparisons, t.headlines...) {
				for _, treatment := range []string{x.treatment, x.baseline} {
					r.Trials = append(r.Trials, figures.Trial{Treatment: treatment, Valid: true, Metrics: map[string]float64{}})
				}
			}
			seen := map[string]float64{}
			for _, trial := range r.Trials {
				for _, x := range append(t.suite.comparisons, t.headlines...) {
					key := trial.Treatment + x.metric
					if _, known := seen[key]; !known {
						seen[key] = of(i, trial.Treatment, x.metric)
					}
					trial.Metrics[x.metric] = seen[key]
				}
				trial.Metrics[loadCPU] = trial.Metrics[appCPU]
			}
			t.columns[i].add(t.suite.comparisons, t.headlines, r, 40*time.Second/time.Duration(min(1+i, 2)))
		}
	}
	t.write()
	return out.String()
}

// rowsWith are the rows of the tables that begin with a cell.
func rowsWith(text, cell string) (rows []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| "+cell+" |") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	return rows
}

// A design with a fifth of the noise meets what is required of it; one with the same noise does not, although it has
// twice the blocks in equal time.
func TestRequiredWidths(t *testing.T) {
	for noise, want := range map[float64]string{0.2: "| yes |", 1: "| no |"} {
		r := rand.New(rand.NewPCG(1, 1))
		text := filled("designs", 200, func(design int, treatment, _ string) float64 {
			spread := 0.05
			if design > 0 {
				spread *= noise
			}
			return 100 * (1 + spread*r.NormFloat64())
		})
		for _, cell := range []string{"A against A, data plane", "mesh against mesh, data plane", "mesh against none, data plane", "mesh against none, total"} {
			rows := rowsWith(text, cell)
			of := 1
			if strings.HasPrefix(cell, "mesh against none") { // short blocks
				of = 2
			}
			if len(rows) != 3 {
				t.Errorf("noise × %v, %s: %q, want %q", noise, cell, rows, want)
			} else if d := difftest.Wrong("!strings.HasSuffix(rows[of], want)", !strings.HasSuffix(rows[of], want), `!strings.Contains(rows[of], "| ≤ 0.")`, !strings.Contains(rows[of], "| ≤ 0."), `strings.Contains(rows[3-of], "≤")`, strings.Contains(rows[3-of], "≤")); d != "" {
				t.Errorf("%s: noise × %v, %s: %q, want %q", d, noise, cell, rows, want)
			}
		}
		if rows := rowsWith(text, "mesh against none: memory, data plane"); len(rows) != 1 || noise < 1 && !strings.HasSuffix(rows[0], "| yes |") {
			t.Errorf("noise × %v: headline metrics %q in\n%s", noise, rows, text)
		}
	}
}

// Each design of each suite is a valid experiment with the treatments of its comparisons.
func TestSuitesArePlanned(t *testing.T) {
	for name, s := range suites {
		for _, d := range s.designs {
			e, err := experiment.Parse("bench.yaml", []byte(experimentText), experiment.Names{Meshes: mesh.Names(), Platforms: []string{"local"}}, append(slices.Clone(s.settings), d.settings...)...)
			if err != nil {
				t.Errorf("%s, %s: %v", name, d.name, err)
				continue
			}
			p, err := plan.Expand(e)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, d.name, err)
			}
			for _, c := range s.comparisons {
				for _, treatment := range []string{c.treatment, c.baseline} {
					if !slices.ContainsFunc(p.Treatments, func(t plan.Treatment) bool { return t.ID == treatment }) {
						t.Errorf("%s, %s: no treatment %s", name, d.name, treatment)
					}
				}
			}
		}
	}
}
