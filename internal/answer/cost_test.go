package answer_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func costOf(t *testing.T, s answertest.Study, p answer.Prices) (*answer.Report, *answer.Cost) {
	t.Helper()
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	r := must.Get(answer.Analyze(d, compare.Options{}))(t)
	must.OK(t, r.AddCost(d, p, nil))
	return r, r.Cost
}

// exactStudy has a mesh beside none, of known costs and almost without noise.
func exactStudy(name string, truth answertest.Truth) answertest.Study {
	s := answertest.Quickstart()
	s.Drift, s.Noise, s.Rate, s.Warmup, s.Measure = 0, 0.001, 100, 1, 2
	s.Treatments = append(s.Treatments[:1:1], answertest.Treatment{ID: name, Factors: plan.Factors{"mesh": name}, Baseline: "none", Truth: truth})
	return s
}

func near(got, want, share float64) bool { return math.Abs(got-want) <= share*math.Abs(want) }

// Shopify's sum: 0.6 vCPU for 1000 requests/s and proxy, two proxies, a million
// requests/s, 40 dollars a core-month: 1200 cores, about 50,000 dollars.
func TestCostShopify(t *testing.T) {
	prices := must.Get(answer.ReadPrices("../../examples/prices.yaml"))(t)
	s := exactStudy("istio", answertest.Truth{AppUS: 60, DataUS: 2 * 600, LoadUS: 20, AppMiB: 14, DataMiB: 80, MedianMS: 1}) // two proxies of 0.6 vCPU per 1000/s
	_, c := costOf(t, s, *prices)
	found := false
	for _, x := range c.Scenarios {
		if x.Treatment != "istio" || x.Bill != answer.DataPlaneBill {
			continue
		}
		found = true
		if !near(x.Cores.Estimate, 1200, 0.01) || !near(x.Money.Estimate, 48000, 0.01) || !x.Money.Known() {
			t.Errorf("%v cores, %v dollars", x.Cores, x.Money)
		}
		if math.Round(x.Money.Estimate/10000)*10000 != 50000 {
			t.Errorf("%v is not about 50,000", x.Money.Estimate)
		}
	}
	// 80 MiB at 100 requests/s are 800 MiB at 1000.
	i := slices.IndexFunc(c.Units, func(u answer.UnitCost) bool { return u.Treatment == "istio" && u.Bill == answer.DataPlaneBill })
	if i < 0 || c.Units[i].GiB == nil || !near(c.Units[i].GiB.Estimate, 800/1024.0, 0.002) {
		t.Errorf("memory per 1000 requests/s: %+v", c.Units)
	}
	if !found {
		t.Errorf("no scenario of istio: %+v", c.Scenarios)
	}
}

// rates is a study of one mesh at several rates; cost gives the data plane's µs a request at a rate.
func rates(cost func(rate float64) float64) answertest.Study {
	s := answertest.Quickstart()
	s.Drift, s.Noise, s.Warmup, s.Measure, s.Blocks = 0, 0.005, 1, 2, 4
	s.Treatments = nil
	s.RateFactor = true
	for _, rate := range []float64{50, 100, 200, 400} {
		id := map[float64]string{50: "a", 100: "b", 200: "c", 400: "d"}[rate]
		s.Treatments = append(s.Treatments,
			answertest.Treatment{ID: "none-" + id, Factors: plan.Factors{"mesh": "none", "rate": rate}, Truth: answertest.Truth{AppUS: 60, LoadUS: 20, AppMiB: 14, MedianMS: 0.2}},
			answertest.Treatment{ID: "mesh-" + id, Baseline: "none-" + id, Factors: plan.Factors{"mesh": "mesh", "rate": rate},
				Truth: answertest.Truth{AppUS: 60, DataUS: cost(rate), LoadUS: 20, AppMiB: 14, DataMiB: 64, MedianMS: 0.2}})
	}
	return s
}

func scenarioOf(t *testing.T, c *answer.Cost, name string, b answer.Bill) answer.ScenarioCost {
	t.Helper()
	for _, x := range c.Scenarios {
		if x.Scenario == name && x.Bill == b {
			return x
		}
	}
	t.Fatalf("no scenario %s of %s in %+v", name, b, c.Scenarios)
	return answer.ScenarioCost{}
}

