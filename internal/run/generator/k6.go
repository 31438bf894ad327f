package generator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// k6Metric are the figures of a metric of a summary by name. handleSummary writes them under
// "values", and --summary-export directly under the metric's name.
type k6Metric map[string]any

func (m *k6Metric) UnmarshalJSON(b []byte) error {
	var figures map[string]any
	err := json.Unmarshal(b, &figures)
	if values, ok := figures["values"].(map[string]any); ok {
		figures = values
	}
	*m = figures
	return err
}

func (m k6Metric) figure(name string) *float64 {
	if f, ok := m[name].(float64); ok {
		return &f
	}
	return nil
}

func (m k6Metric) count(name string) *int64 {
	if f := m.figure(name); f != nil {
		return count(*f)
	}
	return nil
}

// ParseK6 reads a summary of k6: the data of handleSummary, or --summary-export.
// If there is a scenario "measure", the figures are of that scenario.
func ParseK6(r io.Reader) (Outcome, error) {
	o := Outcome{Generator: "k6"}
	var j struct {
		Metrics map[string]k6Metric `json:"metrics"`
		State   struct {
			RunMS *float64 `json:"testRunDurationMs"`
		} `json:"state"`
	}
	text, err := readAll(r, o.Generator)
	if err != nil {
		return o, err
	}
	if bytes.Contains(text, []byte("http_reqs.")) {
		return o, hint.New("run k6 with --out json=FILE, or with --summary-export=FILE", "read output of k6: it is a text, with rounded figures")
	}
	if err := json.Unmarshal(text, &j); err != nil {
		return o, fmt.Errorf("read output of k6: %w", err)
	}
	if j.Metrics["http_reqs"] == nil {
		return o, fmt.Errorf("read output of k6: it has no metric http_reqs")
	}
	if j.State.RunMS != nil {
		o.Elapsed = span(*j.State.RunMS / 1e3)
	}
	metric := func(name string) k6Metric {
		if m := j.Metrics[name+"{scenario:measure}"]; m != nil {
			return m
		}
		return j.Metrics[name]
	}
	o.AllRequests = j.Metrics["http_reqs"].count("count")
	o.k6Counts(metric, j.Metrics["http_reqs{scenario:measure,status:0}"])
	d := latencyOf(ofService)
	times := metric("http_req_duration")
	for name := range times {
		if v := times.figure(name); v != nil {
			d.k6Figure(name, *v)
		}
	}
	if d.Count == 0 && o.Requests != nil {
		d.Count = *o.Requests
	}
	if d.Count > 0 {
		d.addTo(&o)
	}
	return o, nil
}

func (o *Outcome) k6Counts(metric func(string) k6Metric, silent k6Metric) {
	reqs := metric("http_reqs")
	o.Requests, o.BytesIn = reqs.count("count"), metric("data_received").count("count")
	if v := reqs.figure("rate"); v != nil {
		o.Rate = asRate(*v)
	}
	if o.Requests == nil {
		return
	}
	// The "passes" of http_req_failed count the failed requests.
	failed, none := value(metric("http_req_failed").count("passes")), value(silent.count("count"))
	o.OK, o.NotOK = new(max(0, *o.Requests-failed)), new(max(0, failed-none))
	if none > 0 {
		o.Errors = map[string]int64{"no answer": none}
	}
	if v := metric("dropped_iterations").figure("count"); v != nil && *v > 0 {
		o.note(fmt.Sprintf("k6 had no free virtual user for %.0f requests that were due, and dropped them", *v))
	}
}

// k6Figure adds one statistic of a trend, in ms.
func (d *distribution) k6Figure(name string, ms float64) {
	switch s := ms / 1e3; name {
	case "min":
		d.min(s)
	case "avg":
		d.mean(s)
	case "max":
		d.max(s)
	case "med":
		d.quantile(0.5, s)
	case "count":
		if n := count(ms); n != nil {
			d.Count = *n
		}
	default:
		q, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimPrefix(name, "p("), ")"), 64)
		if err == nil {
			d.quantile(q/100, s)
		}
	}
}

// k6Duration is the metric of a request's time.
const k6Duration = "http_req_duration"

// longestService bounds the time of a request, in ms: no generator waits longer.
const longestService = 1e9

// EachK6Record calls each with every request of k6 --out json: a line for each metric of a request, with the time of its end.
// The result of k6's responseCallback decides what failed.
func EachK6Record(r io.Reader, _ bool, each func(Record)) error {
	return eachLine(r, "k6", func(line string) error {
		if !strings.Contains(line, k6Duration) {
			return nil
		}
		var point struct {
			Type   string `json:"type"`
			Metric string `json:"metric"`
			Data   struct {
				Time  time.Time `json:"time"`
				Value float64   `json:"value"` // ms
				Tags  struct {
					Status   string `json:"status"`
					Expected string `json:"expected_response"`
					Error    string `json:"error"`
				} `json:"tags"`
			} `json:"data"`
		}
		if err := json.Unmarshal([]byte(line), &point); err != nil {
			return err
		}
		if point.Type != "Point" || point.Metric != k6Duration {
			return nil
		}
		at, took, tags := point.Data.Time, point.Data.Value, point.Data.Tags
		if y := at.Year(); y < 1970 || y > 2200 || !(took >= 0 && took <= longestService) {
			return fmt.Errorf("time %v, %v ms", at, took)
		}
		rec := Record{Done: time.Duration(at.UnixNano()), Service: span(took / 1e3), Late: unknown, Response: unknown, Size: -1}
		rec.At = rec.Done - rec.Service
		var err error
		if tags.Status != "" {
			if rec.Code, err = strconv.Atoi(tags.Status); err != nil || rec.Code < 0 || rec.Code > 999 {
				return fmt.Errorf("status %.40q is no figure", tags.Status)
			}
		}
		if rec.Code == 0 {
			rec.Error = errorKind(tags.Error)
		} else {
			rec.Passed, rec.Failed = tags.Expected == "true", tags.Expected == "false"
		}
		each(rec)
		return nil
	})
}
