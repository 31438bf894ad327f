package importer

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// Two generators of one run: rates, connections and counts add up, and the time is their mean.
func TestPoolByHand(t *testing.T) {
	started := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	of := func(seconds float64, n int64) *Output {
		return &Output{path: "x", generator: "fortio", Loop: "open", Rate: float64(n), connections: int(n) / 10, Seconds: seconds, started: started, requests: 9 * n, tried: 10 * n,
			classes: map[string]int64{"2xx": 8 * n, "status": n}, statuses: map[string]int64{"200": 8 * n}, errors: map[string]int64{"conn": n}, bytesIn: 100 * n, bytesOut: 10 * n,
			latency: result.Latency{Of: service}, bins: []bin{{1e6, 2e6, n}, {2e6, 4e6, 2 * n}}}
	}
	l, _, warnings, err := pool([]*Output{of(10, 100), of(11.5, 200)})
	if err != nil || len(warnings) != 0 { // 5 % of 10 s and a second may be between them
		t.Fatalf("%+v, %v", warnings, err)
	}
	for name, x := range map[string][2]float64{
		"rate": {l.AskedRate, 300}, "connections": {float64(l.Connections), 30}, "seconds": {l.MeasureSeconds, 10.75}, "completed": {float64(l.Completed), 2700}, "intended": {float64(l.Intended), 3000},
		"sent": {float64(l.Sent), 3000}, "bytes in": {float64(l.BytesIn), 30000}, "bytes out": {float64(l.BytesOut), 3000}, "2xx": {float64(l.Classes["2xx"]), 2400}, "200": {float64(l.Statuses["200"]), 2400},
		"errors": {float64(l.Errors["conn"]), 300}, "recorded": {float64(l.Recorded), 900}, "published": {float64(len(l.Published)), 2}, "end": {l.End.Sub(started).Seconds(), 10.75},
	} {
		if math.Abs(x[0]-x[1]) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, x[0], x[1])
		}
	}
	if _, _, warnings, _ = pool([]*Output{of(10, 100), of(11.6, 200)}); len(warnings) != 1 || warnings[0].Code != "generators-apart" {
		t.Errorf("%+v", warnings)
	}
}

// 130 requests on 64 points are two each, and three at the last two. The last point is the upper edge.
func TestSpreadByHand(t *testing.T) {
	for k, want := range map[int64]int64{1: 0, 62: 0, 63: 1, 64: 1} {
		if got := extra(130, 64, k); got != want {
			t.Errorf("point %d has %d more, want %d", k, got, want)
		}
	}
	for _, c := range []struct {
		of     bin
		points []int64 // ms and count, in turn
	}{{bin{0, 4e6, 4}, []int64{1, 1, 2, 1, 3, 1, 4, 1}}, {bin{1e6, 65e6, 130}, []int64{2, 2, 33, 2, 64, 3, 65, 3}}} {
		h := hdrhistogram.NewPacked(lowestNS, 60e9, digits)
		spread(h, []bin{c.of})
		if h.TotalCount() != c.of.count {
			t.Errorf("%+v: %d requests", c.of, h.TotalCount())
		}
		for i := 0; i < len(c.points); i += 2 {
			got := int64(0)
			for _, b := range hdrlog.Dense(h).Distribution() {
				if math.Abs(float64(b.From)/1e6-float64(c.points[i])) < 0.3 {
					got += b.Count
				}
			}
			if got != c.points[i+1] {
				t.Errorf("%+v: %v requests at %d ms, want %d", c.of, got, c.points[i], c.points[i+1])
			}
		}
	}
}

