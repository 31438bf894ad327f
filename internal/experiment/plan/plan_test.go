package plan_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

const header = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\n"

func expand(t testing.TB, body string) *plan.Plan {
	t.Helper()
	e := must.Get(experiment.Parse("t.yaml", []byte(header+body), experiment.Names{}))(t)
	p := must.Get(plan.Expand(e))(t)
	return p
}

func ids(p *plan.Plan) []string {
	var out []string
	for _, t := range p.Treatments {
		id := t.ID
		if t.Baseline != "" {
			id += " < " + t.Baseline
		}
		out = append(out, id)
	}
	return out
}

func TestTreatments(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"only factors with several levels are in a name": {
			"factors: {mesh: [none, envoy], rate: [1000], connections: [16]}", []string{"none", "envoy < none"}},
		"the first factor varies slowest": {
			"factors: {rate: [100, max], mesh: [none, envoy]}",
			[]string{"none-rate100", "none-ratemax", "envoy-rate100 < none-rate100", "envoy-ratemax < none-ratemax"}},
		"factors of the baseline one at a time, the others in product": {
			"factors: {mesh: [envoy, istio], rate: [100, 200], connections: [1, 2, 4]}\nbaseline: {rate: 100, connections: 2}\noneAtATime: true",
			[]string{"envoy-rate100-conn1 < envoy-rate100-conn2", "envoy-rate100-conn2", "envoy-rate100-conn4 < envoy-rate100-conn2", "envoy-rate200-conn2 < envoy-rate100-conn2",
				"istio-rate100-conn1 < istio-rate100-conn2", "istio-rate100-conn2", "istio-rate100-conn4 < istio-rate100-conn2", "istio-rate200-conn2 < istio-rate100-conn2"}},
		"every baseline has its control": {
			"factors: {mesh: [none, envoy], rate: [100, 200]}\ncontrol: true",
			[]string{"none-rate100", "none-rate100-control < none-rate100", "none-rate200", "none-rate200-control < none-rate200",
				"envoy-rate100 < none-rate100", "envoy-rate200 < none-rate200"}},
		"the only mesh has its control": {
			"factors: {mesh: [envoy], rate: [100, 200]}\ncontrol: true",
			[]string{"envoy-rate100", "envoy-rate100-control < envoy-rate100", "envoy-rate200", "envoy-rate200-control < envoy-rate200"}},
		"the only treatment has its control": {"factors: {rate: [100]}\ncontrol: true", []string{"none", "none-control < none"}},
		"every treatment has its control": {
			"factors: {mesh: [none, envoy], rate: [100, 200]}\ncontrolAll: true",
			[]string{"none-rate100", "none-rate100-control < none-rate100", "none-rate200", "none-rate200-control < none-rate200",
				"envoy-rate100 < none-rate100", "envoy-rate100-control < envoy-rate100", "envoy-rate200 < none-rate200", "envoy-rate200-control < envoy-rate200"}},
		"a baseline of several factors": {
			"factors: {mesh: [none, envoy], replicas: [1, 3]}\nbaseline: {mesh: none, replicas: 1}",
			[]string{"none-rep1", "none-rep3 < none-rep1", "envoy-rep1 < none-rep1", "envoy-rep3 < none-rep1"}},
		"a baseline that is not a mesh": {
			"factors: {mesh: [envoy], responseSize: [1KiB, 1000, 1MiB]}\nbaseline: {responseSize: 1KiB}",
			[]string{"envoy-resp1KiB", "envoy-resp1000 < envoy-resp1KiB", "envoy-resp1MiB < envoy-resp1KiB"}},
		"without a baseline nothing is compared": {
			"factors: {mesh: [envoy, envoy-tcp]}", []string{"envoy", "envoy-tcp"}},
		"one treatment": {"factors: {rate: [0.5]}", []string{"none"}},
		"names are safe for files and distinguish meshes": {
			"factors: {mesh: [\"../x\", \"x y\", \"x-y\", \"X Y\"]}", []string{"x", "x-y", "x-y-2", "X-Y-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ids(expand(t, c.file)); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestFactorsAreThoseOfTheFile(t *testing.T) {
	p := expand(t, "factors: {mesh: [none, envoy], rate: [1000, max], responseSize: [1KiB]}\ncontrol: true")
	want := []plan.Factors{
		{"mesh": "none", "rate": 1000.0, "responseSize": 1024.0},
		{"mesh": "none", "rate": 1000.0, "responseSize": 1024.0, "control": true},
		{"mesh": "none", "rate": "max", "responseSize": 1024.0},
		{"mesh": "none", "rate": "max", "responseSize": 1024.0, "control": true},
		{"mesh": "envoy", "rate": 1000.0, "responseSize": 1024.0},
		{"mesh": "envoy", "rate": "max", "responseSize": 1024.0},
	}
	for i, tr := range p.Treatments {
		if !reflect.DeepEqual(tr.Factors, want[i]) {
			t.Errorf("%s: factors %v, want %v", tr.ID, tr.Factors, want[i])
		}
	}
	levels := experiment.Levels{Mesh: "envoy", Rate: experiment.Max, Connections: 16, Replicas: 1, ResponseSize: 1024, Protocol: "http1", Generator: "tare"}
	if got := p.Treatments[5].Levels; got != levels {
		t.Errorf("levels %+v, want %+v", got, levels)
	}
}

// The plan is kept as JSON and must be the same when it is read back.
func TestPlanSurvivesJSON(t *testing.T) {
	p := expand(t, "factors: {mesh: [none, envoy], rate: [0.5, max]}\ncontrol: true\nseed: 9007199254740991")
	text := must.Get(json.Marshal(p))(t)
	var again plan.Plan
	must.OK(t, json.Unmarshal(text, &again))
	if !reflect.DeepEqual(*p, again) {
		t.Errorf("got %+v\nwant %+v", again, *p)
	}
}

// The order is part of the contract: a published seed gives the same plan on every
// machine and with every release.
func TestOrderIsKept(t *testing.T) {
	p := expand(t, "factors: {mesh: [none, envoy-plaintext, envoy-tcp, envoy]}\nblocks: 3\nseed: 42")
	var got []string
	for _, tr := range p.Trials {
		got = append(got, fmt.Sprintf("%s %d", tr.ID, tr.Seed))
	}
	golden := filepath.Join("testdata", "order-42.golden")
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; the order is now\n%s", err, strings.Join(got, "\n"))
	}
	if text := strings.Join(got, "\n") + "\n"; text != string(want) {
		t.Errorf("got\n%swant\n%s", text, want)
	}
}

func TestBlocksAreComplete(t *testing.T) {
	name := regexp.MustCompile(`^\d{3,}-[A-Za-z0-9._-]+-b\d+$`)
	for _, file := range []string{
		"factors: {mesh: [none]}\nblocks: 5",
		"factors: {mesh: [none, envoy], rate: [100, 200, max]}\nblocks: 20\ncontrol: true",
		"factors: {mesh: [a, b, c, d, e, f, g, h], replicas: [1, 2, 3, 4, 5]}\nblocks: 30\nseed: 0",
	} {
		p := expand(t, file)
		if len(p.Trials) != p.Blocks*len(p.Treatments) {
			t.Fatalf("%d trials, want %d", len(p.Trials), p.Blocks*len(p.Treatments))
		}
		var all []string
		for _, tr := range p.Treatments {
			all = append(all, tr.ID)
		}
		slices.Sort(all)
		seen, seeds := map[string]bool{}, map[uint64]int{}
		for block := 1; block <= p.Blocks; block++ {
			trials := p.Trials[(block-1)*len(all) : block*len(all)]
			var in []string
			for i, tr := range trials {
				in = append(in, tr.Treatment)
				ordinal := (block-1)*len(all) + i + 1
				if d := difftest.Of("tr.Block", tr.Block, block, "tr.Ordinal", tr.Ordinal, ordinal, "tr.Seed", tr.Seed, trials[0].Seed, "seen[tr.ID]", seen[tr.ID], false, "name.MatchString(tr.ID)", name.MatchString(tr.ID), true); d != "" {
					t.Fatalf("%s: block %d, ordinal %d: %+v", d, block, ordinal, tr)
				}
				seen[tr.ID] = true
			}
			seeds[trials[0].Seed]++
			if slices.Sort(in); !slices.Equal(in, all) {
				t.Fatalf("block %d has %v, want %v", block, in, all)
			}
		}
		if len(seeds) != p.Blocks {
			t.Errorf("%d seeds in %d blocks", len(seeds), p.Blocks)
		}
	}
}

func order(p *plan.Plan) string {
	var out []string
	for _, tr := range p.Trials {
		out = append(out, tr.ID)
	}
	return strings.Join(out, " ")
}

func TestSeed(t *testing.T) {
	const file = "factors: {mesh: [none, a, b, c, d]}\nblocks: 6\nseed: "
	if a, b := expand(t, file+"7"), expand(t, file+"7"); !reflect.DeepEqual(a, b) {
		t.Error("the same seed gives another plan")
	}
	seen := map[string]int{}
	for seed := range 100 {
		seen[order(expand(t, file+fmt.Sprint(seed)))]++
	}
	if len(seen) != 100 { // of 120^6 orders
		t.Errorf("100 seeds give %d orders", len(seen))
	}
}

// Every treatment is equally frequent at every position, over seeds and over the
// blocks of one seed: chi-square with 4 degrees of freedom, 99.99 % quantile 23.5.
func TestOrderIsFair(t *testing.T) {
	const file = "factors: {mesh: [a, b, c, d, e]}\n"
	check := func(name string, counts map[string]float64) {
		var x2, n float64
		for _, c := range counts {
			n += c
		}
		for _, c := range counts {
			x2 += math.Pow(c-n/5, 2) / (n / 5)
		}
		if len(counts) != 5 || x2 > 23.5 {
			t.Errorf("%s: chi-square %.1f of %v", name, x2, slices.Sorted(maps.Values(counts)))
		}
	}
	first, last := map[string]float64{}, map[string]float64{}
	e := must.Get(experiment.Parse("t.yaml", []byte(header+file+"blocks: 1"), experiment.Names{}))(t)
	for seed := range uint64(1000) {
		e.Seed = seed
		p := must.Get(plan.Expand(e))(t)
		first[p.Trials[0].Treatment]++
		last[p.Trials[4].Treatment]++
	}
	check("first over seeds", first)
	check("last over seeds", last)
	clear(first)
	for i, tr := range expand(t, file+"blocks: 2000").Trials {
		if i%5 == 0 {
			first[tr.Treatment]++
		}
	}
	check("first over blocks", first)
}

func TestExpectedTime(t *testing.T) {
	p := expand(t, "factors: {mesh: [none, envoy]}\nblocks: 10\nphases: {warmup: 1s, measure: 4s, drain: 1s}")
	if p.TrialTime != 6*time.Second+plan.Allowance || p.Expected != 20*p.TrialTime {
		t.Errorf("trial %v, all %v", p.TrialTime, p.Expected)
	}
	const behind = "factors: {mesh: [none, envoy]}\nbackground: {services: 1000}\nblocks: 10\nphases: {warmup: 1s, measure: 4s, drain: 1s}\n"
	if p, on := expand(t, behind), expand(t, behind+"platform: {kind: kubernetes}\n"); on.Expected != p.Expected+20*8*time.Second { // 125 services a second
		t.Errorf("all %v on this machine, %v on a cluster", p.Expected, on.Expected)
	}
	const simulated = "factors: {mesh: [none, istio]}\nbackground: {services: 1, proxies: %d}\nblocks: 10\nplatform: {kind: kubernetes}\n"
	if none, some := expand(t, fmt.Sprintf(simulated, 0)), expand(t, fmt.Sprintf(simulated, 500)); some.Expected != none.Expected+10*40*time.Second { // a mesh alone has proxies
		t.Errorf("all %v without simulated proxies, %v with 500", none.Expected, some.Expected)
	}
	const pods = "factors: {mesh: [none, envoy], backgroundPods: [0, 1000]}\nbackground: {services: 1000}\nblocks: 10\nphases: {warmup: 1s, measure: 4s, drain: 1s}\nplatform: {kind: kubernetes}\n"
	if p, without := expand(t, pods), expand(t, strings.ReplaceAll(pods, "[0, 1000]", "[0]")); p.Expected != 2*without.Expected+20*60*time.Second { // 17 pods a second
		t.Errorf("%v with pods, %v without", p.Expected, without.Expected)
	}
}

// An experiment that was not read by this program's own reader is refused, not misplanned.
func TestExpandRefuses(t *testing.T) {
	for name, e := range map[string]*experiment.Experiment{
		"duplicate levels":         {Blocks: experiment.Fixed(1), Factors: experiment.Factors{"mesh": []string{"a", "a"}}},
		"control without baseline": {Blocks: experiment.Fixed(1), Control: true, Factors: experiment.Factors{"mesh": []string{"a", "b"}}},
		"baseline elsewhere":       {Blocks: experiment.Fixed(1), Baseline: experiment.Baseline{"mesh": "envoy"}, Factors: experiment.Factors{"mesh": []string{"a"}}},
		"too many trials":          {Blocks: experiment.Fixed(6000), Factors: experiment.Factors{"mesh": []string{"a", "b"}}},
	} {
		if p, err := plan.Expand(e); err == nil {
			t.Errorf("%s: planned %d trials", name, len(p.Trials))
		}
	}
}

// read returns the experiment of a file that names no other.
func read(t *testing.T, file string) *experiment.Experiment {
	t.Helper()
	data := must.Get(os.ReadFile(file))(t)
	e := must.Get(experiment.Parse(file, data, experiment.Names{}))(t)
	return e
}

func TestExamplesArePlanned(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "prices") { // for tare report --cost
			continue
		}
		e := read(t, file)
		p, err := plan.Expand(e)
		if err != nil || len(p.Trials) == 0 {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if want := strings.TrimSuffix(filepath.Base(file), ".yaml"); p.Experiment != want {
			t.Errorf("%s: the experiment is called %s", file, p.Experiment)
		}
	}
}

