package generator

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// fuzz checks the invariants of one parser for any input: finite figures,
// non-negative counts, and a valid result.
func fuzz(f *testing.F, parser string, tr traits, files string) {
	names, err := filepath.Glob(filepath.Join("testdata", files))
	if err != nil || names == nil {
		f.Fatalf("no seeds %s: %v", files, err)
	}
	for _, name := range names {
		seed := must.Get(os.ReadFile(name))(f)
		f.Add(seed)
		f.Add(seed[:len(seed)/2])
	}
	f.Add([]byte{})
	f.Add([]byte("\x00{'"))
	p := load.Profile{Targets: []string{"http://127.0.0.1/"}, Rate: 100, Connections: 4, Measure: time.Second, Warmup: time.Second, ExpectSize: -1}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := parsers[parser](bytes.NewReader(text))
		if err != nil || o.Impossible() != nil { // which [traits.result] refuses
			return
		}
		checkOutcome(t, o)
		if tr.name == "vegeta" {
			o.scheduled(p.Rate)
		}
		l := must.Get(tr.result(o, p))(t)
		for class, n := range l.Classes {
			if n < 0 {
				t.Errorf("class %s: %d", class, n)
			}
		}
		if d := difftest.Wrong("l.Completed < 0", l.Completed < 0, "l.Sent < 0", l.Sent < 0, "l.Intended < 0", l.Intended < 0, "l.BytesIn < 0", l.BytesIn < 0); d != "" {
			t.Errorf("%s: %+v", d, l)
		}
	})
}

func checkOutcome(t *testing.T, o Outcome) {
	for _, n := range []*int64{o.Requests, o.OK, o.NotOK, o.BytesIn, o.BytesOut} {
		if n != nil && *n < 0 {
			t.Errorf("a count is %d", *n)
		}
	}
	for _, m := range []map[string]int64{o.Statuses, o.Errors} {
		for k, n := range m {
			if n < 0 {
				t.Errorf("%s: %d", k, n)
			}
		}
	}
	for _, l := range o.Latencies {
		last := -1.0
		for _, q := range l.Quantiles {
			if d := difftest.Wrong("q.Q <= last", q.Q <= last, "q.Q > 1", q.Q > 1, "math.IsNaN(q.MS)", math.IsNaN(q.MS), "math.IsInf(q.MS, 0)", math.IsInf(q.MS, 0), "q.MS < 0", q.MS < 0); d != "" {
				t.Errorf("%s: quantile %v after %v", d, q, last)
			}
			last = q.Q
		}
		for _, b := range l.Buckets {
			if b.Count <= 0 || b.HighMS < b.LowMS {
				t.Errorf("bucket %+v", b)
			}
		}
	}
}

func FuzzOha(f *testing.F)    { fuzz(f, "oha", ohaTraits, "oha-*.json") }
func FuzzOhaCSV(f *testing.F) { fuzz(f, "oha-csv", ohaTraits, "oha-*.csv") }
func FuzzWrk(f *testing.F)    { fuzz(f, "wrk", wrkTraits, "wrk-*.txt") }
func FuzzWrk2(f *testing.F)   { fuzz(f, "wrk2", wrk2Traits, "wrk2-*.txt") }
func FuzzVegeta(f *testing.F) { fuzz(f, "vegeta", vegetaTraits, "vegeta-*") }
func FuzzFortio(f *testing.F) { fuzz(f, "fortio", fortioTraits, "fortio-*.json") }
func FuzzK6(f *testing.F)     { fuzz(f, "k6", traits{name: "k6"}, "k6-*.json") }
