// Package scrape serves metrics to Prometheus, and reads metrics of others, in its text format
// (prometheus.io/docs/instrumenting/exposition_formats, version 0.0.4).
package scrape

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
)

// Registry is a set of metrics. Add all before the first request.
type Registry struct{ families []family }

// family is a metric with its series.
type family struct {
	name, help, kind string
	write            func(b *bytes.Buffer, name string)
}

// Counter adds a counter without labels.
func (r *Registry) Counter(name, help string, value func() float64) {
	r.add(family{name, help, "counter", single(value)})
}

// Gauge adds a gauge without labels.
func (r *Registry) Gauge(name, help string, value func() float64) {
	r.add(family{name, help, "gauge", single(value)})
}

func single(value func() float64) func(*bytes.Buffer, string) {
	return func(b *bytes.Buffer, name string) { fmt.Fprintf(b, "%s %s\n", name, number(value())) }
}

// ServeHTTP implements [http.Handler].
func (r *Registry) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	for _, f := range r.families {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		f.write(&b, f.name)
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	_, _ = w.Write(b.Bytes())
}

// Histograms is a histogram for each combination of label values.
type Histograms struct {
	bounds []float64 // upper bounds of the buckets, ascending, but the last bucket has none
	labels []string
	series sync.Map // by the label values, joined: *Histogram
}

// Histogram counts observations. It is for concurrent use.
type Histogram struct {
	values  []string // of the labels
	bounds  []float64
	buckets []atomic.Uint64
	sum     atomic.Uint64 // bits of a float64
}

// Histograms adds a histogram with labels.
func (r *Registry) Histograms(name, help string, bounds []float64, labels ...string) *Histograms {
	h := &Histograms{bounds: bounds, labels: labels}
	r.add(family{name, help, "histogram", h.write})
	return h
}

const separator = "\x00"

// With returns the histogram of label values, in the order of the labels.
func (h *Histograms) With(values ...string) *Histogram {
	key := strings.Join(values, separator)
	if one, ok := h.series.Load(key); ok {
		return one.(*Histogram)
	}
	one, _ := h.series.LoadOrStore(key, &Histogram{values: values, bounds: h.bounds, buckets: make([]atomic.Uint64, len(h.bounds)+1)})
	return one.(*Histogram)
}

// Observe counts one value.
func (h *Histogram) Observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v) // a bound belongs to its bucket
	h.buckets[i].Add(1)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

func (h *Histograms) write(b *bytes.Buffer, name string) {
	for _, one := range sorted[*Histogram](&h.series) {
		labels := pairs(h.labels, one.values)
		count := uint64(0)
		for i := range one.buckets {
			count += one.buckets[i].Load()
			bound := math.Inf(1)
			if i < len(one.bounds) {
				bound = one.bounds[i]
			}
			fmt.Fprintf(b, "%s_bucket{%sle=\"%s\"} %d\n", name, labels, number(bound), count)
		}
		braced := "{" + strings.TrimSuffix(labels, ",") + "}"
		fmt.Fprintf(b, "%s_sum%s %s\n%s_count%s %d\n", name, braced, number(math.Float64frombits(one.sum.Load())), name, braced, count)
	}
}

func (r *Registry) add(f family) {
	at, _ := slices.BinarySearchFunc(r.families, f, func(a, b family) int { return cmp.Compare(a.name, b.name) })
	r.families = slices.Insert(r.families, at, f)
}

// sorted lists the values of m in the order of its keys.
func sorted[V any](m *sync.Map) []V {
	byKey := map[string]V{}
	var keys []string
	m.Range(func(key, v any) bool {
		keys = append(keys, key.(string))
		byKey[key.(string)] = v.(V)
		return true
	})
	slices.Sort(keys)
	return lists.Map(keys, func(key string) V { return byKey[key] })
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// pairs writes labels, each followed by a comma.
func pairs(labels, values []string) string {
	var b strings.Builder
	for i, name := range labels {
		b.WriteString(name + `="` + escaped.Replace(values[i]) + `",`)
	}
	return b.String()
}

func number(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Sample is a line of the text format.
type Sample struct {
	Name   string
	Labels map[string]string // nil without braces
	Value  float64           // may be NaN or infinite
	Time   time.Time         // zero in a line without
}

// Samples reads a text: lines that begin with one of prefixes, or all. A line that is damaged is the last, with an error.
func Samples(text []byte, prefixes ...string) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
				continue
			}
			if len(prefixes) > 0 && !slices.ContainsFunc(prefixes, func(p string) bool { return bytes.HasPrefix(line, []byte(p)) }) {
				continue
			}
			s, err := parse(string(line))
			if err != nil {
				err = fmt.Errorf("line %.120q: %w", line, err)
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// parse reads "name{label="value",…} value milliseconds".
func parse(line string) (s Sample, err error) {
	var rest string
	if s.Name, s.Labels, rest, err = ParseSeries(line); err != nil {
		return s, err
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return s, errors.New("no value")
	}
	if s.Value, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return s, err
	}
	if len(fields) > 1 {
		ms, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return s, err
		}
		s.Time = time.UnixMilli(ms)
	}
	return s, nil
}

// ParseSeries reads the name and the labels at the beginning of a text. Labels have no other escapes than \\, \" and \n.
func ParseSeries(text string) (name string, labels map[string]string, rest string, err error) {
	i := strings.IndexAny(text, "{ ")
	if i < 0 {
		return text, nil, "", nil
	}
	name, rest = text[:i], text[i:]
	if rest[0] != '{' {
		return name, nil, rest, nil
	}
	labels, rest = map[string]string{}, rest[1:]
	for {
		rest = strings.TrimLeft(rest, ", ")
		if after, closed := strings.CutPrefix(rest, "}"); closed {
			return name, labels, after, nil
		}
		label, quoted, ok := strings.Cut(rest, "=")
		if !ok {
			return "", nil, "", errors.New("labels without an end")
		}
		q, err := strconv.QuotedPrefix(quoted)
		if err != nil {
			return "", nil, "", err
		}
		if labels[label], err = strconv.Unquote(q); err != nil {
			return "", nil, "", err
		}
		rest = quoted[len(q):]
	}
}

// Limits of an answer of Prometheus.
const (
	queryWithin = time.Minute
	queryLimit  = 64 << 20 // bytes
)

// Query sends a query to the HTTP API of a Prometheus, and returns the samples of its vector.
func Query(ctx context.Context, base, query string) (all []Sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryWithin)
	defer cancel()
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, errors.New("the address of Prometheus is not a URL such as http://localhost:9090")
	}
	to := u.JoinPath("api/v1/query")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), strings.NewReader(url.Values{"query": {query}}.Encode()))
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", to.Redacted(), err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", to.Redacted(), errors.Unwrap(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, queryLimit))
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", to.Redacted(), err)
	}
	var answer struct {
		Error string `json:"error"`
		Data  struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
				Value  []any             `json:"value"` // a time and a number
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Error != "" || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("query %s: %s: %.200q is no answer of Prometheus with a vector", to.Redacted(), resp.Status, body)
	}
	for _, r := range answer.Data.Result {
		if len(r.Value) != 2 {
			return nil, fmt.Errorf("query %s: a value has %d parts, expected a time and a number", to.Redacted(), len(r.Value))
		}
		n, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			return nil, fmt.Errorf("query %s: %w", to.Redacted(), err)
		}
		all = append(all, Sample{Labels: r.Metric, Value: n})
	}
	return all, nil
}
