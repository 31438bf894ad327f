// Package plan turns an experiment into the ordered list of its trials. It is
// pure: the same experiment and seed give the same plan on every machine.
//
// The design is randomised complete blocks: each block runs every treatment
// once, in an order drawn from the seed. Drift of the machine then affects all
// treatments alike, and analysis can pair within blocks. A balanced order draws
// whole Williams designs. If changing the mesh is
// expensive, its trials can be kept together, within a block or over all blocks.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Factors is one combination of factor levels as records and reports show it:
// exactly the factors named in the experiment file, by their name there.
// Values are strings, float64 or bool, so that they survive JSON.
type Factors map[string]any

// Treatment is one combination of factor levels, resolved.
type Treatment struct {
	ID        string            `json:"id"`                  // name, safe in file names, unique
	Factors   Factors           `json:"factors"`             // levels of the experiment's factors
	Levels    experiment.Levels `json:"levels"`              // the same, typed, with defaults filled in
	Control   bool              `json:"control,omitempty"`   // a baseline that is measured again
	Reference bool              `json:"reference,omitempty"` // the reference proxy beside a baseline: the standard weight
	Baseline  string            `json:"baseline,omitempty"`  // its baseline, absent for a baseline
}

// Trial is one run of one treatment in one block.
type Trial struct {
	ID        string `json:"id"`        // name of the trial and of its directory
	Ordinal   int    `json:"ordinal"`   // position in the order, from 1
	Block     int    `json:"block"`     // block, from 1
	Treatment string `json:"treatment"` // a treatment's `id`
	// Seed of the trial's arrivals. The same for all treatments of a block: common random numbers narrow paired differences.
	Seed  uint64 `json:"seed"`            // seed of the arrivals, equal within a block
	Round int    `json:"round,omitempty"` // round whose trials run at once, from 1, absent for a trial alone
}

// Plan is the output of `tare plan`, and the content of plan.json.
type Plan struct {
	Schema     string `json:"schema"`              // `tare.plan/v1`
	Experiment string `json:"experiment"`          // the experiment's name
	Seed       uint64 `json:"seed"`                // seed of the order
	Blocks     int    `json:"blocks"`              // maximum number of blocks
	MinBlocks  int    `json:"minBlocks,omitempty"` // minimum number of blocks, absent without early stop
	Until      string `json:"until,omitempty"`     // interval width at which the run stops, or `valid`: at minBlocks without an invalid trial
	Way        string `json:"way,omitempty"`       // path of the load to the application, unless it is the entry
	Order      string `json:"order,omitempty"`     // `balanced`, `turns` (`by-mesh` in the file), `once`, `interleaved`, absent for random order
	// Slices of rounds, absent without rounds.
	Slices      *Slices       `json:"slices,omitempty"`
	Treatments  []Treatment   `json:"treatments"`
	Trials      []Trial       `json:"trials"`
	TrialTime   time.Duration `json:"trialTime"`             // expected duration of a trial, ns
	Expected    time.Duration `json:"expected"`              // expected duration of all trials, ns
	MeshChanges int           `json:"meshChanges,omitempty"` // mesh installs and uninstalls, which `expected` includes
}

// Schema of plan.json.
const Schema = "tare.plan/v1"

// ControlFactor is the factor of an A/A pair's second baseline. Its value is true.
const ControlFactor = "control"

// Allowance is the time of a trial outside its phases: to deploy, verify,
// settle, read the meters and remove. Processes of one machine start in well
// under a second. The rest is the probes, and load that goes on while the meters
// are read.
const Allowance = 2 * time.Second

// batchAllowance is the time of a round of programs that end outside their executions.
const batchAllowance = 200 * time.Millisecond

// Expand lists the treatments of an experiment and puts their trials in order.
// The treatments are the product of the factors, the first factor varying
// slowest. e must be valid, as [experiment.File.Validate] checks. The error describes an invalid one.
func Expand(e *experiment.Experiment) (*Plan, error) {
	treatments, err := treatments(e)
	if err != nil {
		return nil, fmt.Errorf("expand experiment %s: %w", e.Metadata.Name, err)
	}
	if n := len(treatments) * e.Blocks.Max; n > experiment.MaxTrials {
		return nil, fmt.Errorf("expand experiment %s: %d trials, more than %d", e.Metadata.Name, n, experiment.MaxTrials)
	}
	outside := Allowance
	if e.Batch != nil {
		outside = batchAllowance
	}
	p := &Plan{
		Schema:     Schema,
		Experiment: e.Metadata.Name,
		Seed:       e.Seed,
		Blocks:     e.Blocks.Max,
		Way:        e.Way(),
		Treatments: treatments,
		TrialTime:  time.Duration(e.Phases.Warmup) + time.Duration(e.Phases.Measure) + time.Duration(e.Phases.Drain) + outside,
	}
	p.Trials = make([]Trial, 0, len(treatments)*max(e.Blocks.Max, 0))
	for b := 1; b <= e.Blocks.Max; b++ {
		p.Trials = appendBlock(p.Trials, treatments, e.Seed, b, e.Order == experiment.OrderBalanced)
	}
	if e.Order == experiment.OrderBalanced {
		p.Order = e.Order
	}
	p.keepTogether(e.Order)
	if e.Blocks.Until != nil {
		p.MinBlocks, p.Until = e.Blocks.Min, e.Blocks.Until.String()
	}
	p.Expected = p.TrialTime * time.Duration(len(p.Trials))
	p.addSearches(e)
	if err := p.interleave(e); err != nil {
		return nil, fmt.Errorf("expand experiment %s: %w", e.Metadata.Name, err)
	}
	return p, nil
}

