package generator

import (
	"io"
	"strings"
	"time"
)

// ParseAutocannon reads autocannon --json. Its latencies are whole milliseconds, of all responses.
func ParseAutocannon(r io.Reader) (Outcome, error) {
	o := Outcome{Generator: "autocannon"}
	var j struct {
		Connections *float64
		Start       time.Time
		Duration    *float64 // seconds
		Errors      *float64 // timeouts among them
		Timeouts    *float64
		Statuses    map[string]struct{ Count *float64 } `json:"statusCodeStats"`
		Latency     map[string]*float64
		Requests    map[string]*float64
		Throughput  map[string]*float64
	}
	if err := readJSON(r, o.Generator, &j); err != nil {
		return o, err
	}
	if j.Duration == nil || j.Statuses == nil || j.Latency == nil {
		return o, none(o.Generator, "duration, statusCodeStats and latency")
	}
	o.Started, o.Elapsed, o.Statuses = j.Start, span(*j.Duration), map[string]int64{}
	for code, s := range j.Statuses {
		if n := known(s.Count); n != nil {
			o.Statuses[code] = *n
		}
	}
	slow := min(value(known(j.Timeouts)), value(known(j.Errors)))
	o.failed("timeout", slow)
	o.failed("no answer", value(known(j.Errors))-slow)
	o.Requests = ptr(sum(o.Statuses) + sum(o.Errors))
	o.BytesIn = known(j.Throughput["total"])
	if n := known(j.Connections); n != nil && *n < 1<<20 {
		o.Connections = ptr(int(*n))
	}
	d := latencyOf(ofService)
	d.Count = value(known(j.Latency["totalCount"]))
	for name, v := range j.Latency {
		if v == nil {
			continue
		}
		switch name {
		case "min":
			d.min(*v / 1e3)
		case "average":
			d.mean(*v / 1e3)
		case "max":
			d.max(*v / 1e3)
		default:
			if strings.HasPrefix(name, "p") {
				d.percentiles(map[string]*float64{strings.ReplaceAll(name, "_", "."): ptr(*v / 1e3)})
			}
		}
	}
	if d.Count > 0 {
		d.addTo(&o)
	}
	o.note("autocannon prints whole milliseconds")
	return o, nil
}

// known is a figure of JSON as a count, nil if it is absent or none.
func known(v *float64) *int64 {
	if v == nil {
		return nil
	}
	return count(*v)
}
