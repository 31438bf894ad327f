package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// followers counts how often each member follows each, from the slice before the first on.
func followers(owners []int, members, from int) [][]int {
	n := make([][]int, members)
	for i := range n {
		n[i] = make([]int, members)
	}
	for i := max(from, 1); i < len(owners); i++ {
		n[owners[i-1]][owners[i]]++
	}
	return n
}

// Over a whole circuit each member has the same number of slices, follows each other equally often,
// and follows itself as often as every other does.
func TestOwnersAreBalanced(t *testing.T) {
	for members := 1; members <= 7; members++ {
		rows := members
		if members%2 == 1 && members > 1 {
			rows *= 2
		}
		for seed := range uint64(5) {
			const warmup = 3
			measure := 2 * rows * rows
			owners := plan.Owners(seed, members, warmup, measure)
			if len(owners) != members*(warmup+measure) {
				t.Fatalf("%d members: %d slices", members, len(owners))
			}
			n := followers(owners, members, members*warmup)
			for a := range members {
				for b := range members {
					if a != b && n[a][b] != n[0][1] || a == b && n[a][a] != n[0][0] {
						t.Fatalf("%d members, seed %d: followers %v", members, seed, n)
					}
				}
			}
			for i := 0; i < len(owners); i += members { // each row has everyone once
				row := slices.Sorted(slices.Values(owners[i : i+members]))
				if len(slices.Compact(row)) != members {
					t.Fatalf("%d members: row %v", members, owners[i:i+members])
				}
			}
		}
	}
}

// A phase that is not a whole number of circuits is nearly balanced.
func TestOwnersOfAnyLength(t *testing.T) {
	for members := 2; members <= 6; members++ {
		for measure := 1; measure < 120; measure += 7 {
			n := followers(plan.Owners(9, members, 0, measure), members, 1)
			rows := members * (1 + members%2)
			for a := range members {
				for b := range members {
					if a != b && (n[a][b]-n[1][0] > 3*rows || n[1][0]-n[a][b] > 3*rows) {
						t.Fatalf("%d members, %d rows: followers %v", members, measure, n)
					}
				}
			}
		}
	}
}

func TestSeedDecidesTheOwners(t *testing.T) {
	a, b, c := plan.Owners(1, 3, 2, 40), plan.Owners(1, 3, 2, 40), plan.Owners(2, 3, 2, 40)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("seeds 1, 1, 2: %v, %v, %v", a, b, c)
	}
}

const interleaved = "order: interleaved\nphases: {warmup: 1s, measure: 4s}\ncontrol: true\nblocks: 3\n"

// Treatments that share a baseline and a load are a round; others are not in it.
func TestRounds(t *testing.T) {
	p := expand(t, interleaved+"factors: {mesh: [none, envoy], rate: [100, 200]}\n")
	if p.Order != "interleaved" || p.Slices == nil || *p.Slices != (plan.Slices{Length: 100 * time.Millisecond, Guard: 10 * time.Millisecond, Warmup: 10, Measure: 40}) {
		t.Fatalf("order %q, slices %+v", p.Order, p.Slices)
	}
	rate := map[string]float64{}
	for _, x := range p.Treatments {
		rate[x.ID] = float64(x.Levels.Rate)
	}
	of, blocks := map[int]map[float64]int{}, map[int]map[int]bool{}
	last := 0
	for i, x := range p.Trials {
		if x.Round < last || x.Ordinal != i+1 {
			t.Errorf("trial %+v after round %d", x, last)
		}
		last = x.Round
		if of[x.Round] == nil {
			of[x.Round], blocks[x.Round] = map[float64]int{}, map[int]bool{}
		}
		of[x.Round][rate[x.Treatment]]++
		blocks[x.Round][x.Block] = true
	}
	if len(of) != 6 || last != 6 {
		t.Errorf("%d rounds, the last is %d", len(of), last)
	}
	for n, rates := range of {
		if len(rates) != 1 || len(blocks[n]) != 1 || rates[100]+rates[200] != 3 {
			t.Errorf("round %d: trials by rate %v, blocks %v", n, rates, blocks[n])
		}
	}
	if whole := expand(t, "phases: {warmup: 1s, measure: 4s}\ncontrol: true\nblocks: 3\nfactors: {mesh: [none, envoy], rate: [100, 200]}\n"); p.Expected >= whole.Expected {
		t.Errorf("rounds take %v, trials one after another %v", p.Expected, whole.Expected)
	}
}

