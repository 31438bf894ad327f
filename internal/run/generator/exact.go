package generator

import (
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// exactQuantiles are computed if the output contains every request.
var exactQuantiles = []float64{0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999}

// exact computes the distribution of the latencies of all requests. It sorts all in place.
func exact(generator, of string, all []time.Duration) (result.Latency, bool) {
	if len(all) == 0 {
		return result.Latency{}, false
	}
	slices.Sort(all)
	n := len(all)
	var total float64
	for _, v := range all {
		total += v.Seconds()
	}
	d := latencyOf(of)
	d.Source, d.Meaning, d.Count = generator, Meaning(generator, of), int64(n)
	d.min(all[0].Seconds())
	d.mean(total / float64(n))
	d.max(all[n-1].Seconds())
	for _, q := range exactQuantiles {
		// The quantile is the smallest value that a share q of the requests does not exceed.
		d.quantile(q, all[min(n-1, max(0, int(q*float64(n)+0.999999)-1))].Seconds())
	}
	return d.Latency, true
}
