package callgraph

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/scrape"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// Metrics of Istio's proxies.
const (
	requestsTotal = "istio_requests_total"
	requestBytes  = "istio_request_bytes_"
	responseBytes = "istio_response_bytes_"
)

// exposition reads counters in Prometheus's text format, of one proxy or of several files joined.
func (c *counts) exposition(file string, data []byte) error {
	m := newMeshCounts()
	for s, err := range scrape.Samples(data, requestsTotal, requestBytes, responseBytes) {
		if err != nil {
			return strict.Problems{strict.Position{File: file, Line: 1, Column: 1}.Problem(err.Error(), "give the text that a proxy or Prometheus exports")}
		}
		m.add(s.Name, s.Labels, s.Value)
	}
	m.into(c)
	return nil
}

// answer is the data of an answer of Prometheus to a query.
type answer struct {
	ResultType string `json:"resultType"`
	Result     []struct {
		Metric map[string]string `json:"metric"`
		Value  []any             `json:"value"`  // a time and a number
		Values [][]any           `json:"values"` // several
	} `json:"result"`
}

// prometheus reads an answer to a query: counters over a range have their growth, and results of rate() their mean.
func (c *counts) prometheus(data []byte) error {
	var a answer
	if err := json.Unmarshal(data, &a); err != nil {
		return fmt.Errorf("cannot be read as an answer of Prometheus: %w", err)
	}
	if a.ResultType != "matrix" && a.ResultType != "vector" {
		return hint.New("query istio_requests_total, or rate(istio_requests_total[5m])", "the result is a %.20q, expected a matrix or a vector", a.ResultType)
	}
	m := newMeshCounts()
	for _, r := range a.Result {
		values := r.Values
		if r.Value != nil {
			values = append(values, r.Value)
		}
		var times, numbers []float64
		for _, v := range values {
			if len(v) != 2 {
				return fmt.Errorf("a value has %d parts, expected a time and a number", len(v))
			}
			n, err := strconv.ParseFloat(fmt.Sprint(v[1]), 64)
			if err != nil {
				return fmt.Errorf("the value %.40q is not a number", fmt.Sprint(v[1]))
			}
			times, numbers = append(times, number(v[0])), append(numbers, n)
		}
		if len(numbers) == 0 {
			continue
		}
		name, counter := r.Metric["__name__"]
		switch {
		case !counter: // a rate
			c.perTime = true
			var sum float64
			for _, n := range numbers {
				sum += n
			}
			m.add(requestsTotal, r.Metric, sum/float64(len(numbers)))
		case len(numbers) > 1:
			c.perTime = true
			var grown float64
			for i := 1; i < len(numbers); i++ {
				if by := numbers[i] - numbers[i-1]; by >= 0 {
					grown += by
				} else {
					grown += numbers[i] // restarted
				}
			}
			m.add(name, r.Metric, grown/max(1e-9, times[len(times)-1]-times[0]))
		default:
			m.add(name, r.Metric, numbers[0])
		}
	}
	m.into(c)
	return nil
}

// meshCounts are counters by what reported them. Both sides of a call report it.
type meshCounts struct {
	by map[[4]string]float64 // metric, reporter, caller, called service
	// grpc are requests by gRPC, by reporter and called service.
	grpc map[[2]string]float64
}

func newMeshCounts() *meshCounts {
	return &meshCounts{map[[4]string]float64{}, map[[2]string]float64{}}
}

func (m *meshCounts) add(name string, labels map[string]string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) || value <= 0 || name == "istio_request_bytes_bucket" || name == "istio_response_bytes_bucket" {
		return
	}
	from := named(labels, "source_canonical_service", "source_app", "source_workload")
	to := named(labels, "destination_canonical_service", "destination_service_name", "destination_app", "destination_workload")
	if to == "" {
		return // refused, or to a place outside
	}
	m.by[[4]string{name, labels["reporter"], from, to}] += value
	if name == requestsTotal && strings.EqualFold(labels["request_protocol"], "grpc") {
		m.grpc[[2]string{labels["reporter"], to}] += value
	}
}

// named is the first label with a name. Istio writes unknown for what it does not know.
func named(labels map[string]string, names ...string) string {
	for _, name := range names {
		if v := labels[name]; v != "" && v != "unknown" {
			return v
		}
	}
	return ""
}

// into adds the counts, each call once: as the side of the called service reports it, or else the caller's, or a waypoint.
func (m *meshCounts) into(c *counts) {
	best := map[[3]string]float64{}
	for _, reporter := range []string{"destination", "source", "waypoint", ""} {
		for k, v := range m.by {
			at := [3]string{k[0], k[2], k[3]}
			if _, known := best[at]; !known && k[1] == reporter {
				best[at] = v
			}
		}
	}
	inside := map[string]bool{}
	for k := range best {
		if k[0] == requestsTotal && k[1] != k[2] {
			inside[k[2]] = true
		}
	}
	for k, v := range best {
		name, from, to := k[0], k[1], k[2]
		if from == to {
			continue
		}
		outside := from == "" || !inside[from] // gateways, and what receives no request
		switch {
		case name == requestsTotal:
			c.received[to] += v
			if outside {
				c.outside[to] += v
			} else {
				c.edge(from, to).calls += v
			}
			c.grpc[to] = max(c.grpc[to], m.grpc[[2]string{"destination", to}], m.grpc[[2]string{"source", to}])
		case strings.HasSuffix(name, "_sum"):
			n := best[[3]string{strings.TrimSuffix(name, "_sum") + "_count", from, to}]
			if n == 0 {
				continue
			}
			if strings.HasPrefix(name, responseBytes) {
				if c.answers[to] == nil {
					c.answers[to] = &sizes{}
				}
				c.answers[to].add(v, n)
			} else if !outside {
				c.edge(from, to).requests.add(v, n)
			}
		}
	}
}
