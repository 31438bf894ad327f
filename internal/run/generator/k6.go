package generator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
)

// k6Traits describes github.com/grafana/k6. Warm-up, measure window and tail are separate scenarios, so the summary has separate
// figures for the measure window, which need no scaling.
var k6Traits = traits{name: "k6", loop: loopOpen, closed: true, protocols: []string{"http1"}, method: true, body: true, targets: true,
	warmup: k6Shortest, version: versionOf{"version", `k6(?:\.exe)? v([0-9][^\s]*)`},
	command: k6Command, parse: func(r io.Reader, p load.Profile) (Outcome, error) {
		o, err := ParseK6(r)
		o.Elapsed = p.Measure
		return o, err
	}}

// k6Scenario is one phase of the run, with times in ms.
type k6Scenario struct {
	Name            string
	Start, Duration int64
}

// k6Script is safe from injection: values are generated here or quoted as JSON, which is valid JavaScript.
var k6Script = template.Must(template.New("k6").Parse(`import http from 'k6/http';
const urls = {{.URLs}};
const body = {{.Size}} > 0 ? 'x'.repeat({{.Size}}) : null;
const stretch = (start, duration) => ({
{{- if .Open}}
  executor: 'constant-arrival-rate', rate: {{.Rate}}, timeUnit: '{{.Unit}}', preAllocatedVUs: {{.VUs}}, maxVUs: {{.VUs}},
{{- else}}
  executor: 'constant-vus', vus: {{.VUs}},
{{- end}}
  startTime: start + 'ms', duration: duration + 'ms', gracefulStop: '{{.Grace}}ms',
});
export const options = {
  scenarios: { {{range .Scenarios}}{{.Name}}: stretch({{.Start}}, {{.Duration}}), {{end}}},
  thresholds: {
    'http_req_duration{scenario:measure}': [], 'http_req_failed{scenario:measure}': [],
    'http_reqs{scenario:measure}': [], 'http_reqs{scenario:measure,status:0}': [],
    'dropped_iterations{scenario:measure}': [], 'data_received{scenario:measure}': [],
  },
  summaryTrendStats: ['count', 'min', 'avg', 'max', 'p(50)', 'p(75)', 'p(90)', 'p(95)', 'p(99)', 'p(99.9)', 'p(99.99)'],
  discardResponseBodies: true,
};
export default function () {
  const url = urls[Math.floor(Math.random() * urls.length)];
  http.request({{.Method}}, url, body, { redirects: 0, {{with .Host}}headers: { Host: {{.}} }, {{end}}timeout: {{.Timeout}}, tags: { name: 'load' } });
}
export function handleSummary(data) { return { stdout: JSON.stringify(data) }; }
`))

// k6Command passes k6 a script on standard input.
func k6Command(t traits, p load.Profile) (proc.Command, error) {
	if p.Measure < k6Shortest || p.Warmup > 0 && p.Warmup < k6Shortest {
		return proc.Command{}, refused(t.name, "it has no stretch shorter than %v: warm-up %v, measure window %v", k6Shortest, p.Warmup, p.Measure)
	}
	if p.Tail > 0 {
		p.Tail = max(p.Tail, k6Shortest)
	}
	urls, err := json.Marshal(p.Targets)
	if err != nil {
		return proc.Command{}, fmt.Errorf("write script for k6: %w", err)
	}
	timeout := p.Timeout
	if timeout <= 0 {
		timeout = time.Minute // k6's own default
	}
	// k6 requires an integer number of iterations per time unit.
	rate, unit := p.Rate, "1s"
	if rate != float64(int64(rate)) {
		rate, unit = float64(int64(rate*1000+0.5)), "1000s"
	}
	var scenarios []k6Scenario
	var at int64
	for _, s := range []struct {
		name string
		d    time.Duration
	}{{"warmup", p.Warmup}, {k6Measure, p.Measure}, {"tail", p.Tail}} {
		if ms := s.d.Milliseconds(); ms > 0 {
			scenarios = append(scenarios, k6Scenario{s.name, at, ms})
			at += ms
		}
	}
	var script strings.Builder
	if err := k6Script.Execute(&script, map[string]any{
		"URLs": string(urls), "Size": p.RequestSize, "Open": p.Rate > 0, "Rate": decimal(rate), "Unit": unit,
		"VUs": p.Connections, "Grace": max(timeout, p.Drain).Milliseconds(), "Scenarios": scenarios,
		"Host": javaScript(host(p)), "Method": strconv.Quote(method(p)), "Timeout": timeout.Milliseconds(),
	}); err != nil {
		return proc.Command{}, fmt.Errorf("write script for k6: %w", err)
	}
	c := proc.Command{Args: []string{"run", "--quiet", "--no-color", "--no-usage-report", "-"}, Stdin: strings.NewReader(script.String()),
		Env: []string{"GODEBUG=http2client=0"}} // k6 otherwise uses HTTP/2 if ALPN offers it
	if p.Workers > 0 {
		c.Env = append(c.Env, "GOMAXPROCS="+strconv.Itoa(p.Workers))
	}
	return c, nil
}

