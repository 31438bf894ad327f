package callgraph

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/scrape"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/predict"
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
			sum := lists.Sum(numbers, func(n float64) float64 { return n })
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
				c.answersOf(to).add(v, n)
			} else if !outside {
				c.edge(from, to).requests.add(v, n)
			}
		}
	}
}

// span is a span of a trace, of any format.
type span struct {
	trace, id, parent string
	service           string
	start, end        float64 // in any unit
	client, message   bool    // the side of the caller; a message of a queue
	server            bool    // the side of the service that is called
	tags              map[string]string
}

const (
	mostSpans  = 2_000_000 // of a file
	mostNested = 1000      // spans of one service in one another: a file may have circles
	mostBytes  = 1 << 50   // of a message
)

// jaegerTrace is a trace as Jaeger's interface and its user interface export it.
type jaegerTrace struct {
	TraceID string `json:"traceID"`
	Spans   []struct {
		TraceID    string `json:"traceID"`
		SpanID     string `json:"spanID"`
		Parent     string `json:"parentSpanID"`
		References []struct {
			Type   string `json:"refType"`
			SpanID string `json:"spanID"`
		} `json:"references"`
		Start     float64 `json:"startTime"`
		Duration  float64 `json:"duration"`
		ProcessID string  `json:"processID"`
		Tags      []struct {
			Key   string `json:"key"`
			Value any    `json:"value"`
		} `json:"tags"`
	} `json:"spans"`
	Processes map[string]struct {
		ServiceName string `json:"serviceName"`
	} `json:"processes"`
}

func (c *counts) jaeger(data []byte) error {
	var traces []jaegerTrace
	if err := json.Unmarshal(data, &traces); err != nil {
		return fmt.Errorf("cannot be read as traces of Jaeger: %w", err)
	}
	for _, t := range traces {
		for _, s := range t.Spans {
			x := span{trace: cmp.Or(s.TraceID, t.TraceID), id: s.SpanID, parent: s.Parent, service: t.Processes[s.ProcessID].ServiceName, start: s.Start, end: s.Start + s.Duration, tags: map[string]string{}}
			for _, r := range s.References {
				if x.parent == "" || r.Type == "CHILD_OF" {
					x.parent = r.SpanID
				}
			}
			for _, tag := range s.Tags {
				x.tags[tag.Key] = fmt.Sprint(tag.Value)
			}
			x.client, x.server = x.tags["span.kind"] == "client", x.tags["span.kind"] == "server"
			x.message = x.tags["span.kind"] == "consumer" || x.tags["span.kind"] == "producer"
			c.pending = append(c.pending, x)
		}
	}
	return nil
}

// resourceSpans are the spans of a service, by the protocol of OpenTelemetry (OTLP) in JSON.
type resourceSpans struct {
	Resource struct {
		Attributes []attribute `json:"attributes"`
	} `json:"resource"`
	ScopeSpans []scopeSpans `json:"scopeSpans"`
	Earlier    []scopeSpans `json:"instrumentationLibrarySpans"` // before version 0.19
}

type scopeSpans struct {
	Spans []struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		Parent     string      `json:"parentSpanId"`
		Kind       any         `json:"kind"` // a number or a name
		Start      any         `json:"startTimeUnixNano"`
		End        any         `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes"`
	} `json:"spans"`
}

type attribute struct {
	Key   string         `json:"key"`
	Value map[string]any `json:"value"`
}

func (c *counts) openTelemetry(resources []resourceSpans) {
	for _, r := range resources {
		service := texts(r.Resource.Attributes)["service.name"]
		for _, scope := range append(r.ScopeSpans, r.Earlier...) {
			for _, s := range scope.Spans {
				kind := fmt.Sprint(s.Kind)
				x := span{trace: s.TraceID, id: s.SpanID, parent: s.Parent, service: service, start: number(s.Start), end: number(s.End), tags: texts(s.Attributes)}
				x.client, x.server = kind == "3" || kind == "SPAN_KIND_CLIENT", kind == "2" || kind == "SPAN_KIND_SERVER"
				x.message = slices.Contains([]string{"4", "5", "SPAN_KIND_PRODUCER", "SPAN_KIND_CONSUMER"}, kind)
				c.pending = append(c.pending, x)
			}
		}
	}
}

func texts(attributes []attribute) map[string]string {
	all := map[string]string{}
	for _, a := range attributes {
		for _, v := range a.Value {
			all[a.Key] = fmt.Sprint(v)
		}
	}
	return all
}

func number(v any) float64 {
	n, _ := strconv.ParseFloat(fmt.Sprint(v), 64) // 0 if it is missing
	return n
}

// arrival is a request that a service received, a message or a job of its own, with the calls that it made and the services
// that took its messages.
type arrival struct {
	service  string
	calls    []span
	messages []string
}

