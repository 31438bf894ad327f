package report

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
)

// Prices of cloud lists give money for CPU and memory, each with its unit and source. The tables fit the width.
func TestTextOfCosts(t *testing.T) {
	s := small(func(r *result.Record) { r.Edges = 1 })
	s.Treatments[2].Truth.ControlUS = 5
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	prices := must.Get(answer.ReadPrices("../../../examples/prices-gcp.yaml"))(t)
	r, err := answer.Analyze(d, compare.Options{})
	if err == nil {
		published, unread := References()
		err = errors.Join(unread, r.AddCost(d, *prices, published))
	}
	must.OK(t, err)
	var b bytes.Buffer
	must.OK(t, WriteText(&b, r, Options{Width: 140}))
	text := b.String()
	checkWidth(t, "costs", text, 140)
	must.Contain(t, text, "USD per month", "A core: 15.92 USD per month", "Control plane of envoy: ",
		"published 0.0006 cores and 1.2 MiB per proxy (25000): Istio add-on, one istiod without churn")
}

// The first line has the money with its interval, or why it has none.
func TestMoneyInWords(t *testing.T) {
	r := reportOf(t, small(nil))
	r.Directory = "runs/x"
	for _, tr := range r.Treatments {
		tr.Factors["rate"] = 1000.0
	}
	r.Cost = &answer.Cost{Prices: answer.Prices{Currency: "USD", Scenarios: []answer.Scenario{{Name: "today", Rate: 1000}}}}
	added := func(money, cores *stats.Interval, how string) answer.ScenarioCost {
		return answer.ScenarioCost{Scenario: "today", Treatment: "envoy", Bill: answer.AddedBill, Money: money, Cores: cores, How: how}
	}
	for want, c := range map[string]struct {
		cost []answer.ScenarioCost
		gib  *answer.Price
	}{
		"today: envoy adds 420 ±12 USD a month (added in all; memory has no price (gib)).":              {[]answer.ScenarioCost{added(interval(420, 12), interval(10, 1), "")}, nil},
		"today: envoy saves 420 ±12 USD a month (added in all).":                                        {[]answer.ScenarioCost{added(interval(-420, 12), interval(-10, 1), "")}, &answer.Price{}},
		"today: no difference in money is shown for envoy: +4 ±12 USD a month (added in all).":          {[]answer.ScenarioCost{added(interval(4, 12), interval(1, 3), "")}, &answer.Price{}},
		"today: envoy adds 420 USD a month (added in all; no interval: 4 trials).":                      {[]answer.ScenarioCost{added(&stats.Interval{Estimate: 420}, interval(10, 1), "")}, &answer.Price{}},
		"today: the money that envoy adds is unknown: memory has a price (gib) and was not measured.":   {[]answer.ScenarioCost{added(nil, interval(10, 1), "")}, &answer.Price{}},
		"today: the money that envoy adds is unknown: of the baseline: 50/s per copy was not measured.": {[]answer.ScenarioCost{added(nil, nil, "of the baseline: unknown: 50/s per copy was not measured")}, nil},
		"today: the money that envoy adds is unknown: 50/s per copy was not measured. Measure it: `tare run runs/x/experiment.yaml --set 'factors.rate=[50, 1000]'`.": {
			[]answer.ScenarioCost{{Scenario: "today", Treatment: "envoy", Bill: answer.AddedBill, Unmeasured: 50, How: "unknown: 50/s per copy was not measured"}}, nil},
		"today: nothing can be priced, since no treatment has its added CPU.": {nil, nil},
	} {
		r.Cost.Scenarios, r.Cost.Prices.GiB = c.cost, c.gib
		if got := Claims(r)[0].Sentence; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	r.Treatments[slices.IndexFunc(r.Treatments, func(tr compare.Treatment) bool { return tr.ID == "envoy" })].Sidecars = 2
	r.Cost.Scenarios, r.Cost.Prices.GiB = []answer.ScenarioCost{added(interval(420, 12), interval(10, 1), "")}, &answer.Price{}
	if got, want := Claims(r)[0].Sentence, "today: two envoy sidecars add 420 ±12 USD a month (added in all)."; got != want {
		t.Errorf("of both sidecars: got %q, want %q", got, want)
	}
}

// Several treatments are a ranking, also the one whose CPU was not measured.
func TestMoneyOfSeveral(t *testing.T) {
	r := reportOf(t, small(nil))
	for _, name := range []string{"nginx", "haproxy"} {
		r.Treatments = append(r.Treatments, compare.Treatment{ID: name, Baseline: "none", Factors: plan.Factors{"mesh": name}})
	}
	r.Cost = &answer.Cost{Prices: answer.Prices{Currency: "USD", GiB: &answer.Price{}, Scenarios: []answer.Scenario{{Name: "today", Rate: 1000}}}, Scenarios: []answer.ScenarioCost{
		{Scenario: "today", Treatment: "envoy", Bill: answer.AddedBill, Money: interval(420, 12)}, {Scenario: "today", Treatment: "nginx", Bill: answer.AddedBill, Money: interval(10, 15)}}}
	want := []string{"today: money that each adds a month, least first (added in all):", "  nginx: +10 ±15 USD, no difference shown", "  envoy: +420 ±12 USD", "  haproxy: unknown: the CPU of a request was not measured"}
	if got := Answer(r)[:4]; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Money of two trials each is no ranking, as CPU is none.
func TestMoneyOfFewTrials(t *testing.T) {
	r := reportOf(t, small(nil))
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r.Comparisons, r.Directory, r.Count.Blocks, r.Setup.FirstStart, r.Setup.LastEnd = nil, "runs/x", 2, &start, new(start.Add(150*time.Second))
	r.Cost = &answer.Cost{Prices: answer.Prices{Currency: "USD", GiB: &answer.Price{}, Scenarios: []answer.Scenario{{Name: "today", Rate: 1000}}}}
	for i, name := range []string{"envoy", "nginx", "haproxy"} {
		if i > 0 {
			r.Treatments = append(r.Treatments, compare.Treatment{ID: name, Baseline: "none", N: 2, Factors: plan.Factors{"mesh": name}})
		}
		r.Cost.Scenarios = append(r.Cost.Scenarios, answer.ScenarioCost{Scenario: "today", Treatment: name, Bill: answer.AddedBill, Money: &stats.Interval{Estimate: float64(i + 1)}})
	}
	at := slices.IndexFunc(r.Treatments, func(tr compare.Treatment) bool { return tr.ID == "envoy" })
	r.Treatments[at].N = 2
	if got, want := Answer(r)[0], "envoy, nginx and haproxy: too few trials for a verdict on money. About 8 minutes would give an interval: `tare run runs/x/experiment.yaml --set blocks=6`."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r.Cost.Scenarios, r.Treatments = r.Cost.Scenarios[:1], r.Treatments[:len(r.Treatments)-2]
	c, want := Claims(r)[0], "today: envoy adds 1.00 USD a month (added in all; no interval: 2 trials). About 8 minutes would give an interval: `tare run runs/x/experiment.yaml --set blocks=6`."
	if c.Sentence != want || c.Relation != compare.Insufficient {
		t.Errorf("got %s %q, want %q", c.Relation, c.Sentence, want)
	}
}

// Every published figure has its unit, and every latency its proxies.
func TestReferences(t *testing.T) {
	all, err := References()
	if err != nil || len(all) < 8 {
		t.Fatalf("%d references, %v", len(all), err)
	}
	for _, r := range all {
		if r.Who == "" || r.What == "" || r.Per != "proxy" && r.Per != "data plane" && (r.Per != "control plane" || r.ControlCores == 0 || r.ControlMiB == 0 || r.Proxies == 0) || r.Conditions == "" || r.Source == "" || r.Date == "" || r.Cores+r.ControlCores == 0 && r.P50MS+r.P90MS+r.P99MS == 0 ||
			r.Per == "proxy" && r.P50MS+r.P90MS+r.P99MS > 0 && r.Proxies == 0 {
			t.Errorf("%+v", r)
		}
	}
}
