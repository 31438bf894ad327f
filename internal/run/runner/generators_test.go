package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/runner"
)

func byName() map[string]generator.Generator {
	all := map[string]generator.Generator{}
	for _, g := range generator.Generators() {
		all[g.Name()] = g
	}
	return all
}

// A treatment that its generator cannot run is refused before anything starts, with all reasons.
func TestSuited(t *testing.T) {
	x, p, _ := decode(t, fakeText)
	for _, c := range []struct {
		generator, arrivals string
		errors              []string // nil: no error
	}{
		{"tare", "poisson", nil},
		{"oha", "constant", nil},
		{"wrk2", "constant", nil}, // its warm-up is raised
		{"oha", "poisson", []string{"generator oha cannot run none", "no poisson arrivals"}},
		{"wrk", "poisson", []string{"no poisson arrivals", "it keeps no rate"}},
		{"siege", "constant", []string{"load generator siege does not exist"}},
	} {
		x.Load.Arrivals, x.Phases.Warmup = c.arrivals, 0
		p.Treatments[0].Levels.Generator = c.generator
		err := runner.Suited(x, p, byName())
		if (err == nil) != (c.errors == nil) {
			t.Errorf("%s, %s: %v", c.generator, c.arrivals, err)
			continue
		}
		for _, s := range c.errors {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s, %s: %v lacks %q", c.generator, c.arrivals, err, s)
			}
		}
		var unsuited *runner.Unsuited
		if errors.As(err, &unsuited) && unsuited.Hint() == "" {
			t.Errorf("%s, %s: no hint", c.generator, c.arrivals)
		}
	}
	x.Platform.Kind, x.Load.Workers, x.Load.Arrivals = mesh.OnKubernetes, 2, "constant"
	for name, fails := range map[string]bool{"tare": false, "oha": true} {
		p.Treatments[0].Levels.Generator = name
		if err := runner.Suited(x, p, byName()); (err != nil) != fails || fails && !strings.Contains(err.Error(), "it sends from one load worker") {
			t.Errorf("%s from two load workers: %v", name, err)
		}
	}
}

// A missing generator ends the run before its first trial, with a hint.
func TestForeignGeneratorThatIsMissing(t *testing.T) {
	cfg, sink := fakeConfig(t, &fake{}, "")
	t.Setenv("PATH", t.TempDir())
	for _, g := range generator.Others(t.TempDir()) {
		if g.Name() == "wrk" {
			cfg.Generators["tare"] = g
		}
	}
	_, err := runner.Run(t.Context(), cfg)
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), "the package wrk") {
		t.Errorf("%v", err)
	}
	for _, e := range sink.list() {
		if e.Kind == result.KindTrial {
			t.Error("a trial began")
		}
	}
}

// A generator that begins with its process starts on time. Its clock agrees with the
// meters' edges, and its version is recorded.
func TestForeignGenerator(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real generators")
	}
	text := strings.NewReplacer("mesh: [none, envoy]", "mesh: [none]", "  rate: [300]", "  rate: [300]\n  generator: [vegeta]",
		"blocks: 1", "blocks: 1\nload: {arrivals: constant}").Replace(realText)
	cfg, _, summary, records := undisturbed(t, text)
	if summary.Failed+summary.Invalid > 0 {
		t.Fatalf("%+v", summary)
	}
	for _, r := range records {
		l := r.Load
		if l.Version == "" || l.Loop != "open" || l.Completed < 300 {
			t.Errorf("%s: %+v", r.Treatment, l)
		}
		if len(l.Published) == 0 || l.Published[0].Meaning == "" {
			t.Errorf("%s: published %+v", r.Treatment, l.Published)
		}
		for _, u := range r.Tasks {
			if d := u.Start.At.Sub(l.Start); u.Missing != "" || d.Abs() > 1e9 {
				t.Errorf("%s: %s %q read %v from the beginning of the measure window", r.Treatment, u.ID, u.Missing, d)
			}
		}
		if info, err := os.Stat(filepath.Join(cfg.Dir.Path(), "trials", r.ID, result.LatencyFile)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", r.Treatment, err)
		}
	}
}

// The expected time of a plan includes the warm-ups that its generators need.
func TestProlong(t *testing.T) {
	x, p, _ := decode(t, strings.Replace(realText, "mesh: [none, envoy]", "mesh: [none]\n  generator: [tare, wrk2]", 1))
	before, trial := p.Expected, p.TrialTime
	all := generator.Others("")
	wrk2 := all[slices.IndexFunc(all, func(g generator.Generator) bool { return g.Name() == "wrk2" })]
	runner.Prolong(x, p, map[string]generator.Generator{"tare": generator.Tare{}, "wrk2": wrk2})
	more := wrk2.Abilities().Needs.Warmup - time.Duration(x.Phases.Warmup)
	if half := time.Duration(len(p.Trials) / 2); more <= 0 || p.Expected != before+half*more || p.TrialTime != trial+more/2 {
		t.Errorf("%v instead of %v, %v a trial instead of %v; wrk2 needs %v more", p.Expected, before, p.TrialTime, trial, more)
	}
}
