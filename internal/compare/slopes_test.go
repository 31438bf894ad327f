package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/test/difftest"
)

// Variants that differ in one number give a line over it; others are left out of it.
func TestSlopes(t *testing.T) {
	const memory, cpu = "memory_mib/data", "cpu_us_per_request/data"
	r := rand.New(rand.NewPCG(5, 5))
	a := &Run{estimator: estimator{confidence: 0.99, method: Paired, blocks: 6}}
	a.File.Meshes = map[string]map[string]any{
		"c10":   {"from": "envoy", "options": map[string]any{"clusters": 10}},
		"c100":  {"from": "envoy", "options": map[string]any{"clusters": "100"}},
		"c1000": {"from": "c100", "options": map[string]any{"clusters": 1000}},
		"other": {"from": "c1000", "options": map[string]any{"accessLog": true}},
		"wide":  {"from": "c1000", "concurrency": 2},
	}
	items := map[string]float64{"envoy": 0, "c10": 10, "c100": 100, "c1000": 1000}
	by := map[string][]figures.Measured{}
	for _, name := range []string{"none", "envoy", "c10", "c100", "c1000", "other", "wide"} {
		treatment := plan.Treatment{ID: name, Factors: plan.Factors{"mesh": name, "rate": 100.0}}
		a.Plan.Treatments = append(a.Plan.Treatments, treatment)
		for b := 1; b <= 6; b++ {
			n, swept := items[name]
			values := map[string]float64{memory: (50 + 0.04*n) * (1 + 0.01*r.NormFloat64()), cpu: 400 * (1 + 0.01*r.NormFloat64())}
			if !swept {
				values = map[string]float64{memory: 1e6, cpu: 1e6}
			}
			by[name] = append(by[name], figures.Measured{Trial: figures.Trial{Block: b, Treatment: name, Valid: true, Metrics: values}})
		}
	}
	all := a.slopes(by)
	if len(all) != 2 || all[0].Metric != memory || all[1].Metric != cpu {
		t.Fatalf("%+v", all)
	}
	m, c := all[0], all[1]
	if d := difftest.Of("m.Mesh", m.Mesh, "envoy", "m.Option", m.Option, "clusters", "m.Levels", m.Levels, 4, "m.N", m.N, 24, "m.From", m.From, 0, "m.To", m.To, 1000, "fmt.Sprint(m.Factors)", fmt.Sprint(m.Factors), "map[rate:100]"); d != "" {
		t.Errorf("%s: %+v", d, m)
	}
	if d := difftest.Wrong("m.PerItem.Excludes(0.04)", m.PerItem.Excludes(0.04), "!m.PerItem.Excludes(0.035)", !m.PerItem.Excludes(0.035), "m.None.Excludes(50)", m.None.Excludes(50), "math.Abs(m.PerItem.Estimate-0.04) > 0.004", math.Abs(m.PerItem.Estimate-0.04) > 0.004); d != "" {
		t.Errorf("%s: per item %+v, none %+v", d, m.PerItem, m.None)
	}
	if c.PerItem.Excludes(0) {
		t.Errorf("CPU per item %+v", c.PerItem)
	}
	// A mesh without the option in the file has the recorded default.
	a.Environment.Options = map[string]map[string]string{"envoy": {"clusters": "5", "accessLog": "false"}, "c10": {"clusters": "10", "accessLog": "false"},
		"c100": {"clusters": "100", "accessLog": "false"}, "c1000": {"clusters": "1000", "accessLog": "false"},
		"other": {"clusters": "1000", "accessLog": "true"}, "wide": {"clusters": "1000", "accessLog": "false"}}
	if all := a.slopes(by); len(all) != 2 || all[0].PerItem.Estimate == m.PerItem.Estimate {
		t.Errorf("with a default of 5: %+v", all)
	} else if d := difftest.Of("all[0].From", all[0].From, 5, "all[0].Levels", all[0].Levels, 4); d != "" {
		t.Errorf("%s: with a default of 5: %+v", d, all)
	}
	a.Environment.Options = nil
	for i := range by["c1000"] {
		by["c1000"][i].Metrics[memory] *= 3
	}
	if all = a.slopes(by); len(all[0].Warnings) != 1 || all[0].Warnings[0].Code != "not-a-line" {
		t.Errorf("a curve has the warnings %+v", all[0].Warnings)
	}
}