var scenarios = answer.Prices{
	Currency: "USD", Core: answer.Price{Month: 40, Source: "x", Date: "2026-03-01"}, GiB: &answer.Price{Month: 5, Source: "x", Date: "2026-03-01"},
	Scenarios: []answer.Scenario{{Name: "within", Rate: 3000, Pods: 10}, {Name: "beyond", Rate: 10000, Pods: 10}, {Name: "copies", Rate: 3000}},
}

// 20 millicores and 100 µs a request: the line extends beyond the measured rates, with a note.
func TestCostAlongALine(t *testing.T) {
	_, c := costOf(t, rates(func(rate float64) float64 { return 100 + 20000/rate }), scenarios)
	for _, b := range []answer.Bill{answer.DataPlaneBill, answer.AddedBill} {
		within := scenarioOf(t, c, "within", b)
		if within.Cores == nil {
			t.Errorf("%s: %+v %s", b, within.Cores, within.How)
		} else if d := difftest.Wrong("!near(within.Cores.Estimate, 10*(0.020+300*100e-6), 0.03)", !near(within.Cores.Estimate, 10*(0.020+300*100e-6), 0.03), "!within.Cores.Known()", !within.Cores.Known(), `strings.Contains(within.How, "BEYOND")`, strings.Contains(within.How, "BEYOND")); d != "" {
			t.Errorf("%s: %s: %+v %s", d, b, within.Cores, within.How)
		}
		if want := within.Cores.Estimate*40 + 10*64/1024.0*5; within.Money == nil || !near(within.Money.Estimate, want, 0.02) {
			t.Errorf("%s: money %+v, want %v", b, within.Money, want)
		}
		beyond := scenarioOf(t, c, "beyond", b)
		if beyond.Cores == nil || !near(beyond.Cores.Estimate, 10*(0.020+1000*100e-6), 0.05) || !strings.Contains(beyond.How, "BEYOND the measured 50 to 400/s") {
			t.Errorf("%s: %+v %s", b, beyond.Cores, beyond.How)
		}
		h1, _ := within.Cores.HalfWidth()
		if h2, _ := beyond.Cores.HalfWidth(); h2 <= h1 {
			t.Errorf("%s: the interval does not widen: %v and %v", b, h1, h2)
		}
	}
}

// Where the rates do not lie on a line there is no figure between them.
func TestCostNotALine(t *testing.T) {
	_, c := costOf(t, rates(func(rate float64) float64 { return rate }), scenarios)
	x := scenarioOf(t, c, "within", answer.DataPlaneBill)
	if x.Cores != nil || x.Money != nil || !strings.Contains(x.How, "do not fit a line") {
		t.Errorf("%+v %s", x.Cores, x.How)
	}
	// But one that was measured has one, at whichever place in the list.
	prices := scenarios
	prices.Scenarios = []answer.Scenario{{Name: "measured", Rate: 2000, Pods: 10}}
	_, c = costOf(t, rates(func(rate float64) float64 { return rate }), prices)
	if x := scenarioOf(t, c, "measured", answer.DataPlaneBill); x.Cores == nil || !near(x.Cores.Estimate, 10*200*200e-6, 0.03) || x.How != "at the measured 200/s" {
		t.Errorf("%+v %s", x.Cores, x.How)
	}
}

func TestCostWithoutRates(t *testing.T) {
	s := answertest.Quickstart()
	s.Rate, s.Warmup, s.Measure = 100, 1, 2
	_, c := costOf(t, s, scenarios)
	if x := scenarioOf(t, c, "within", answer.DataPlaneBill); x.Cores != nil || !strings.Contains(x.How, "needs 3 of them") {
		t.Errorf("%+v %s", x.Cores, x.How)
	}
	if x := scenarioOf(t, c, "copies", answer.AddedBill); x.Cores == nil || !strings.Contains(x.How, "30 copies") {
		t.Errorf("%+v %s", x.Cores, x.How)
	}
}

// A file of another kind is one mistake, not one for each of its fields.
func TestPricesOfAnotherKind(t *testing.T) {
	_, err := answer.DecodePrices("x.yaml", []byte("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: x}\nfactors: {mesh: [none]}\n"))
	if err == nil || err.Error() != `x.yaml:2:7: kind: found "Experiment", expected "Prices"` {
		t.Errorf("%v, want the kind alone", err)
	}
}

