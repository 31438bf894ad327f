package plan_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

const twoFactors = "factors: {mesh: [none, envoy, envoy-tcp], rate: [100, 200]}\ncontrol: true\nblocks: 4\n"

// meshes are the meshes of consecutive trials, without repetitions.
func meshes(p *plan.Plan, in func(plan.Trial) bool) (turns []string) {
	of := map[string]string{}
	for _, t := range p.Treatments {
		of[t.ID] = t.Levels.Mesh
	}
	for _, t := range p.Trials {
		if m := of[t.Treatment]; in(t) && (len(turns) == 0 || turns[len(turns)-1] != m) {
			turns = append(turns, m)
		}
	}
	return turns
}

func TestOrders(t *testing.T) {
	random := expand(t, twoFactors)
	if random.Order != "" {
		t.Errorf("the order is %q", random.Order)
	}
	for order, turns := range map[string]int{experiment.OrderByMesh: 3 * 4, experiment.OrderOnce: 3} {
		p := expand(t, twoFactors+"order: "+order)
		if want := map[string]string{experiment.OrderByMesh: plan.ByMesh}[order]; p.Order != cmp.Or(want, order) || len(p.Trials) != len(random.Trials) || p.Expected != random.Expected {
			t.Fatalf("%s: %q, %d trials, %v", order, p.Order, len(p.Trials), p.Expected)
		}
		ran := map[string]uint64{}
		for i, trial := range p.Trials {
			ran[fmt.Sprint(trial.Treatment, trial.Block)] = trial.Seed
			if trial.Ordinal != i+1 || trial.ID != fmt.Sprintf("%03d-%s-b%d", i+1, trial.Treatment, trial.Block) {
				t.Errorf("%s: %+v", order, trial)
			}
		}
		for _, trial := range random.Trials { // the same trials with the same arrivals
			if seed, ok := ran[fmt.Sprint(trial.Treatment, trial.Block)]; !ok || seed != trial.Seed {
				t.Errorf("%s: %+v was not run, or with another seed", order, trial)
			}
		}
		got := 0
		if order == "once" {
			got = len(meshes(p, func(plan.Trial) bool { return true }))
		} else {
			first := map[string]bool{}
			for b := 1; b <= 4; b++ {
				in := meshes(p, func(t plan.Trial) bool { return t.Block == b })
				first[in[0]] = true
				got += len(in)
			}
			if len(first) < 2 {
				t.Errorf("every block begins with the same mesh")
			}
			if !slices.IsSortedFunc(p.Trials, func(a, b plan.Trial) int { return a.Block - b.Block }) {
				t.Error("blocks overlap")
			}
		}
		if got != turns {
			t.Errorf("%s: meshes come %d times, want %d", order, got, turns)
		}
	}
}

func TestTopologyIsAFactor(t *testing.T) {
	p := expand(t, "factors: {mesh: [none, envoy], application: [faces, faces-as-published]}")
	want := []string{"none-faces", "none-faces-as-published", "envoy-faces < none-faces", "envoy-faces-as-published < none-faces-as-published"}
	if got := ids(p); !slices.Equal(got, want) || p.Treatments[1].Levels.Application != "faces-as-published" || p.Treatments[0].Factors["application"] != "faces" {
		t.Errorf("got %q", got)
	}
}

func TestApplicationsWithoutAMesh(t *testing.T) {
	p := expand(t, "applications: {plain: {command: [x]}, otel: {from: plain, env: {A: b}}}\nfactors: {application: [plain, otel], rate: [100]}\ncontrol: true\nreference: true")
	want := []string{"plain", "plain-control < plain", "reference-plain < plain", "otel < plain"}
	if got := ids(p); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if groups := p.AtOnce(); len(groups) != 1 {
		t.Errorf("%d groups of treatments at once, want 1", len(groups))
	}
}