// addSearches adds the time of searches for the highest rate, and of background services and simulated proxies.
func (p *Plan) addSearches(e *experiment.Experiment) {
	if len(p.Trials) == 0 {
		return
	}
	background := p.backgroundTime(e)
	more := map[string]time.Duration{} // by treatment
	for _, t := range p.Treatments {
		more[t.ID] = t.Levels.Capacity.SearchTime() + background[t.ID]
	}
	for _, t := range p.Trials {
		p.Expected += more[t.Treatment]
	}
	p.TrialTime = p.Expected / time.Duration(len(p.Trials))
}

// podTime is the time until a background pod is a ready endpoint. 500 of them took 30 s: by default kube-controller-manager sends 20
// requests a second.
const podTime = 60 * time.Millisecond

// serviceTime is the time to create a background service on a cluster. 400 of them took 3.2 s on a cluster of one node with two busy CPUs.
const serviceTime = 8 * time.Millisecond

// backgroundTime is the time of the background services, their pods and simulated proxies of a trial, by treatment. On this machine a control plane
// gets all services at once, and need not limit new streams.
func (p *Plan) backgroundTime(e *experiment.Experiment) map[string]time.Duration {
	all := map[string]time.Duration{}
	for _, t := range p.Treatments {
		if e.Platform.Kind == mesh.OnKubernetes {
			all[t.ID] = time.Duration(t.Levels.BackgroundServices)*serviceTime + time.Duration(t.Levels.BackgroundPods)*podTime
			if t.Levels.Mesh != "none" {
				all[t.ID] += mesh.SimulatedTime(t.Levels.BackgroundProxies)
			}
		}
	}
	return all
}

// AA is the plan of an A/A test: one treatment of p against itself, over the given
// number of blocks. e has its phases and order.
func (p *Plan) AA(treatment string, e *experiment.Experiment, blocks int, trial time.Duration) (*Plan, error) {
	i := slices.IndexFunc(p.Treatments, func(t Treatment) bool { return t.ID == treatment && !t.Control })
	if i < 0 {
		return nil, fmt.Errorf("measure a baseline again: the plan has no treatment %s", treatment)
	}
	base := p.Treatments[i]
	base.Baseline = ""
	aa := &Plan{Schema: p.Schema, Experiment: p.Experiment, Seed: p.Seed, Blocks: blocks, TrialTime: trial,
		Treatments: []Treatment{base, control(base, namer{taken: map[string]bool{}})}}
	for b := 1; b <= blocks; b++ {
		aa.Trials = appendBlock(aa.Trials, aa.Treatments, p.Seed, b, p.Order == experiment.OrderBalanced)
	}
	aa.Expected = trial * time.Duration(len(aa.Trials))
	return aa, aa.interleave(e)
}

// appendBlock runs every treatment once, in an order drawn from seed and block, or balanced over blocks.
func appendBlock(trials []Trial, treatments []Treatment, seed uint64, block int, balanced bool) []Trial {
	source := rand.NewPCG(seed, uint64(block))
	trialSeed := source.Uint64() >> 11 // 53 bits: every reader of JSON keeps them exactly
	order := numbers(len(treatments))
	if shuffle(order, source); balanced {
		order = balancedOrder(len(treatments), seed, block)
	}
	for _, i := range order {
		n := len(trials) + 1
		trials = append(trials, Trial{
			ID:        trialID(n, treatments[i].ID, block),
			Ordinal:   n,
			Block:     block,
			Treatment: treatments[i].ID,
			Seed:      trialSeed,
		})
	}
	return trials
}

// treatments is the product of the factors, or the part of it that oneAtATime leaves. The control of a treatment follows it.
func treatments(e *experiment.Experiment) ([]Treatment, error) {
	factors := e.Factors.Named()
	ids := namer{taken: map[string]bool{}}
	byLevels := map[experiment.Levels]string{}
	var all []Treatment
	choice := make([]int, len(factors))
	for {
		t := treatment(factors, choice, e.DefaultLevels())
		if other, twice := byLevels[t.Levels]; twice {
			return nil, fmt.Errorf("two treatments are equal: %s", other)
		}
		if !e.OneAtATime || e.Baseline.Differences(t.Levels) <= 1 {
			t.ID = ids.unique(t.ID)
			byLevels[t.Levels] = t.ID
			all = append(all, t)
		}
		if !next(choice, factors) {
			break
		}
		if len(all) > experiment.MaxTrials {
			return nil, fmt.Errorf("more than %d treatments", experiment.MaxTrials)
		}
	}
	if e.Baseline == nil {
		if e.Control || e.ControlAll {
			return nil, fmt.Errorf("a control needs a baseline")
		}
		return all, nil
	}
	return withBaselines(all, e, byLevels, ids)
}

