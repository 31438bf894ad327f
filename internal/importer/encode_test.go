package importer

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// What is written is what the library reads, count by count, and as its own encoder would have it.
func TestEncodedHistogramIsTheLibrarys(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n, fill := range map[string]func(h *hdrhistogram.Histogram){
		"one":     func(h *hdrhistogram.Histogram) { _ = h.RecordValue(5e6) },
		"zeros":   func(h *hdrhistogram.Histogram) { _ = h.RecordValues(0, 3); _ = h.RecordValues(6e10, 1) },
		"largest": func(h *hdrhistogram.Histogram) { _ = h.RecordValues(1e9, math.MaxInt64/4) },
		"many": func(h *hdrhistogram.Histogram) {
			for range 20000 {
				_ = h.RecordValues(int64(math.Exp(12+3*random.NormFloat64())), 1+random.Int64N(1000))
			}
		},
	} {
		t.Run(n, func(t *testing.T) {
			h := hdrhistogram.New(lowestNS, 60e9, digits)
			fill(h)
			log, err := intervalLog(h, 1.5, "response.2xx", "service.2xx")
			if err != nil {
				t.Fatal(err)
			}
			r := hdrhistogram.NewHistogramLogReader(bytes.NewReader(log))
			for _, tag := range []string{"response.2xx", "service.2xx"} {
				got, err := r.NextIntervalHistogram()
				if err != nil || got == nil {
					t.Fatalf("%s: %v", tag, err)
				}
				if got.Tag() != tag || !got.Equals(h) || got.TotalCount() != h.TotalCount() || got.Max() != h.Max() || got.EndTimeMs() != 1500 {
					t.Errorf("%s: read %d requests up to %d until %d ms, written %d up to %d", got.Tag(), got.TotalCount(), got.Max(), got.EndTimeMs(), h.TotalCount(), h.Max())
				}
			}
		})
	}
}
