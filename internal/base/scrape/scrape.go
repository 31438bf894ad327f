// Package scrape reads metrics in the text format of Prometheus
// (prometheus.io/docs/instrumenting/exposition_formats, version 0.0.4), and asks a Prometheus for them.
package scrape

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

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
