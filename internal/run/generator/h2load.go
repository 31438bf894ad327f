package generator

import (
	"io"
	"strconv"
	"strings"
)

// ParseH2load reads the text of nghttp2's h2load. Its latencies are a minimum, a mean and a maximum, and quantiles in newer
// versions. The rate and the counts are of the time without the warm-up.
func ParseH2load(r io.Reader) (Outcome, error) {
	o := Outcome{Generator: "h2load"}
	d := latencyOf(ofService)
	var columns []string
	finished, clients := "", 0
	l, err := readLabelled(r, o.Generator, func(line string) {
		t := strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(t, "finished in "); ok {
			finished = rest
		}
		if before, _, ok := strings.Cut(t, " total client(s)"); ok {
			if n, err := strconv.Atoi(before[strings.LastIndexByte(before, ' ')+1:]); err == nil && n > 0 && n < 1<<20 {
				clients += n
			}
		}
		f := strings.Fields(t)
		switch rest, is := strings.CutPrefix(t, "time for request:"); {
		case len(f) > 3 && f[0] == "min" && f[1] == "max":
			columns = f
		case is:
			d.h2load(columns, strings.Fields(rest))
		}
	})
	if err != nil {
		return o, err
	}
	requests, statuses := parts(l["requests"]), parts(l["status codes"])
	took, rest, ok := strings.Cut(finished, ", ")
	seconds, timed := textSeconds(took)
	if !ok || !timed || l["requests"] == "" {
		return o, none(o.Generator, "line of the time and the requests")
	}
	o.Elapsed, o.Statuses = span(seconds), map[string]int64{}
	for class, n := range statuses {
		if n > 0 {
			o.Statuses[class] = n
		}
	}
	answered := sum(o.Statuses)
	o.Requests = ptr(max(answered, requests["total"]))
	lost := *o.Requests - answered
	slow := min(lost, requests["timeout"])
	o.failed("timeout", slow)
	o.failed("no answer", lost-slow)
	word, _, _ := strings.Cut(rest, " ")
	if rate, err := strconv.ParseFloat(word, 64); err == nil && rate > 0 && answered > 0 {
		o.Rate = asRate(rate)
		o.Elapsed = span(min(seconds, float64(answered)/rate))
	}
	if clients > 0 {
		o.Connections = &clients
	}
	_, bytes, _ := strings.Cut(l["traffic"], "(")
	bytes, _, _ = strings.Cut(bytes, ")")
	if n, ok := textInt(bytes); ok {
		o.BytesIn = &n
	}
	if d.Count = answered; answered > 0 {
		d.addTo(&o)
	}
	return o, nil
}

// h2load reads the times of a row with the names of its columns.
func (d *distribution) h2load(columns, cells []string) {
	for i, name := range columns[:min(len(columns), len(cells))] {
		v, ok := textSeconds(cells[i])
		switch {
		case !ok:
		case name == "min":
			d.min(v)
		case name == "max":
			d.max(v)
		case name == "mean":
			d.mean(v)
		case name == "median":
			d.quantile(0.5, v)
		case strings.HasPrefix(name, "p"):
			if q, err := strconv.ParseFloat(name[1:], 64); err == nil {
				d.quantile(q/100, v)
			}
		}
	}
}
