package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// noMesh are the directory names of the baseline.
var noMesh = []string{"none", "no-mesh", "unmeshed", "baseline"}

// expand builds the plan of the trials: treatments by mesh and then rate, trials
// in run order. A block is the ordinal of a trial in its treatment. The runs
// were not interleaved, so trials are not paired within blocks.
func (s *Study) expand() (*plan.Plan, []string) {
	p := &plan.Plan{Schema: result.PlanSchema, Experiment: s.Name}
	factors := s.factors()
	byID := map[string]int{}
	of := make([]string, len(s.Trials))
	for i := range s.Trials {
		t := s.treatment(&s.Trials[i], factors)
		of[i] = t.ID
		if _, ok := byID[t.ID]; !ok {
			byID[t.ID] = len(p.Treatments)
			p.Treatments = append(p.Treatments, t)
		}
	}
	slices.SortStableFunc(p.Treatments, s.order)
	baselines(p.Treatments)
	runs := map[string]int{}
	for i, id := range of {
		runs[id]++
		p.Blocks = max(p.Blocks, runs[id])
		p.Trials = append(p.Trials, plan.Trial{ID: fmt.Sprintf("%03d-%s-b%d", i+1, id, runs[id]), Ordinal: i + 1, Block: runs[id], Treatment: id})
	}
	return p, of
}

// factor is one factor of the study and a trial's level of it; nil: none.
type factor struct {
	name  string
	token string
	level func(*Trial) any
	apply func(*Trial, *experiment.Levels)
	// always: the factor is named even if it has one level.
	always bool
}

var allFactors = []factor{
	{"mesh", "", func(t *Trial) any { return t.Mesh }, func(t *Trial, l *experiment.Levels) { l.Mesh = t.Mesh }, true},
	{"rate", "rate", rateLevel, func(t *Trial, l *experiment.Levels) { l.Rate = t.Rate }, true},
	{"connections", "conn", positive(func(t *Trial) int { return t.Connections }), func(t *Trial, l *experiment.Levels) { l.Connections = max(t.Connections, 1) }, false},
	{"replicas", "rep", positive(func(t *Trial) int { return t.Replicas }), func(t *Trial, l *experiment.Levels) { l.Replicas = max(t.Replicas, 1) }, true},
}

func rateLevel(t *Trial) any {
	switch {
	case !t.RateKnown:
		return nil
	case t.Rate == experiment.Max:
		return t.Rate.String()
	}
	return float64(t.Rate)
}

func positive(of func(*Trial) int) func(*Trial) any {
	return func(t *Trial) any {
		if n := of(t); n > 0 {
			return float64(n)
		}
		return nil
	}
}

// factors returns the factors in which trials differ, and those always named.
func (s *Study) factors() []factor {
	var named []factor
	for _, f := range allFactors {
		levels := map[any]bool{}
		for i := range s.Trials {
			// An unreadable run has only its name.
			if v := f.level(&s.Trials[i]); v != nil && (f.always || s.Trials[i].Record.Error == "") {
				levels[v] = true
			}
		}
		if len(levels) > 1 || f.always && len(levels) > 0 {
			named = append(named, f)
		}
	}
	return named
}

func (s *Study) treatment(t *Trial, factors []factor) plan.Treatment {
	out := plan.Treatment{Factors: plan.Factors{}, Levels: experiment.DefaultLevels()}
	var words []string
	for _, f := range factors {
		v := f.level(t)
		if v == nil {
			continue
		}
		out.Factors[f.name] = v
		f.apply(t, &out.Levels)
		words = append(words, f.token+safe(fmt.Sprint(v)))
	}
	out.ID = strings.Join(words, "-")
	return out
}

// safe converts a word for use in a file name.
func safe(word string) string {
	word = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, word)
	word = strings.Trim(word[:min(len(word), 80)], ".-")
	return cmp.Or(word, "mesh")
}

// order sorts by mesh in the order of the paths, then by the numbers.
func (s *Study) order(a, b plan.Treatment) int {
	place := func(t plan.Treatment) int { return slices.Index(s.Meshes, t.Levels.Mesh) }
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Levels.Rate, b.Levels.Rate),
		cmp.Compare(a.Levels.Replicas, b.Levels.Replicas), cmp.Compare(a.Levels.Connections, b.Levels.Connections))
}

// baselines sets each treatment's baseline: the otherwise equal treatment
// without a mesh, if any.
func baselines(treatments []plan.Treatment) {
	for i := range treatments {
		t := &treatments[i]
		if slices.Contains(noMesh, t.Levels.Mesh) {
			continue
		}
		for _, b := range treatments {
			want := t.Levels
			want.Mesh = b.Levels.Mesh
			if slices.Contains(noMesh, b.Levels.Mesh) && b.Levels == want {
				t.Baseline = b.ID
				break
			}
		}
	}
}