func TestPricesMistakes(t *testing.T) {
	good := must.Get(os.ReadFile("../../examples/prices.yaml"))(t)
	for change, want := range map[[2]string]string{
		{"kind: Prices", "kind: Price"}:                  `p.yaml:4:7: kind: found "Price", expected "Prices"`,
		{"currency: USD", "currency: dollars"}:           "expected a currency of three letters",
		{"  date: 2019-05-21\n", ""}:                     "core.date: a price needs its date",
		{"2019-05-21", "May 2019"}:                       `found "May 2019", expected a date`,
		{"month: 40", "month: cheap"}:                    "p.yaml:7:10: core.month",
		{"month: 40", "mouth: 40"}:                       "p.yaml:7:3: core.mouth: unknown field",
		{"rate: 1000000", "rate: -3"}:                    "is not above 0",
		{"rate: 1000000", "rate: 1000000\n    pods: -1"}: "-1 pods",
	} {
		_, err := answer.DecodePrices("p.yaml", []byte(strings.Replace(string(good), change[0], change[1], 1)))
		var ps strict.Problems
		if !errors.As(err, &ps) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", change[1], err, want)
		}
	}
}

// An echo service behind two sidecars of 0.2 cores for 1000 requests/s and 60 MiB each: that
// is what is printed per proxy, beside the published figure, from counters and without.
func TestCostPerProxy(t *testing.T) {
	prices := must.Get(answer.ReadPrices("../../examples/prices-fargate.yaml"))(t)
	for _, c := range []struct {
		name    string
		balance func(*result.Record) *balance.Balance
		proxied float64
		counted bool
	}{
		{"from the topology", func(*result.Record) *balance.Balance { return nil }, 2, false},
		{"from the counters", func(*result.Record) *balance.Balance { return flows(300, 300, 300, "") }, 2, true},
		{"retries are proxied too", func(*result.Record) *balance.Balance { return flows(300, 300, 360, "") }, 2.2, true},
		{"a counter is unknown", func(*result.Record) *balance.Balance { return flows(300, 300, 0, "sidecar was ended") }, 2, false},
		{"without a counter of received requests", func(*result.Record) *balance.Balance {
			return moveFlow(flows(300, 360, 360, ""), 1, balance.OutSent, 60)
		}, 2.2, true},
		{"without a counter at the caller", func(*result.Record) *balance.Balance {
			return moveFlow(flows(300, 300, 300, ""), 1, balance.Served, 0)
		}, 2, false},
		{"without a counter at the service", func(*result.Record) *balance.Balance {
			return moveFlow(flows(300, 300, 300, ""), 2, balance.Served, 0)
		}, 2, false},
		{"counters at the application's side", func(*result.Record) *balance.Balance {
			return moveFlow(flows(300, 300, 300, ""), 2, balance.InSent, 0)
		}, 2, true},
		{"an ingress gateway", func(*result.Record) *balance.Balance {
			b := flows(300, 300, 300, "")
			b.Flows = append(b.Flows, balance.Flow{Place: balance.Place{Service: balance.LoadName, Point: balance.Gateway, To: "echo", Unit: balance.Requests}, Tally: balance.Tally{Count: 300}})
			return b
		}, 3, true},
	} {
		s := exactStudy("istio", answertest.Truth{AppUS: 60, DataUS: 2 * 200, ControlUS: 100, LoadUS: 20, AppMiB: 14, DataMiB: 120, MedianMS: 1})
		s.Change = func(r *result.Record) {
			r.Edges = 1
			for i := range r.Tasks {
				if task := &r.Tasks[i]; task.Plane == metric.Data {
					if task.Role, task.Service = "sidecar", "echo"; task.ID == "load/sidecar" {
						task.Component, task.Service = "load", "load"
					}
				}
			}
			if r.Treatment == "istio" {
				r.Balance = c.balance(r)
			}
		}
		r, cost := costOf(t, s, *prices)
		if len(cost.Units) == 0 || cost.Units[0].Proxy == nil {
			t.Fatalf("%s: %+v", c.name, cost.Units)
		}
		p := cost.Units[0].Proxy
		if math.Abs(p.Proxied-c.proxied) > 1e-9 {
			t.Errorf("%s: %+v", c.name, p.Path)
		} else if d := difftest.Of("p.Proxies", p.Proxies, 2, "p.Services", p.Services, 1, "p.Calls", p.Calls, 1, "p.Counted", p.Counted, c.counted); d != "" {
			t.Errorf("%s: %s: %+v", d, c.name, p.Path)
		}
		if !near(p.CallUS.Estimate, 400/c.proxied, 0.01) || !near(p.Cores.Estimate, 0.4/c.proxied, 0.01) || !near(p.MiB.Estimate, 60, 0.01) {
			t.Errorf("%s: %v µs a proxied call, %v cores and %v MiB a proxy", c.name, p.CallUS.Estimate, p.Cores.Estimate, p.MiB.Estimate)
		}
		// 100 µs of control plane at 100 requests/s are 0.01 cores.
		if !near(p.ControlCoresPerProxy.Estimate, 0.005, 0.02) || !near(p.ControlCoresPerService.Estimate, 0.01, 0.02) || p.IdleCores != nil {
			t.Errorf("%s: control plane %+v, idle %v", c.name, p.ControlCoresPerProxy, p.IdleCores)
		}
		if cost.Units[1].Proxy != nil || r.Cost != cost {
			t.Errorf("%s: the added cost is divided by proxies", c.name)
		}
	}
}

