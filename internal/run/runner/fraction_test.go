package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/runner"
)

const fakeTogetherText = `apiVersion: tare.dev/v1alpha1
kind: Experiment
metadata: {name: fake}
factors: {mesh: [envoy, envoy-plaintext], rate: [600]}
baseline: {mesh: envoy}
load: {arrivals: constant}
order: together
control: true
blocks: 2
phases: {warmup: 100ms, measure: 1s}
`

// profiles are the loads of the trials of each block.
func profiles(t *testing.T, cfg runner.Config) map[int][]load.Profile {
	t.Helper()
	by := map[int][]load.Profile{}
	for _, trial := range cfg.Dir.Plan().Trials {
		text, err := os.ReadFile(filepath.Join(cfg.Dir.TrialFile(trial.ID, result.ProvenanceDir), "load-profile.json"))
		if err != nil {
			t.Fatal(err)
		}
		var p load.Profile
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatal(err)
		}
		by[trial.Block] = append(by[trial.Block], p)
	}
	return by
}

// The loads of a round have the same measure phase, and together one schedule at the rate of the file: each has
// its part, at instants of its own.
func TestLoadedAtOnce(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]generator.Generator{"start known": fakeGenerator{}, "held": heldGenerator{fakeGenerator{"unready"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loadedAtOnce(t, g)
		})
	}
}

func loadedAtOnce(t *testing.T, g generator.Generator) {
	f := &fake{}
	cfg, sink := fakeRun(t, fakeTogetherText, f, "")
	cfg.Generators["tare"] = g
	cfg.Timing.Tail = time.Second // a busy machine reads counters late
	cfg.Meshes["envoy"], cfg.Meshes["envoy-plaintext"] = mesh.Definition{Name: "envoy"}, mesh.Definition{Name: "envoy-plaintext"}
	summary, err := runner.Run(context.Background(), cfg)
	if err != nil || summary.Recorded != 6 || summary.Failed != 0 {
		t.Fatalf("%+v, %v, %q", summary, err, failures(cfg))
	}
	for block, of := range profiles(t, cfg) {
		slices.SortFunc(of, func(a, b load.Profile) int { return a.Start.Compare(b.Start) })
		for i, p := range of {
			if p.Rate != 200 || p.Slices != nil {
				t.Errorf("block %d: rate %v, slices %+v", block, p.Rate, p.Slices)
			}
			if after := p.Start.Sub(of[0].Start).Seconds(); math.Abs(after-float64(i)/600) > 1e-6 {
				t.Errorf("block %d: load %d begins %v s after the first", block, i, after)
			}
			if i > 0 && p.Seed == of[i-1].Seed {
				t.Errorf("block %d: two loads have the same arrivals", block)
			}
		}
	}
	records, err := cfg.Dir.Records()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if math.Abs(r.Load.AskedRate-200) > 1e-9 || r.Load.Slices != nil || !r.Valid {
			t.Errorf("%s: %+v, warnings %+v", r.ID, r.Load, r.Warnings)
		}
		// The start comes when the last generator is ready.
		if g.Abilities().Holds {
			i := slices.IndexFunc(r.Phases, func(p result.Phase) bool { return p.Name == "warm-up" })
			if after := r.Load.Start.Sub(r.Phases[i].Start); after < unready {
				t.Errorf("%s is measured %v after the launch of a generator that is not ready for %v", r.ID, after, unready)
			}
		}
		if _, err := os.Stat(cfg.Dir.TrialFile(r.ID, result.SlicesFile)); err == nil {
			t.Errorf("%s has slices", r.ID)
		}
	}
	phases := 0
	for _, e := range sink.list() {
		if e.Kind == result.KindPhase {
			phases++
		}
	}
	if phases != 6*7 {
		t.Errorf("%d phases", phases)
	}
	noLoadLeft(t, f)
}

// Trials loaded at once have less load without one that failed: they are invalid, and other rounds are not.
func TestLoadedAtOnceWithoutOne(t *testing.T) {
	t.Parallel()
	n := 0
	f := &fake{deploy: func() error {
		if n++; n == 2 {
			return errors.New("port taken")
		}
		return nil
	}}
	cfg, _ := fakeRun(t, fakeTogetherText, f, "")
	cfg.Timing.Tail = time.Second // a busy machine reads counters late
	cfg.Meshes["envoy"], cfg.Meshes["envoy-plaintext"] = mesh.Definition{Name: "envoy"}, mesh.Definition{Name: "envoy-plaintext"}
	summary, err := runner.Run(context.Background(), cfg)
	if err != nil || summary.Recorded != 6 || summary.Failed != 1 {
		t.Fatalf("%+v, %v, %q", summary, err, failures(cfg))
	}
	records, err := cfg.Dir.Records()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		incomplete := slices.ContainsFunc(r.Warnings, func(w result.Warning) bool {
			return w.Code == "round-incomplete" && strings.HasPrefix(w.Message, "1 of the 3 trials")
		})
		if first := r.Block == 1; r.Valid == first || r.Error == "" && incomplete != first {
			t.Errorf("%s: valid: %v, error %q, warnings %+v", r.ID, r.Valid, r.Error, r.Warnings)
		}
	}
}

// A pair of Envoys against itself and another, loaded at once: each record has its own processes and its own requests.
func TestRealLoadedAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("needs Envoy")
	}
	// The warm-up is longer than a second, after which TCP repeats a lost handshake.
	text := strings.NewReplacer("[none, envoy]", "[envoy, envoy-plaintext]", "warmup: 500ms", "warmup: 3s",
		"order: interleaved", "order: together\nbaseline: {mesh: envoy}").Replace(realRoundText)
	cfg, _, summary, records := undisturbed(t, text)
	if summary.Recorded != 3 || summary.Failed != 0 {
		t.Fatalf("%+v, %q", summary, failures(cfg))
	}
	var begin, end []int64
	for _, r := range records {
		begin, end = append(begin, r.Load.Start.UnixMilli()), append(end, r.Load.End.UnixMilli())
		if math.Abs(float64(r.Load.Intended)-200) > 5 {
			t.Errorf("%s: %d requests intended of 300/s by three for 2 s", r.ID, r.Load.Intended)
		}
		if !r.Valid {
			t.Errorf("%s: %+v, %+v", r.ID, r.Load, r.Warnings)
		}
		for _, u := range r.Tasks {
			if used := u.End.CPU - u.Start.CPU; u.Plane == "data" && (used <= 0 || u.Missing != "") {
				t.Errorf("%s: %s used %d ns: %s", r.ID, u.ID, used, u.Missing)
			}
		}
		if b := r.Balance; b == nil || len(b.Equations) == 0 || b.Message() != "" {
			t.Errorf("%s: balance %+v", r.ID, b)
		}
	}
	if slices.Max(begin)-slices.Min(begin) > 500 || slices.Max(begin) >= slices.Min(end) {
		t.Errorf("measured from %v to %v ms", begin, end)
	}
}