// The quickstart is the first experiment of most users: it ends within three minutes.
func TestQuickstartIsQuick(t *testing.T) {
	e := read(t, "../../../examples/quickstart.yaml")
	p := must.Get(plan.Expand(e))(t)
	if p.Expected > 2*time.Minute+30*time.Second || !slices.Equal(ids(p), []string{"none", "none-control < none", "envoy < none"}) {
		t.Errorf("%v for %v", p.Expected, ids(p))
	}
}

func BenchmarkExpand10000(b *testing.B) {
	e := must.Get(experiment.Parse("t.yaml", []byte(header+
		"factors: {mesh: [none, a, b, c, d], rate: [1, 2, 3, 4, 5], connections: [1, 2, 3, 4, 5, 6, 7, 8]}\nblocks: 50"), experiment.Names{}))(b)
	b.ReportAllocs()
	for b.Loop() {
		p, err := plan.Expand(e)
		if err != nil || len(p.Trials) != 10_000 {
			b.Fatal(err)
		}
	}
}

// One treatment against itself, and nothing else.
func TestAA(t *testing.T) {
	p := expand(t, "factors: {mesh: [none, envoy], rate: [100, 200]}\nbaseline: {mesh: none}\nblocks: 7")
	aa := must.Get(p.AA("envoy-rate200", &experiment.Experiment{}, 3, 4*time.Second))(t)
	if got := ids(aa); !slices.Equal(got, []string{"envoy-rate200", "envoy-rate200-control < envoy-rate200"}) {
		t.Errorf("treatments %v", got)
	}
	if len(aa.Trials) != 6 {
		t.Errorf("%+v", aa)
	} else if d := difftest.Of("aa.Blocks", aa.Blocks, 3, "aa.Expected", aa.Expected, 24*time.Second, "aa.Treatments[0].Levels", aa.Treatments[0].Levels, aa.Treatments[1].Levels); d != "" {
		t.Errorf("%s: %+v", d, aa)
	}
	if _, err := p.AA("linkerd", &experiment.Experiment{}, 3, time.Second); err == nil {
		t.Error("an unknown treatment is accepted")
	}
}