// spans counts the requests of traces. A request of a service is a span whose parent is of another service.
func (c *counts) spans(all []span) error {
	if len(all) > mostSpans {
		return fmt.Errorf("%d spans, more than %d", len(all), mostSpans)
	}
	type key struct{ trace, id string }
	byID := map[key]*span{}
	for i := range all {
		if all[i].service != "" {
			byID[key{all[i].trace, all[i].id}] = &all[i]
		}
	}
	arrivals := map[*span]*arrival{}
	// arrivalOf finds the request during which a span of its service happened.
	arrivalOf := func(s *span) *span {
		for range mostNested {
			parent := byID[key{s.trace, s.parent}]
			if s.parent == "" || parent == nil || parent.service != s.service {
				return s
			}
			s = parent
		}
		return s
	}
	named := slices.ContainsFunc(all, func(s span) bool { return s.server }) // spans have kinds
	arrivalFrom := func(s *span) *arrival {
		if arrivals[s] == nil {
			arrivals[s] = &arrival{service: s.service}
		}
		return arrivals[s]
	}
	answered := map[*span]bool{} // client spans with a server's span
	lost := 0
	for i := range all {
		s := &all[i]
		if byID[key{s.trace, s.id}] != s {
			continue
		}
		parent := byID[key{s.trace, s.parent}]
		if s.parent != "" && parent != nil && parent.service == s.service {
			continue
		}
		switch {
		case s.message && parent != nil: // of a queue: no request passes a proxy
			c.worked[s.service]++
			arrivalFrom(s)
			from := arrivalFrom(arrivalOf(parent))
			from.messages = append(from.messages, s.service)
			continue
		case parent == nil && s.parent == "" && (s.message || named && !s.server && !s.client): // a job, such as of cron
			c.worked[s.service]++
			c.jobs[s.service]++
			arrivalFrom(s)
			continue
		}
		if s.parent != "" && parent == nil {
			lost++
		}
		if s.client && parent == nil {
			continue // a program that only calls: outside
		}
		c.received[s.service]++
		if s.tags["rpc.system"] == "grpc" || s.tags["component"] == "grpc" || s.tags["component"] == "gRPC" {
			c.grpc[s.service]++
		}
		if n := first(s.tags, "http.response.body.size", "http.response_content_length", "response_size"); n >= 0 {
			c.answersOf(s.service).add(n, 1)
		}
		arrivalFrom(s)
		if parent == nil {
			c.outside[s.service]++
			continue
		}
		answered[parent] = true
		from := arrivalOf(parent)
		if from.client && byID[key{from.trace, from.parent}] == nil {
			c.outside[s.service]++
			continue
		}
		call := *s
		if parent.client { // the time as the caller saw it
			call.start, call.end = parent.start, parent.end
		}
		caller := arrivalFrom(from)
		caller.calls = append(caller.calls, call)
	}
	unanswered := 0
	for i := range all {
		if s := &all[i]; s.client && !answered[s] && byID[key{s.trace, s.id}] == s {
			unanswered++
		}
	}
	if unanswered > 0 {
		c.note("%d calls have no span of the service that was called, such as a database: they are left out", unanswered)
	}
	if lost > 0 {
		c.note("%d requests have a parent that is not in the file: they count as from outside", lost)
	}
	c.count(arrivals)
	return nil
}

// count counts the calls of requests, and their variance.
func (c *counts) count(arrivals map[*span]*arrival) {
	squares := map[[2]string]float64{}
	for _, a := range arrivals {
		for _, to := range a.messages {
			c.messages[predict.Edge{From: a.service, To: to}]++
		}
		slices.SortFunc(a.calls, func(x, y span) int { return cmp.Compare(x.start, y.start) })
		each := map[string]float64{}
		for i, call := range a.calls {
			e := c.edge(a.service, call.service)
			e.calls++
			e.place += float64(i)
			each[call.service]++
			if i > 0 && call.start < a.calls[i-1].end {
				e.beside++
			}
			if n := first(call.tags, "http.request.body.size", "http.request_content_length", "request_size"); n >= 0 {
				e.requests.add(n, 1)
			}
		}
		for to, n := range each {
			squares[[2]string{a.service, to}] += n * n
		}
	}
	for of, e := range c.calls {
		n := c.units(of.From)
		mean := e.calls / n
		e.variance = max(0, squares[[2]string{of.From, of.To}]/n-mean*mean)
	}
}

// first is the first tag that is a number of bytes, or -1.
func first(tags map[string]string, names ...string) float64 {
	for _, name := range names {
		if n, err := strconv.ParseFloat(strings.TrimSpace(tags[name]), 64); err == nil && n >= 0 && n <= mostBytes {
			return n
		}
	}
	return -1
}
