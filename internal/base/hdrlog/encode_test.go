package hdrlog

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The library reads the log, and finds the counts at its own indices.
func TestEncodedHistogramIsTheLibrarys(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	type recorded struct{ ns, n int64 }
	many := []recorded{}
	for range 20000 {
		many = append(many, recorded{int64(math.Exp(12 + 3*random.NormFloat64())), 1 + random.Int64N(1000)})
	}
	for name, values := range map[string][]recorded{
		"one":     {{5e6, 1}},
		"edges":   {{0, 3}, {1, 1}, {511, 1}, {512, 1}, {1048575, 1}, {1048576, 1}, {2097151, 1}, {2097152, 1}, {6e10, 1}},
		"largest": {{1e9, math.MaxInt64 / 4}},
		"many":    many,
	} {
		t.Run(name, func(t *testing.T) {
			h, c := hdrhistogram.New(lowestNS, 60e9, digits), NewCounts(60e9)
			for _, v := range values {
				v.ns = min(v.ns, 60e9)
				if err := h.RecordValues(v.ns, v.n); err != nil {
					t.Fatal(err)
				}
				c.Add(v.ns, v.n)
			}
			defer c.Free()
			log, err := c.Log(1.5, "response.2xx", "service.2xx")
			if err != nil {
				t.Fatal(err)
			}
			r := hdrhistogram.NewHistogramLogReader(bytes.NewReader(log))
			for _, tag := range []string{"response.2xx", "service.2xx"} {
				got, err := r.NextIntervalHistogram()
				if err != nil || got == nil {
					t.Fatalf("%s: %v", tag, err)
				}
				if got.Tag() != tag || !got.Equals(h) || got.TotalCount() != c.total || got.Max() != c.most() || got.EndTimeMs() != 1500 {
					t.Errorf("%s: read %d requests up to %d until %d ms, written %d up to %d (library: %d)", got.Tag(), got.TotalCount(), got.Max(), got.EndTimeMs(), c.total, c.most(), h.Max())
				}
			}
		})
	}
}