// A treatment without another to be compared with runs alone.
func TestTrialsThatRunAlone(t *testing.T) {
	for _, x := range expand(t, "order: interleaved\nphases: {measure: 2s}\nfactors: {mesh: [envoy], rate: [100, 200]}\n").Trials {
		if x.Round != 0 {
			t.Errorf("%+v", x)
		}
	}
}

// The A/A pair of a mesh is in the round of the mesh.
func TestControlsAreInTheRound(t *testing.T) {
	p := expand(t, "factors: {mesh: [none, envoy]}\ncontrolAll: true\norder: interleaved\nblocks: 2\nphases: {warmup: 1s, measure: 4s, drain: 1s}")
	rounds := map[int]int{}
	for _, tr := range p.Trials {
		rounds[tr.Round]++
	}
	if len(p.Treatments) != 4 || len(rounds) != 2 {
		t.Errorf("%d treatments, trials by round %v", len(p.Treatments), rounds)
	} else if d := difftest.Of("rounds[1]", rounds[1], 4, "rounds[2]", rounds[2], 4); d != "" {
		t.Errorf("%s: %d treatments, trials by round %v", d, len(p.Treatments), rounds)
	}
}

// The reference proxy is in the round of its baseline.
func TestReferenceIsInTheRound(t *testing.T) {
	p := expand(t, "reference: true\n"+interleaved+"factors: {mesh: [none, envoy], rate: [100, 200]}\n")
	if got := ids(p); !slices.Equal(got, []string{"none-rate100", "none-rate100-control < none-rate100", "reference-rate100 < none-rate100",
		"none-rate200", "none-rate200-control < none-rate200", "reference-rate200 < none-rate200", "envoy-rate100 < none-rate100", "envoy-rate200 < none-rate200"}) {
		t.Errorf("%q", got)
	}
	members := map[int]int{}
	for _, x := range p.Trials {
		members[x.Round]++
	}
	for round, n := range members {
		if n != 4 || round == 0 {
			t.Errorf("round %d has %d trials", round, n)
		}
	}
}

// An A/A test has the order of the experiment.
func TestAAIsInterleaved(t *testing.T) {
	e := must.Get(experiment.Parse("t.yaml", []byte(header+interleaved+"factors: {mesh: [none, envoy]}\n"), experiment.Names{}))(t)
	p := must.Get(plan.Expand(e))(t)
	aa, err := p.AA("envoy", e, 3, 4*time.Second)
	if err != nil || aa.Slices == nil || len(aa.Trials) != 6 {
		t.Fatalf("%+v, %v", aa, err)
	}
	for i, x := range aa.Trials {
		if x.Round != 1+i/2 {
			t.Errorf("%+v", x)
		}
	}
}

// Plans that gain nothing from rounds, or have none, have a reason.
func TestNotInterleaved(t *testing.T) {
	names := make([]string, 40)
	for i := range names {
		names[i] = fmt.Sprint("m", i)
	}
	for body, want := range map[string]string{
		"factors: {mesh: [none, envoy], rate: [100, 200]}\ncontrol: true\n":                       "",
		"factors: {mesh: [envoy, envoy-tcp]}\n":                                                   "",
		"factors: {mesh: [none], rate: [100, 200]}\n":                                             "no treatments are compared",
		"factors: {mesh: [none, envoy], rate: [100, 200]}\nbaseline: {mesh: none, rate: 100}\n":   "different loads",
		"factors: {mesh: [" + strings.Join(names, ", ") + "]}\nbaseline: {mesh: m0}\nblocks: 1\n": "40 treatments would be deployed at once, max 36",
	} {
		if got := expand(t, body).NotInterleaved(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%.80s: %q, want %q", body, got, want)
		}
	}
}

// A table of slices has a limit, which is known before anything is deployed. Fewer treatments at once have fewer slices.
func TestSlicesFitTheTable(t *testing.T) {
	for body, refused := range map[string]bool{
		"factors: {mesh: [none, envoy]}\nphases: {warmup: 0s, measure: 87m}\n":            false,
		"factors: {mesh: [none, envoy]}\nphases: {warmup: 0s, measure: 90m}\n":            true,
		"factors: {mesh: [none, envoy, envoy-tcp]}\nphases: {warmup: 0s, measure: 60m}\n": true,
	} {
		e, err := experiment.Parse("t.yaml", []byte(header+"order: interleaved\nblocks: 1\nslices: {length: 10ms}\n"+body), experiment.Names{})
		must.OK(t, err)
		_, err = plan.Expand(e)
		if (err != nil) != refused || refused && (!strings.Contains(err.Error(), "slices of 10ms, max 1048576") || !strings.Contains(hint.Of(err), "longer slices")) {
			t.Errorf("%s: %v, hint %q", body, err, hint.Of(err))
		}
	}
}
