package experiment_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// jsonable reports whether JSON has the value, as YAML has.
func jsonable(v any) bool {
	_, err := json.Marshal(v)
	return err == nil
}

func hasNonStringKeys(v any) bool {
	_, ok := v.(map[any]any)
	return ok
}

func sameAfterRendering(t *testing.T, e *experiment.Experiment, names experiment.Names) {
	t.Helper()
	rendered := must.Get(e.YAML())(t)
	again, err := experiment.Parse("rendered.yaml", rendered, names)
	if err != nil {
		t.Fatalf("rendered as\n%s\nis refused: %v", rendered, err)
	}
	if !reflect.DeepEqual(e, again) {
		t.Fatalf("rendered as\n%s\nreads back as %+v, was %+v", rendered, again, e)
	}
}

// parsed returns the experiment of a file that names no other.
func parsed(t *testing.T, file string) *experiment.Experiment {
	t.Helper()
	data := must.Get(os.ReadFile(file))(t)
	e := must.Get(experiment.Parse(file, data, shipped()))(t)
	return e
}

func TestRenderedReadsBackTheSame(t *testing.T) {
	for _, file := range good(t) {
		sameAfterRendering(t, parsed(t, file), shipped())
	}
}

func TestDefaults(t *testing.T) {
	e := must.Get(experiment.Parse("x.yaml", []byte(header+"factors: {mesh: [none, envoy]}\n"), known))(t)
	want := &experiment.Experiment{
		APIVersion: experiment.APIVersion, Kind: experiment.Kind,
		Metadata:    experiment.Metadata{Name: "t"},
		Platform:    experiment.Platform{Kind: "local"},
		Application: experiment.Application{Topology: "echo"},
		Factors:     experiment.Factors{"mesh": []string{"none", "envoy"}},
		Load:        experiment.Load{Generator: "tare", Arrivals: "poisson", Timeout: experiment.Duration(10 * time.Second), Workers: 1},
		Phases: experiment.Phases{
			Warmup: experiment.Duration(5 * time.Second), Measure: experiment.Duration(30 * time.Second), Drain: experiment.Duration(2 * time.Second),
			Idle: experiment.Idle{CPU: 0.1, Deadline: experiment.Duration(time.Minute)}, Prewarm: experiment.Duration(2 * time.Minute)},
		Blocks: experiment.Fixed(6), Seed: 1, Baseline: experiment.Baseline{"mesh": "none"}, Confidence: 0.95,
		Validity: experiment.Validity{ErrorRatio: 0.001, RateShortfall: 0.005, Unattributed: 0.01, GeneratorCPU: 0.9},
	}
	if !reflect.DeepEqual(e, want) {
		t.Errorf("got  %+v\nwant %+v", e, want)
	}
}

// An explicit zero is not a default.
func TestZeroIsAValue(t *testing.T) {
	e := must.Get(experiment.Parse("x.yaml", []byte(header+"factors: {mesh: [none, envoy]}\nseed: 0\nphases: {warmup: 0s}\nvalidity: {errorRatio: 0}\n"), known))(t)
	if e.Seed != 0 || e.Phases.Warmup != 0 || e.Validity.ErrorRatio != 0 {
		t.Errorf("seed %d, warm-up %v, error ratio %v, want 0", e.Seed, e.Phases.Warmup, e.Validity.ErrorRatio)
	}
}

func TestOverrides(t *testing.T) {
	data := []byte(header + "factors:\n  mesh: [none, envoy]\n  rate: [100, 200]\n")
	e := must.Get(experiment.Parse("x.yaml", data, known,
		"factors.rate=[300, max]", "factors.rate[0]=400", "blocks=2", "phases.measure=2s", "platform.cpus.load=1", "metadata.description=a = b"))(t)
	if want := []experiment.RateLevel{{Rate: 400}, {Rate: experiment.Max}}; !reflect.DeepEqual(e.Factors["rate"], want) {
		t.Errorf("rate %v, want %v", e.Factors["rate"], want)
	}
	if d := difftest.Of("e.Blocks.Max", e.Blocks.Max, 2, "e.Phases.Measure", e.Phases.Measure, experiment.Duration(2*time.Second), `e.Platform.CPUs["load"]`, e.Platform.CPUs["load"], "1", "e.Metadata.Description", e.Metadata.Description, "a = b"); d != "" {
		t.Errorf("%s: got %+v", d, e)
	}
}

// null removes a field, as if the file did not have it.
func TestNullRemovesFields(t *testing.T) {
	whole := []byte(header + "factors:\n  mesh: [none, envoy]\n  connections: [4, 8]\nphases: {measure: 7s}\nblocks: 9\n")
	without := []byte(header + "factors:\n  mesh: [none, envoy]\n")
	got := must.Get(experiment.Parse("x.yaml", whole, known, "factors.connections=null", "phases.measure= ~", "blocks=null", "baseline.mesh=null"))(t)
	if want := must.Get(experiment.Parse("x.yaml", without, known))(t); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want what the file without the fields has: %+v", got, want)
	}
}

// A level that --set leaves out still has its name in the file. Without --set such a name is a mistake.
func TestNamesOfLevelsLeftOut(t *testing.T) {
	data := []byte("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t, names: {none: alone, envoy: Envoy}}\nfactors: {mesh: [none]}\n")
	if _, err := experiment.Parse("x.yaml", data, known); err == nil || !strings.Contains(err.Error(), `no factor has a level "envoy"`) {
		t.Errorf("without --set: %v", err)
	}
	for _, override := range []string{"factors={mesh: [none]}", "factors.mesh=[none]"} {
		if _, err := experiment.Parse("x.yaml", data, known, override); err != nil {
			t.Errorf("--set %s: %v", override, err)
		}
	}
}

