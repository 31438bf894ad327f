package generator

import (
	"io"
	"strings"
	"time"
)

// ParseArtillery reads the report of artillery run --output, of version 2. It counts by the engine http.
func ParseArtillery(r io.Reader) (Outcome, error) {
	o := Outcome{Generator: "artillery"}
	var j struct {
		Aggregate *struct {
			Counters  map[string]*float64
			Summaries map[string]map[string]*float64
			First     *float64 `json:"firstMetricAt"` // ms since 1970
			Last      *float64 `json:"lastMetricAt"`
		}
	}
	if err := readJSON(r, o.Generator, &j); err != nil {
		return o, err
	}
	a := j.Aggregate
	if a == nil || a.First == nil || a.Last == nil || a.Counters["http.requests"] == nil {
		return o, none(o.Generator, "aggregate with http.requests of version 2")
	}
	if at := *a.First; at > 0 && at < 1e13 {
		o.Started = time.UnixMilli(int64(at)).UTC()
	}
	o.Elapsed, o.Statuses = span((*a.Last-*a.First)/1e3), map[string]int64{}
	for name, v := range a.Counters {
		n := known(v)
		if n == nil {
			continue
		}
		if code, ok := strings.CutPrefix(name, "http.codes."); ok {
			o.Statuses[code] += *n
		} else if kind, ok := strings.CutPrefix(name, "errors."); ok && strings.HasPrefix(kind, "E") { // others are of checks and scripts
			o.failed(artilleryKind(kind), *n)
		}
	}
	o.Requests = ptr(sum(o.Statuses) + sum(o.Errors))
	o.BytesIn = known(a.Counters["http.downloaded_bytes"])
	d := latencyOf(ofService)
	d.Count = value(known(a.Summaries["http.response_time"]["count"]))
	for name, v := range a.Summaries["http.response_time"] {
		if v == nil {
			continue
		}
		switch ms := *v; name {
		case "min":
			d.min(ms / 1e3)
		case "mean":
			d.mean(ms / 1e3)
		case "max":
			d.max(ms / 1e3)
		case "p999":
			d.quantile(0.999, ms/1e3)
		default:
			if strings.HasPrefix(name, "p") {
				d.percentiles(map[string]*float64{name: ptr(ms / 1e3)})
			}
		}
	}
	if d.Count > 0 {
		d.addTo(&o)
	}
	return o, nil
}

// artilleryKind is the kind of an error of Node.js, such as ECONNREFUSED.
func artilleryKind(code string) string {
	switch code {
	case "ETIMEDOUT", "ESOCKETTIMEDOUT":
		return "timeout"
	case "ECONNREFUSED":
		return "connect refused"
	case "ECONNRESET", "EPIPE":
		return "reset"
	}
	return code
}
