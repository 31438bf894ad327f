package generator

import (
	"slices"
	"strconv"
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// tally computes from the records the fields that the output's summary does not contain.
func (o *Outcome) tally() {
	if len(o.Records) == 0 {
		return
	}
	if o.Requests == nil {
		o.Requests = ptr(int64(len(o.Records)))
	}
	if o.Statuses == nil {
		o.Statuses = map[string]int64{}
		for _, r := range o.Records {
			if r.Code > 0 {
				o.Statuses[strconv.Itoa(r.Code)]++
			} else {
				o.failed(r.Error, 1)
			}
		}
	}
	for _, part := range []struct {
		of   string
		from func(Record) time.Duration
	}{{ofResponse, Record.response}, {ofService, func(r Record) time.Duration { return r.Service }}} {
		if i := indexOf(o.Latencies, part.of); i >= 0 && o.Latencies[i].Quantiles != nil {
			continue
		}
		var all []time.Duration
		for _, r := range o.Records {
			if v := part.from(r); v >= 0 && r.Code > 0 {
				all = append(all, v)
			}
		}
		l, ok := exact(o.Generator, part.of, all)
		if i := indexOf(o.Latencies, part.of); ok && i >= 0 {
			o.Latencies[i] = l
		} else if ok {
			o.Latencies = append(o.Latencies, l)
		}
	}
}

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