// Buckets of 0.9 to 1 and 2 to 3 ms with 5 and 10 requests. 80 % of 15 are 12, up to 2.5 ms. None took less than 0.95 or more than 2.8 ms.
func TestBinsByHand(t *testing.T) {
	l := result.Latency{Count: 15, Buckets: []result.Bucket{{LowMS: 0.9, HighMS: 1, Count: 5}, {LowMS: 2, HighMS: 3, Count: 10}}, Quantiles: []result.Quantile{{Q: 0.8, MS: 2.5}}}
	for _, c := range []struct {
		fastest, slowest float64
		want             []bin
	}{{0, 0, []bin{{0.9e6, 1e6, 5}, {2e6, 2.5e6, 7}, {2.5e6, 3e6, 3}}}, {0.95, 2.8, []bin{{0.95e6, 1e6, 5}, {2e6, 2.5e6, 7}, {2.5e6, 2.8e6, 3}}}} {
		if c.fastest > 0 {
			l.MinMS, l.MaxMS = &c.fastest, &c.slowest
		}
		got, err := bins(l)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v, %v, want %v", got, err, c.want)
		}
	}
	// Ends beside their bins are none: the fastest is in the first bin, and the slowest in the last.
	for _, c := range []struct{ fastest, slowest, from, to float64 }{{1, 2.4, 0.9e6, 3e6}, {0.9999995, 2.5, 999999.5, 3e6}} {
		l.MinMS, l.MaxMS = &c.fastest, &c.slowest
		if got, _ := bins(l); math.Abs(got[0].from-c.from) > 1e-6 || got[2].to != c.to {
			t.Errorf("%v to %v ms: %v", c.fastest, c.slowest, got)
		}
	}
	l = result.Latency{Buckets: []result.Bucket{{LowMS: 0, HighMS: 1, Count: 5}}}
	if got, _ := bins(l); !slices.Equal(got, []bin{{1e6, 1e6, 5}}) { // the fastest request took no less than it
		t.Errorf("from zero: %v", got)
	}
	for name, l := range map[string]result.Latency{
		"other counts": {Count: 16, Buckets: []result.Bucket{{LowMS: 0, HighMS: 1, Count: 15}}},
		"overlapping":  {Buckets: []result.Bucket{{LowMS: 0, HighMS: 2, Count: 1}, {LowMS: 1.9, HighMS: 3, Count: 1}}},
		"an empty one": {Buckets: []result.Bucket{{LowMS: 0, HighMS: 2}}},
		"turned":       {Buckets: []result.Bucket{{LowMS: 3, HighMS: 2, Count: 1}}},
	} {
		if got, err := bins(l); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A rate and a time are between 98 % of the answers less 2, and 102 % of the attempts and 2.
func TestCheckOfRatesAtTheLimits(t *testing.T) {
	o := &Output{requests: 1000}
	for rate, ok := range map[float64]bool{97.79: false, 97.81: true, 124.33: true, 124.35: false} { // 0.98·1000 - 2 = 978, 1.02·1217 + 2 = 1243.34
		if err := o.check(rate, 10, 1217); (err == nil) != ok {
			t.Errorf("%v/s: %v", rate, err)
		}
	}
	for seconds, ok := range map[float64]bool{0: false, 1e8: true, 1.1e8: false} {
		if err := (&Output{requests: 1e8}).check(1, seconds, 1e8); (err == nil) != ok {
			t.Errorf("%v s: %v", seconds, err)
		}
	}
}

// Timeouts that are a multiple of idle connections are none of requests. 2·100/2 = 100 connections are idle at 50 requests/s.
func TestFalseTimeoutsAtTheLimits(t *testing.T) {
	for _, c := range []struct {
		generator   string
		connections int
		requests, n int64
		seconds     float64
		wrong       bool
	}{
		{"wrk2", 101, 100, 303, 2, true}, {"wrk2", 100, 100, 300, 2, false}, {"wrk2", 101, 100, 304, 2, false}, {"wrk", 101, 100, 303, 2, false}, {"wrk2", 101, 100, 303, 1, false},
		// In 1000 s, 100,000 requests are 200 at a time. At most 1 % of them are rare.
		{"wrk2", 250, 100_000, 1000, 1000, false}, {"wrk2", 250, 100_000, 1250, 1000, true},
	} {
		o := &Output{generator: c.generator, connections: c.connections, requests: c.requests, tried: c.requests + c.n, Seconds: c.seconds,
			errors: map[string]int64{"timeout": c.n, "read": 1}, classes: map[string]int64{"timeout": c.n + 5}}
		o.falseTimeouts()
		timeouts, tried := c.n+5, c.requests+c.n
		if c.wrong {
			timeouts, tried = 5, c.requests
		}
		if o.classes["timeout"] != timeouts || o.tried != tried || (o.errors["false timeout"] == c.n) != c.wrong || (len(o.warnings) > 0) != c.wrong {
			t.Errorf("%+v: %v, %d tried", c, o.classes, o.tried)
		}
	}
}

// A rate is of the attempts, and a time of the answers, as far as the output lacks them.
func TestRatesAndTimesByHand(t *testing.T) {
	of := func(rate float64) generator.Outcome {
		oc := generator.Outcome{Statuses: map[string]int64{"200": 90}, Errors: map[string]int64{"reset": 10}}
		if rate > 0 {
			oc.Rate = &rate
		}
		return oc
	}
	for _, c := range []struct {
		name                string
		generator           string
		outcome             generator.Outcome
		seconds             float64
		sent, seconds2      float64
		sending             time.Duration
		requests, attempted int64
	}{
		{"no rate", "fortio", of(0), 4, 25, 4, 0, 90, 100},
		{"no time", "fortio", of(45), 0, 45, 2, 0, 90, 100},
		{"sending ends before the last answer", "vegeta", of(50), 9, 50, 9, 2 * time.Second, 90, 100},
		{"wrk's rate has more digits than its time", "wrk", of(45.5), 2, 45.5, 90 / 45.5, 0, 90, 100},
	} {
		o := newOutput(format{}, "x")
		o.generator, o.Seconds, c.outcome.Sending = c.generator, c.seconds, c.sending
		if err := o.add(c.outcome, format{}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if math.Abs(o.sent-c.sent) > 1e-9 || math.Abs(o.Seconds-c.seconds2) > 1e-9 || o.requests != c.requests || o.tried != c.attempted {
			t.Errorf("%s: %v/s in %v s, %d of %d", c.name, o.sent, o.Seconds, o.requests, o.tried)
		}
	}
	for count, ok := range map[int64]bool{100: true, 101: false} { // errors may have a time too
		oc := of(0)
		oc.Latencies = []result.Latency{{Of: response, Count: count}}
		o := newOutput(format{}, "x")
		o.Seconds = 4
		if err := o.add(oc, format{}); (err == nil) != ok {
			t.Errorf("%d latencies of 100 requests: %v", count, err)
		}
	}
}

// Five requests with sends from 1 to 3 s and a last answer after 3.5 s: four intervals in 2 s.
func TestRecordsByHand(t *testing.T) {
	of := func(at, done time.Duration, code int) generator.Record {
		return generator.Record{At: at * time.Millisecond, Done: done * time.Millisecond, Service: (done - at) * time.Millisecond, Response: -1, Late: -1, Code: code, Size: 10}
	}
	records := []generator.Record{of(1000, 1010, 200), of(1500, 1530, 200), of(2000, 2010, 204), of(2500, 3500, 503), of(3000, 3040, 0)}
	o := newOutput(format{}, "x")
	if err := o.records(generator.Outcome{Records: records}); err != nil {
		t.Fatal(err)
	}
	if o.Seconds != 2.5 || o.sent != 2 || o.requests != 4 || o.bytesIn != 40 || o.classes["2xx"] != 3 || o.classes["status"] != 1 || o.errors["no answer"] != 1 || o.statuses["204"] != 1 {
		t.Errorf("%+v", o)
	}
	if want := []bin{{10e6, 10e6, 2}, {30e6, 30e6, 1}}; !slices.Equal(o.bins, want) || o.latency.Count != 3 || o.latency.Of != service {
		t.Errorf("%v, %+v", o.bins, o.latency)
	}
	// Of 21 requests, 3 that occur twice are more than a tenth, and 2 are not. One may be by chance.
	for twice, ok := range map[int]bool{2: true, 3: false} {
		var all []generator.Record
		for i := range 21 - twice {
			all = append(all, of(time.Duration(i), time.Duration(i+5), 200))
		}
		o := newOutput(format{}, "x")
		if err := o.records(generator.Outcome{Records: append(all, all[:twice]...)}); (err == nil) != ok {
			t.Errorf("%d of 21 occur twice: %v", twice, err)
		}
	}
}

// 2 % beside the intended rate is reached.
func TestReachedRatesAtTheLimit(t *testing.T) {
	for sent, want := range map[float64]string{98: "", 97.9: "rate-unreached", 102: "", 102.1: "other-rate"} {
		s := &Study{Trials: []Trial{{Rate: experiment.Rate(100), RateKnown: true, sent: sent, logs: 1, Record: result.Record{Valid: true, Load: &result.Load{}}}}}
		s.CheckRates()
		got := ""
		for _, w := range s.Trials[0].Record.Warnings {
			got = w.Code
		}
		if got != want {
			t.Errorf("%v of 100/s: %q, want %q", sent, got, want)
		}
	}
}