// javaScript is a text as JavaScript has it, or empty.
func javaScript(text string) string {
	if text == "" {
		return ""
	}
	b, _ := json.Marshal(text) // of a string it cannot fail
	return string(b)
}

const (
	k6Measure = "measure" // the scenario of the measure window
	// k6Shortest is the shortest scenario that k6 accepts.
	k6Shortest = time.Second
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

// ParseK6 reads a summary of k6: its text, the data of handleSummary, or --summary-export.
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
	if k6Text(text) {
		return parseK6Text(text)
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
	o.OK, o.NotOK = ptr(max(0, *o.Requests-failed)), ptr(max(0, failed-none))
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

// k6Line is a metric of k6's summary: "http_reqs......: 101 31.9/s".
var k6Line = regexp.MustCompile(`^\s*[✓✗]?\s*([a-z_0-9]+)\.*: +(.*\S)\s*$`)

// k6Text reports whether an output is the text of k6's summary.
func k6Text(text []byte) bool {
	return bytes.Contains(text, []byte("http_reqs.")) && !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{"))
}

// parseK6Text reads the text of k6's summary. Colours of a terminal are ignored.
func parseK6Text(text []byte) (Outcome, error) {
	o := Outcome{Generator: "k6"}
	d := latencyOf(ofService)
	failed, has, complete, summaries := int64(0), false, false, 0
	err := eachLine(bytes.NewReader(ansi.ReplaceAll(text, nil)), o.Generator, func(line string) error {
		m := k6Line.FindStringSubmatch(line)
		if m == nil {
			return nil
		}
		f := strings.Fields(m[2])
		switch m[1] {
		case "http_reqs":
			summaries++
			if n, ok := textInt(f[0]); ok && len(f) > 1 {
				if rate, err := strconv.ParseFloat(strings.TrimSuffix(f[1], "/s"), 64); err == nil && rate > 0 {
					o.Requests, o.Rate, o.Elapsed = &n, asRate(rate), span(float64(n)/rate)
				}
			}
		case "http_req_failed": // "2.97% ✓ 3 ✗ 98", of newer versions "2.97% 3 out of 101"
			if len(f) > 2 {
				word := strings.TrimPrefix(f[1], "✓")
				if word == "" {
					word = f[2]
				}
				failed, has = textInt(word)
			}
		case "http_req_duration":
			for _, pair := range f {
				name, v, _ := strings.Cut(pair, "=")
				if t, err := time.ParseDuration(v); err == nil {
					d.k6Figure(name, t.Seconds()*1e3)
				}
			}
		case "data_received":
			if len(f) > 1 {
				if v, err := Quantity(f[0]+f[1], k6Sizes); err == nil && v >= 0 {
					o.BytesIn = count(v)
				}
			}
		case "data_sent":
			complete = true
		case "dropped_iterations":
			o.note("k6 had no free virtual user for " + f[0] + " iterations that were due, and dropped them")
		}
		return nil
	})
	if err != nil {
		return o, err
	}
	if summaries > 1 {
		return o, errors.New("read output of k6: http_reqs occurs twice: files were joined")
	}
	if o.Requests == nil || !complete || bytes.IndexByte(text, 0) >= 0 {
		return o, errors.New("read output of k6: it has no http_reqs with a rate, and data_sent: it was cut off")
	}
	if has && failed <= *o.Requests {
		o.OK, o.NotOK = ptr(*o.Requests-failed), &failed
	}
	if d.Count = *o.Requests; d.Count > 0 {
		d.addTo(&o)
	}
	return o, nil
}

// ansi is an escape sequence of a terminal.
var ansi = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// k6Sizes are the units of data_received.
var k6Sizes = map[string]float64{"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}

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
