package figures

import (
	"fmt"
	"math"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// publishedQuantiles are the last lines of wrk2's spectrum up to 50, 90 and 99 %.
// wrk2 prints no line at 99 %, so a P99 published from it is the line at
// 98.90625 %, and has that name here.
var publishedQuantiles = []struct {
	part string
	q    float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p98.9", 0.9890625}}

// publishedLatency is the mean over generators of each one's quantile, without
// values beyond one population standard deviation. It is published so, although a
// mean of the parts' quantiles is not a quantile of the whole.
func publishedLatency(f *figures, l *result.Load) {
	for _, p := range publishedQuantiles {
		podMean(f, l, p.part, func(d result.Latency) (float64, bool) { return spectrumAt(d, p.q) })
	}
	if _, ok := f.values[metric.Latency+"/p98.9"]; ok {
		f.warn("p99-is-p98.9", []string{metric.Latency + "/p98.9"}, "the source's P99 is the 98.90625 % line of wrk2's spectrum, which has no line at 99 %",
			"the other methods have the quantile itself, as "+metric.Latency+"/p99")
	}
	if l.Generator != "oha" {
		return
	}
	for _, q := range quantiles { // by their names, 99 % among them
		podMean(f, l, q.part, func(d result.Latency) (float64, bool) { return published(d, q.q) })
	}
}

// podMean sets the trimmed mean over generators, or nothing if one of them lacks it.
func podMean(f *figures, l *result.Load, part string, of func(result.Latency) (float64, bool)) {
	var pods series
	for _, d := range l.Published {
		v, ok := of(d)
		if !ok || d.Of != "response" {
			return
		}
		pods = append(pods, v)
	}
	if len(pods) == 0 {
		return
	}
	kept := keep(pods, func(x, mean, sd float64) bool { return math.Abs(x-mean) <= sd })
	if len(kept) == 0 {
		kept = pods
	}
	mean, _ := moments(kept)
	f.set(metric.Latency+"/"+part, mean)
}

// spectrumAt is the value of the spectrum's line at q.
func spectrumAt(d result.Latency, q float64) (float64, bool) {
	total := int64(0)
	for _, b := range d.Buckets {
		total += b.Count
	}
	// A dozen equal steps up to the slowest request are too coarse.
	if total == 0 || total != d.Count || len(d.Buckets) <= 24 {
		return 0, false
	}
	need := int64(math.Ceil(q*float64(total) - 1e-9))
	seen := int64(0)
	for _, b := range d.Buckets {
		if seen += b.Count; seen >= need {
			return b.HighMS, true
		}
	}
	return 0, false
}

// wordsOnly takes latencies from distributions that were published without a
// log. It reports whether there were any.
func wordsOnly(f *figures, l *result.Load) bool {
	any := false
	for _, k := range []struct{ of, base string }{{"response", metric.Latency}, {"service", metric.ServiceTime}} {
		var ds []result.Latency
		for _, d := range l.Published {
			if d.Of == k.of {
				ds = append(ds, d)
			}
		}
		if len(ds) > 0 {
			any = true
			oneDistribution(f, k.base, ds)
		}
	}
	return any
}

// oneDistribution takes the quantiles of one generator. Those of several do not
// add up to one distribution, and are withheld.
func oneDistribution(f *figures, base string, ds []result.Latency) {
	worst := 0.0
	for _, d := range ds {
		if d.MaxMS != nil {
			worst = math.Max(worst, *d.MaxMS)
		}
	}
	if worst > 0 {
		f.set(base+"/max", worst)
	}
	if len(ds) > 1 {
		f.warn("quantiles-apart", []string{base}, fmt.Sprintf("%d generators published quantiles and no counts: they cannot be pooled", len(ds)),
			"keep the generators' histograms, or run one generator")
		return
	}
	if ds[0].MeanMS != nil {
		f.set(base+"/mean", *ds[0].MeanMS)
	}
	for _, q := range quantiles {
		if v, ok := published(ds[0], q.q); ok {
			f.set(base+"/"+q.part, v)
		}
	}
}

// published is a quantile as its source printed it.
func published(d result.Latency, q float64) (float64, bool) {
	for _, p := range d.Quantiles {
		if math.Abs(p.Q-q) < 1e-9 {
			return p.MS, true
		}
	}
	return 0, false
}
