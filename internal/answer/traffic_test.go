package answer_test

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// Three calls a request of 1500 bytes each, from pods in two zones: half of them cross. A waypoint doubles the hops. A
// scenario with zones of its own does not use the pods' zones. Unknown zones, bytes and calls have no price.
func TestTrafficBetweenZones(t *testing.T) {
	prices := answer.Prices{Currency: "USD", Core: answer.Price{Month: 40, Source: "x", Date: "2026-03-01"},
		ZoneTraffic: &answer.TrafficPrice{GiB: 0.01, Source: "x", Date: "2026-03-01"},
		Scenarios:   []answer.Scenario{{Name: "measured", Rate: 1000}, {Name: "three", Rate: 1000, Zones: 3}}}
	study := func(change func(*result.Record)) []answer.Traffic {
		s := exactStudy("ambient", answertest.Truth{AppUS: 60, DataUS: 200, LoadUS: 20, AppMiB: 14, DataMiB: 60, MedianMS: 1})
		s.Change = func(r *result.Record) {
			r.Edges, r.Load.BytesIn, r.Load.BytesOut = 3, 1200*r.Load.Completed, 300*r.Load.Completed
			for i := range r.Tasks {
				task := &r.Tasks[i]
				switch task.Plane {
				case metric.App:
					task.Zone = "a"
					second := *task
					second.ID, second.Pod, second.Zone = "echo-1/app", "echo-1", "b"
					r.Tasks = append(r.Tasks, second)
				case metric.Data:
					task.Role = "waypoint"
				}
			}
			if change != nil {
				change(r)
			}
		}
		_, c := costOf(t, s, prices)
		return c.Traffic
	}
	const gib = 1000 * 730 * 3600 * 1500 / float64(1<<30) // a month, for one hop
	found := map[string]answer.Traffic{}
	for _, x := range study(nil) {
		found[x.Scenario+" "+x.Treatment] = x
	}
	if len(found) != 4 {
		t.Fatalf("%+v", found)
	}
	for name, want := range map[string]struct {
		hops     int
		crossing float64
	}{"measured none": {3, 0.5}, "measured ambient": {6, 0.5}, "three none": {3, 2 / 3.0}, "three ambient": {6, 2 / 3.0}} {
		x := found[name]
		if x.Hops != want.hops || x.Bytes != 1500 || x.Crossing == nil || !near(*x.Crossing, want.crossing, 1e-9) || x.Money == nil ||
			!near(*x.GiB, float64(want.hops)*want.crossing*gib, 1e-9) || !near(*x.Money, *x.GiB*0.01, 1e-9) {
			t.Errorf("%s: %+v", name, x)
		}
	}
	if x := found["measured ambient"]; x.Added == nil || !near(*x.Added, 3*0.5*gib*0.01, 1e-9) || found["measured none"].Added != nil {
		t.Errorf("added: %+v", x)
	}
	for what, change := range map[string]func(*result.Record){
		"a pod without a zone": func(r *result.Record) { r.Tasks[len(r.Tasks)-1].Zone = "" },
		"no bytes counted":     func(r *result.Record) { r.Load.BytesIn, r.Load.BytesOut = 0, 0 },
		"calls unknown":        func(r *result.Record) { r.Edges = 0 },
	} {
		x := study(change)[0]
		if d := difftest.Wrong(`x.Scenario != "measured"`, x.Scenario != "measured", "x.Money != nil", x.Money != nil, "x.GiB != nil", x.GiB != nil, `(x.Crossing == nil) != strings.Contains(x.How, "set zones in the scenario")`, (x.Crossing == nil) != strings.Contains(x.How, "set zones in the scenario")); d != "" {
			t.Errorf("%s: %s: %+v", d, what, x)
		}
	}
}

// A price of traffic is checked as the others are.
func TestTrafficPriceMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"zoneTraffic: {gib: -1, source: x, date: 2026-03-01}\nscenarios: [{name: a, rate: 1}]":                "zoneTraffic.gib: no price of a GiB",
		"zoneTraffic: {gib: 0.01, date: 2026-03-01}\nscenarios: [{name: a, rate: 1}]":                         "zoneTraffic.source: a price needs its source",
		"zoneTraffic: {gib: 0.01, source: x, date: 2026-03-01}\nscenarios: [{name: a, rate: 1, zones: 1001}]": "1001 zones is not between 1 and 1000",
	} {
		_, err := answer.DecodePrices("p.yaml", []byte("apiVersion: tare.dev/v1beta1\nkind: Prices\ncurrency: USD\ncore: {month: 1, source: x, date: 2026-03-01}\n"+text+"\n"))
		must.Fail(t, err, want, text)
	}
}