func TestBrokenOverrides(t *testing.T) {
	data := []byte(header + "factors:\n  mesh: [none, envoy]\n")
	for override, want := range map[string]string{
		"blocks":                 `override "blocks": expected key=value`,
		"factors.mesh[0]=null":   "--set factors.mesh[0]: an element of a list cannot be removed",
		"=1":                     "--set : found no key, expected key=value",
		"blocks=":                "--set blocks: no value is given",
		"blocks=six":             `--set blocks: blocks: found text "six", expected a whole number`,
		"block=6":                "--set block: block: unknown field",
		"phase.measure=1s":       "--set phase.measure: phase: unknown field",
		"factors.rate=-5":        "--set factors.rate: factors.rate: found -5, expected a list",
		"factors.rate=[-5]":      "--set factors.rate: factors.rate[0]: -5 requests per second is not above 0 and at most 10000000",
		"factors.rate=[1":        "--set factors.rate: not YAML: did not find expected ',' or ']'",
		"factors.rate=*x":        "--set factors.rate: the alias *x is not allowed",
		"factors.mesh[2]=none":   "--set factors.mesh[2]: the list has no element 2",
		"factors.mesh[x]=none":   "--set factors.mesh[x]: found [x], expected an index such as [0]",
		"factors.mesh.x=none":    "--set factors.mesh.x: factors.mesh is not a mapping in the file: it has no field x",
		"kind.x=1":               "--set kind.x: kind is not a mapping in the file: it has no field x",
		"phases..measure=1s":     `--set phases..measure: found an empty name in "phases..measure"`,
		"phases.measure=1":       "--set phases.measure: phases.measure: found 1 without a unit, expected a duration such as 30s, 1m30s or 250ms",
		"blocks=5\n---\n6":       "--set blocks: a second document begins here, expected one",
		"metadata={name: t}\x00": "--set metadata: control character U+0000",
	} {
		_, err := experiment.Parse("x.yaml", data, known, override)
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", override, err, want)
		}
	}
}

func TestUnitsReadBack(t *testing.T) {
	for text, want := range map[string]experiment.Size{
		"0": 0, "512": 512, "1KiB": 1024, "1.5 KiB": 1536, "1kB": 1000, "1MB": 1e6, "1e3": 1000, "1GiB": 1 << 30, "12 B": 12,
	} {
		var got experiment.Size
		if err := got.UnmarshalScalar(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
		var again experiment.Size
		if err := again.UnmarshalScalar(got.String()); err != nil || again != want {
			t.Errorf("%q was written %q and read as %d", text, got, again)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", 90 * time.Second: "1m30s", 5 * time.Minute: "5m", 24 * time.Hour: "24h", 250 * time.Millisecond: "250ms"} {
		if got := experiment.Duration(d).String(); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
	for _, text := range []string{"1kib", "KiB", "1 2", "0x10", "1_000", "nan", strings.Repeat("9", 400)} {
		var s experiment.Size
		if err := s.UnmarshalScalar(text); err == nil {
			t.Errorf("%q is read as %d", text, s)
		}
	}
}

// A file of prices has one mistake: its kind.
func TestFileOfPrices(t *testing.T) {
	_, err := experiment.Decode("prices.yaml", []byte("apiVersion: tare.dev/v1beta1\nkind: Prices\ncurrency: USD\ncore: {month: 1}\n"))
	if err == nil || strings.Count(err.Error(), "prices.yaml:") != 1 || !strings.Contains(err.Error(), `prices.yaml:2:7: kind: found "Prices", expected "Experiment"`) {
		t.Errorf("%v, want one mistake about the kind", err)
	}
}

// A soak is the measure phase, of one block and slices of a second unless the file has others.
func TestSoak(t *testing.T) {
	decode := func(phases string) (*experiment.Experiment, error) {
		return experiment.Parse("soak.yaml", []byte("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: soak}\norder: interleaved\nfactors: {mesh: [none, envoy], rate: [100]}\nphases: "+phases+"\n"), shipped())
	}
	e := must.Get(decode("{soak: 1h}"))(t)
	if d := difftest.Wrong("e.Phases.Measure != 1h", e.Phases.Measure != experiment.Duration(time.Hour), "e.Blocks.Max != 1", e.Blocks.Max != 1,
		"e.Slices.Length != 1s", e.Slices.Length != experiment.Duration(time.Second)); d != "" {
		t.Errorf("%s: %+v", d, e)
	}
	sameAfterRendering(t, e, shipped())
	if e := must.Get(decode("{soak: 1h}\nblocks: 3\nslices: {length: 100ms}"))(t); e.Blocks.Max != 3 || e.Slices.Length != experiment.Duration(100*time.Millisecond) {
		t.Errorf("3 blocks and slices of 100ms became %d and %v", e.Blocks.Max, e.Slices.Length)
	}
	for phases, want := range map[string]string{"{soak: 1h, measure: 5s}": "not the length of the soak", "{soak: 1s}": "phases.soak"} {
		if _, err := decode(phases); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", phases, err, want)
		}
	}
}
