package importer

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// A figure below zero in an output is an error that names it, and no valid trial.
func TestImpossibleFigures(t *testing.T) {
	for _, c := range []struct{ generator, figure, by, want string }{
		{"fortio", `"Count":100,`, `"Count":-1000,`, "-1000 requests with a latency"},
		{"fortio", `"ActualQPS":10,`, `"ActualQPS":-10,`, "-10 requests per second"},
		{"fortio", `"ActualDuration":10000000000`, `"ActualDuration":-10000000000`, "-10 seconds"},
		{"fortio", `"NumThreads":4`, `"NumThreads":-4`, "-4 connections"},
		{"fortio", `"Min":0.001`, `"Min":-0.001`, "-1 ms as its minimum"},
		{"fortio", `"Avg":0.002`, `"Avg":-0.002`, "-2 ms as its mean"},
		{"fortio", `"Value":0.0015`, `"Value":-0.0015`, "-1.5 ms as quantile 0.5"},
		{"fortio", `"Percent":100,"Count":10`, `"Percent":100,"Count":-10`, "-10 requests in bucket 2"},
		{"fortio", `"200":100`, `"200":-100`, "-100 times"},
	} {
		text := strings.Replace(fortioSeed, c.figure, c.by, 1)
		if text == fortioSeed {
			t.Fatalf("the seed has no %s", c.figure)
		}
		o, err := ParseOutput(c.generator, "x.json", []byte(text), true)
		must.Fail(t, err, c.want, c.by, o)
	}
}

// No number of any output becomes valid below zero. Only those that a reader ignores may be anything.
func TestNegativeFigures(t *testing.T) {
	number := regexp.MustCompile(`[:,]\s*[0-9][0-9.]*`)
	for generator, seeds := range outputSeeds {
		for i, seed := range seeds {
			for _, at := range number.FindAllStringIndex(seed, -1) {
				digit := at[0] + strings.IndexAny(seed[at[0]:], "0123456789")
				o, err := ParseOutput(generator, "x", []byte(seed[:digit]+"-"+seed[digit:]), true)
				if err != nil {
					continue
				}
				l := o.latency
				for _, v := range []*float64{l.MinMS, l.MeanMS, l.MaxMS, &o.Seconds, &o.Rate, &o.sent} {
					if v != nil && *v < 0 {
						t.Errorf("%s %d: a figure is %v with -%.20q", generator, i, *v, seed[digit:])
					}
				}
				if d := difftest.Wrong("o.requests < 0", o.requests < 0, "o.connections < 0", o.connections < 0, "o.bytesIn < 0", o.bytesIn < 0, "o.bytesOut < 0", o.bytesOut < 0, "l.Count < 0", l.Count < 0); d != "" {
					t.Errorf("%s: %s %d: a count is below zero with -%.20q: %+v", d, generator, i, seed[digit:], o)
				}
			}
		}
	}
}