// flows are the counters of a load, of the sidecar beside it and of the service's sidecar.
func flows(sent, out, in int64, unknown string) *balance.Balance {
	at := func(service string, p balance.Point, n int64) balance.Flow {
		return balance.Flow{Place: balance.Place{Service: service, Point: p, Unit: balance.Requests}, Tally: balance.Tally{Count: n}}
	}
	b := &balance.Balance{Flows: []balance.Flow{at(balance.LoadName, balance.Sent, sent), at(balance.LoadName, balance.OutReceived, out), at("echo", balance.InReceived, in)}, Equations: []balance.Equation{}}
	b.Flows[2].Unknown = unknown
	return b
}

// moveFlow moves flow i to another point, with retries.
func moveFlow(b *balance.Balance, i int, p balance.Point, retries int64) *balance.Balance {
	b.Flows[i].Point, b.Flows[i].Retries = p, retries
	return b
}

// The CPU of an idle proxy is the line through the rates at no requests.
func TestCostOfIdleProxies(t *testing.T) {
	prices := must.Get(answer.ReadPrices("../../examples/prices.yaml"))(t)
	_, c := costOf(t, rates(func(rate float64) float64 { return 200 + 0.06e6/rate }), *prices) // 0.06 cores at any rate
	all := c.Units
	// At one rate, interleaved: the CPU outside the slices of each of the two proxies.
	s := answertest.Quickstart()
	s.Rate, s.Warmup, s.Measure = 100, 1, 2
	s.Change = func(r *result.Record) {
		r.Load.Slices = &result.OwnSlices{Count: 5, LengthSeconds: 0.1, GuardSeconds: 0.01}
		for i := range r.Tasks {
			outside := r.Tasks[i].End.At.Sub(r.Tasks[i].Start.At).Seconds() - 0.5
			idle := int64(0.03e9 * outside)
			r.Tasks[i].IdleCPU, r.Tasks[i].IdleRSS = &idle, 20<<20
		}
	}
	_, c = costOf(t, s, *prices)
	for i, units := range [][]answer.UnitCost{all, c.Units} {
		for _, u := range units {
			if p := u.Proxy; u.Bill == answer.DataPlaneBill && ((p.IdleMiB != nil) != (i == 1) || i == 1 && p.IdleMiB.Estimate != 20) {
				t.Errorf("%s: idle memory %v of proxies of 20 MiB", u.Treatment, p.IdleMiB)
			}
		}
	}
	for _, u := range append(all, c.Units...) {
		if u.Bill != answer.DataPlaneBill {
			continue
		}
		if u.Proxy == nil || u.Proxy.IdleCores == nil {
			t.Errorf("%s: %+v", u.Treatment, u.Proxy)
		} else if d := difftest.Wrong("!near(u.Proxy.IdleCores.Estimate, 0.03, 0.1)", !near(u.Proxy.IdleCores.Estimate, 0.03, 0.1), "u.Proxy.Proxied != 0", u.Proxy.Proxied != 0, "u.Proxy.CallUS != nil", u.Proxy.CallUS != nil); d != "" {
			t.Errorf("%s: %s: %+v", d, u.Treatment, u.Proxy)
		}
	}
}
