package importer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// cumulative is one point of a distribution: count requests took at most ms.
type cumulative struct {
	ms    float64
	count int64
	gap   bool // no values lie between the previous point and this one
}

// bins converts a published histogram into counts between values. Published
// quantiles are points of the same distribution, for values that the histogram
// skips: wrk2 prints 99 % beside a spectrum without this line.
func bins(l result.Latency) ([]bin, error) {
	if len(l.Buckets) == 0 {
		return nil, nil
	}
	points := make([]cumulative, 0, 2*len(l.Buckets)+len(l.Quantiles))
	total, last := int64(0), 0.0
	for i, b := range l.Buckets {
		if b.Count <= 0 || b.HighMS < b.LowMS || b.LowMS < last || !(b.HighMS <= longestNS/1e6) {
			return nil, fmt.Errorf("bucket %d of the histogram, %d from %g to %g ms, does not follow the one before", i+1, b.Count, b.LowMS, b.HighMS)
		}
		if b.LowMS > last {
			points = append(points, cumulative{b.LowMS, total, true})
		}
		last = b.HighMS
		total += b.Count
		points = append(points, cumulative{b.HighMS, total, false})
	}
	if l.Count > 0 && total != l.Count {
		return nil, fmt.Errorf("the histogram holds %d of %d requests: lines are missing", total, l.Count)
	}
	for _, q := range l.Quantiles {
		points = append(points, cumulative{q.MS, int64(math.Ceil(q.Q*float64(total) - 1e-9)), false})
	}
	slices.SortStableFunc(points, func(a, b cumulative) int {
		return cmp.Or(cmp.Compare(a.count, b.count), cmp.Compare(a.ms, b.ms))
	})
	out := make([]bin, 0, len(points))
	seen, value := int64(0), 0.0
	for _, p := range points {
		switch {
		case p.ms < value: // one value, rounded twice
			continue
		case p.count == seen:
			if p.gap {
				value = p.ms
			}
			continue
		}
		from := value * 1e6
		if len(out) == 0 && value == 0 {
			from = p.ms * 1e6 // the fastest request, not a value between it and 0
		}
		out = append(out, bin{from, p.ms * 1e6, p.count - seen})
		seen, value = p.count, p.ms
	}
	// The last edge is not the slowest request, nor the first one the fastest.
	if n := len(out); n > 0 {
		if slowest := l.MaxMS; slowest != nil && *slowest*1e6 > out[n-1].from {
			out[n-1].to = min(out[n-1].to, *slowest*1e6)
		}
		if fastest := l.MinMS; fastest != nil && *fastest*1e6 < out[0].to {
			out[0].from = max(out[0].from, *fastest*1e6)
		}
	}
	return out, nil
}

// fine reports whether a histogram resolves quantiles: one of a dozen equal
// steps up to the slowest request (oha's) does not.
func fine(buckets []result.Bucket) bool { return len(buckets) > 24 }

// falseTimeouts separates wrk2's false timeouts from real ones. wrk2 checks
// every connection against its 2 s limit, even idle ones. With more connections
// than requests in 2 s, all of them "time out" at every check. The count is then
// a multiple of the connections, although all due requests have responses.
func (o *Output) falseTimeouts() {
	const limit = 2.0 // seconds, the default of wrk2
	n, c := o.errors["timeout"], int64(o.connections)
	idle := c > 0 && float64(c) > limit*float64(o.requests)/o.Seconds
	if o.generator != "wrk2" || n == 0 || !idle || n%c != 0 || n <= o.requests/100 {
		return
	}
	delete(o.errors, "timeout")
	o.errors["false timeout"] = n
	o.classes["timeout"] -= n
	o.tried -= n
	o.warn("false-timeouts", fmt.Sprintf("wrk2 reports %d timeouts, %d for each of its %d connections: it counts connections idle for more than %g s, not requests; they are not errors",
		n, n/c, c, limit), fmt.Sprintf("use fewer connections than %.0f at this rate, or another load generator", math.Max(1, limit*float64(o.requests)/o.Seconds)), metric.ErrorRatio)
}