func withBaselines(all []Treatment, e *experiment.Experiment, byLevels map[experiment.Levels]string, ids namer) ([]Treatment, error) {
	out := make([]Treatment, 0, len(all)+1)
	for _, t := range all {
		base := t.Levels
		e.Baseline.Apply(&base)
		id, ok := byLevels[base]
		switch {
		case !ok:
			return nil, fmt.Errorf("the baseline of %s is not among the treatments", t.ID)
		case id != t.ID:
			t.Baseline = id
		}
		out = append(out, t)
		if t.Baseline == "" && e.Control || e.ControlAll {
			out = append(out, control(t, ids))
		}
		if t.Baseline == "" && e.Reference {
			out = append(out, reference(t, ids))
		}
	}
	return out, nil
}

// control is the second, equal baseline of an A/A pair.
func control(t Treatment, ids namer) Treatment {
	factors := Factors{ControlFactor: true}
	maps.Copy(factors, t.Factors)
	return Treatment{ID: ids.unique(t.ID + "-control"), Factors: factors, Levels: t.Levels, Control: true, Baseline: t.ID}
}

// reference is the reference proxy beside a baseline, under the same load.
func reference(t Treatment, ids namer) Treatment {
	factors := maps.Clone(t.Factors)
	factors[experiment.MeshFactor] = experiment.ReferenceMesh
	levels := t.Levels
	levels.Mesh = experiment.ReferenceMesh
	rest, named := strings.CutPrefix(t.ID, t.Levels.Mesh)
	if !named {
		rest = "-" + t.ID
	}
	name := experiment.ReferenceMesh + rest
	return Treatment{ID: ids.unique(name), Factors: factors, Levels: levels, Reference: true, Baseline: t.ID}
}

// treatment resolves one choice of a level for each factor. A factor without a level keeps otherwise's level.
func treatment(factors []experiment.NamedFactor, choice []int, otherwise experiment.Levels) Treatment {
	t := Treatment{Factors: make(Factors, len(factors)), Levels: otherwise}
	mesh, named, applications := "", false, false
	var tokens []string
	for i, f := range factors {
		level := f.Levels[choice[i]]
		level.Apply(&t.Levels)
		t.Factors[f.Name] = level.Value
		switch {
		case f.Name == experiment.MeshFactor:
			mesh = level.Token
			named = len(f.Levels) > 1
		case len(f.Levels) > 1:
			tokens = append(tokens, level.Token)
			applications = applications || f.Name == experiment.ApplicationFactor
		}
	}
	mesh = cmp.Or(mesh, t.Levels.Mesh)
	if named || mesh != "none" || !applications { // applications that are compared without a mesh have names of their own
		tokens = append([]string{mesh}, tokens...)
	}
	t.ID = strings.Join(tokens, "-")
	return t
}

// next counts choice up, its last place fastest. It returns false after the last choice.
func next(choice []int, factors []experiment.NamedFactor) bool {
	for i := len(choice) - 1; i >= 0; i-- {
		if choice[i]++; choice[i] < len(factors[i].Levels) {
			return true
		}
		choice[i] = 0
	}
	return false
}

// namer makes unique names, valid as file names.
type namer struct{ taken map[string]bool }

// longest leaves room for ordinal and block in the 255 bytes of a file name.
const longest = 100

func (n namer) unique(name string) string {
	safe := printable.Plain(name, "-_.", '-')
	safe = cmp.Or(strings.TrimLeft(safe[:min(len(safe), longest)], ".-"), "treatment")
	candidate := safe
	// Lower case: some file systems ignore case.
	for i := 2; n.taken[strings.ToLower(candidate)]; i++ {
		candidate = fmt.Sprintf("%s-%d", safe, i)
	}
	n.taken[strings.ToLower(candidate)] = true
	return candidate
}

// shuffle is Fisher and Yates's, in Durstenfeld's form (CACM 7, 1964, algorithm
// 235). It includes the draw, because the library guarantees the numbers of its
// generators but not the result of its Shuffle.
func shuffle(order []int, source rand.Source) {
	for i := len(order) - 1; i > 0; i-- {
		j := below(source, uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
}

// below draws an unbiased number from 0 to n-1. Draws from the incomplete last
// run of n numbers are rejected.
func below(source rand.Source, n uint64) uint64 {
	least := -n % n // 2^64 mod n
	for {
		if x := source.Uint64(); x >= least {
			return x % n
		}
	}
}
