package generator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// bombardierJSON is bombardier -o json, in microseconds.
type bombardierJSON struct {
	Spec *struct {
		Connections *float64 `json:"numberOfConnections"`
		Rate        *float64 `json:"rate"`
	} `json:"spec"`
	Result *struct {
		Read    *float64 `json:"bytesRead"`
		Written *float64 `json:"bytesWritten"`
		Seconds *float64 `json:"timeTakenSeconds"`
		R1      *float64 `json:"req1xx"`
		R2      *float64 `json:"req2xx"`
		R3      *float64 `json:"req3xx"`
		R4      *float64 `json:"req4xx"`
		R5      *float64 `json:"req5xx"`
		Others  *float64 `json:"others"` // requests without an answer among them
		Errors  []struct {
			Description string
			Count       *float64
		} `json:"errors"`
		Latency *struct {
			Mean, Max   *float64
			Percentiles map[string]*float64
		} `json:"latency"`
	} `json:"result"`
}

// ParseBombardier reads bombardier -o json, and its text of a test by time. The text of a test by requests has no duration.
func ParseBombardier(r io.Reader) (Outcome, error) {
	o := Outcome{Generator: "bombardier"}
	text, err := readAll(r, o.Generator)
	if err != nil {
		return o, err
	}
	if start := bytes.TrimSpace(text); len(start) > 0 && start[0] != '{' {
		return parseBombardierText(text)
	}
	var j bombardierJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return o, fmt.Errorf("read output of bombardier: %w", err)
	}
	if j.Spec == nil || j.Result == nil || j.Result.Seconds == nil {
		return o, none(o.Generator, "spec and result with timeTakenSeconds")
	}
	o.Elapsed, o.BytesIn, o.BytesOut = span(*j.Result.Seconds), known(j.Result.Read), known(j.Result.Written)
	if n := known(j.Spec.Connections); n != nil && *n < 1<<20 {
		o.Connections = ptr(int(*n))
	}
	if j.Spec.Rate != nil && *j.Spec.Rate > 0 {
		o.AskedRate = asRate(*j.Spec.Rate)
	} else {
		o.Loop = loopClosed
	}
	for _, e := range j.Result.Errors {
		o.failed(causeKind(e.Description), value(known(e.Count)))
	}
	o.bombardierCounts(map[string]*int64{"1xx": known(j.Result.R1), "2xx": known(j.Result.R2), "3xx": known(j.Result.R3), "4xx": known(j.Result.R4), "5xx": known(j.Result.R5)}, value(known(j.Result.Others)))
	if l := j.Result.Latency; l != nil && *o.Requests > 0 {
		d := latencyOf(ofService)
		d.Count = *o.Requests
		micro := func(v *float64) *float64 {
			if v == nil {
				return nil
			}
			return ptr(*v / 1e6)
		}
		d.summary(nil, micro(l.Mean), micro(l.Max))
		for name, v := range l.Percentiles {
			d.percentiles(map[string]*float64{name: micro(v)})
		}
		d.addTo(&o)
	}
	return o, nil
}

// bombardierCounts sets the counts. Others are requests without an answer, as far as errors list them.
func (o *Outcome) bombardierCounts(classes map[string]*int64, others int64) {
	o.Statuses = map[string]int64{}
	for class, n := range classes {
		if value(n) > 0 {
			o.Statuses[class] = *n
		}
	}
	if rest := others - sum(o.Errors); rest > 0 {
		o.Statuses["other"] = rest
	}
	o.Requests = ptr(sum(o.Statuses) + sum(o.Errors))
}

func parseBombardierText(text []byte) (Outcome, error) {
	o := Outcome{Generator: "bombardier"}
	d := latencyOf(ofService)
	var classes map[string]*int64
	others, errors := int64(0), false
	l, err := readLabelled(bytes.NewReader(text), o.Generator, func(line string) {
		t := strings.TrimSpace(line)
		f := strings.Fields(t)
		switch {
		case strings.HasPrefix(t, "Bombarding ") && len(f) >= 7 && f[2] == "for": // URL for 10s using 125 connection(s)
			if v, ok := textSeconds(f[3]); ok {
				o.Elapsed = span(v)
			}
			if n, err := strconv.Atoi(f[5]); err == nil && n > 0 && n < 1<<20 {
				o.Connections = &n
			}
		case len(f) == 4 && f[0] == "Latency": // average, standard deviation, maximum
			if v, ok := textSeconds(f[1]); ok {
				d.mean(v)
			}
			if v, ok := textSeconds(f[3]); ok {
				d.max(v)
			}
		case len(f) == 2 && strings.HasSuffix(f[0], "%"):
			q, err := strconv.ParseFloat(strings.TrimSuffix(f[0], "%"), 64)
			if v, ok := textSeconds(f[1]); ok && err == nil {
				d.quantile(q/100, v)
			}
		case strings.HasPrefix(t, "1xx - "):
			classes = map[string]*int64{}
			for _, part := range strings.Split(t, ",") {
				class, n, _ := strings.Cut(strings.TrimSpace(part), " - ")
				if v, ok := textInt(n); ok {
					classes[class] = &v
				}
			}
		case strings.HasPrefix(t, "others - "):
			others, _ = textInt(strings.TrimPrefix(t, "others - "))
		case t == "Errors:":
			errors = true
		case strings.HasPrefix(t, "Throughput:"):
			errors = false
		case errors:
			if at := strings.LastIndex(t, " - "); at > 0 {
				if n, ok := textInt(t[at+3:]); ok {
					o.failed(causeKind(t[:at]), n)
				}
			}
		}
	})
	if err != nil {
		return o, err
	}
	if _, ok := l["Throughput"]; !ok || classes == nil {
		return o, none(o.Generator, "HTTP codes and throughput")
	}
	if o.Elapsed == 0 {
		return o, none(o.Generator, "duration, as the text of a test by requests: use -o json")
	}
	o.bombardierCounts(classes, others)
	if d.Count = *o.Requests; d.Count > 0 {
		d.addTo(&o)
	}
	return o, nil
}
