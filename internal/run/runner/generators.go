package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// findGenerators finds the programs of the trials' generators and adds their versions. A missing
// program is an error before the first trial.
func (r *run) findGenerators(ctx context.Context, pending []plan.Trial, versions map[string]string) error {
	needed := map[string]generator.Generator{}
	for _, t := range pending {
		g, err := r.generatorOf(r.treatments[t.Treatment])
		if err != nil {
			return err
		}
		needed[g.Name()] = g
	}
	sought := generator.FindAll(ctx, slices.Collect(maps.Values(needed)))
	r.versions = map[string]string{}
	for _, s := range sought {
		r.versions[s.Name], versions[s.Name] = s.Found.Version, s.Found.Version
	}
	return generator.Missing(sought)
}

func (r *run) generatorOf(t plan.Treatment) (generator.Generator, error) {
	name := levelOf(r.Experiment, t)
	g, ok := r.Generators[name]
	if !ok {
		return nil, fmt.Errorf("treatment %s: load generator %s does not exist", t.ID, name)
	}
	return g, nil
}

// Unsuited is a plan with treatments that their load generators cannot run. It has a line for each reason.
type Unsuited struct{ hint.Hinted }

// InvalidFile marks an error of the experiment file.
func (*Unsuited) InvalidFile() {}

// Suited checks that every generator can run its treatments, as far as the plan alone shows. The
// error is an [*Unsuited] with all reasons.
func Suited(x *experiment.Experiment, p *plan.Plan, generators map[string]generator.Generator) error {
	type refusal struct{ generator, why string }
	var order []refusal
	of := map[refusal][]string{}
	poisson := false
	for _, t := range p.Treatments {
		g, ok := generators[levelOf(x, t)]
		if !ok {
			return fmt.Errorf("treatment %s: load generator %s does not exist", t.ID, levelOf(x, t))
		}
		if !g.Abilities().Foreign() {
			continue // tare's own runs every valid file
		}
		profile := Profile(x, t, g, []string{"http://127.0.0.1:1/"})
		_, err := g.Command(profile)
		if err == nil {
			continue
		}
		r := refusal{g.Name(), strings.TrimSuffix(err.Error(), ": "+errors.ErrUnsupported.Error())}
		if of[r] == nil {
			order = append(order, r)
		}
		of[r] = append(of[r], t.ID)
		poisson = poisson || profile.Rate > 0 && profile.Arrivals != "constant"
	}
	if order == nil {
		return nil
	}
	text := "remove the generator from factors.generator, or the feature that it lacks; docs/reference/generators.md lists the features of each"
	if poisson {
		text = "write load: {arrivals: constant}; docs/reference/generators.md lists the features of each"
	}
	var lines []error
	for _, r := range order {
		lines = append(lines, fmt.Errorf("generator %s cannot run %s: %s", r.generator, printable.Listed(of[r], 3), r.why))
	}
	return &Unsuited{hint.Hinted{Err: errors.Join(lines...), Text: text}}
}

// Profile is the load of one treatment before anything runs: without start, files and seed.
func Profile(x *experiment.Experiment, t plan.Treatment, g generator.Generator, targets []string) load.Profile {
	p := profileOf(x, t.Levels, g, Timing{}.withDefaults().Tail)
	addRequests(&p, &x.Load, targets)
	vary(&p, x.Load.Profile)
	return p
}

// profileOf is the load of one treatment, without the deployment's targets, start and files. The
// warm-up has at least the length that the generator needs.
func profileOf(x *experiment.Experiment, levels experiment.Levels, g generator.Generator, tail time.Duration) load.Profile {
	checks := x.Load.Checks
	statuses := make([]string, len(checks.Status))
	for i, s := range checks.Status {
		statuses[i] = string(s)
	}
	return load.Profile{
		RequestSize: int64(levels.RequestSize), ExpectSize: -1,
		ExpectStatus: statuses, BodyHas: checks.BodyHas, BodyLacks: checks.BodyLacks, JSONHas: checks.JSONHas, JSONLacks: checks.JSONLacks,
		Rate: float64(levels.Rate), Arrivals: x.Load.Arrivals,
		Connections: levels.Connections, ConnectionRate: float64(levels.ConnectionRate), Workers: x.Load.Workers, Protocol: levels.Protocol, Timeout: time.Duration(x.Load.Timeout),
		Warmup: max(time.Duration(x.Phases.Warmup), g.Abilities().Needs.Warmup), Measure: time.Duration(x.Phases.Measure),
		Tail: tail, Drain: time.Duration(x.Phases.Drain),
	}
}

// Prolong adds the warm-up that generators need beyond x's to p's expected times. TrialTime
// becomes the mean over all trials.
func Prolong(x *experiment.Experiment, p *plan.Plan, generators map[string]generator.Generator) {
	if len(p.Trials) == 0 {
		return
	}
	more := map[string]time.Duration{} // by treatment
	for _, t := range p.Treatments {
		if g, ok := generators[levelOf(x, t)]; ok {
			more[t.ID] = max(0, g.Abilities().Needs.Warmup-time.Duration(x.Phases.Warmup))
		}
	}
	var all time.Duration
	for _, t := range p.Trials {
		all += more[t.Treatment]
	}
	p.Expected += all
	p.TrialTime += all / time.Duration(len(p.Trials))
}

// levelOf returns the name of a treatment's generator. Plans made before the generator was a
// factor lack it.
func levelOf(x *experiment.Experiment, t plan.Treatment) string {
	if name := t.Levels.Generator; name != "" {
		return name
	}
	return x.Load.Generator
}
