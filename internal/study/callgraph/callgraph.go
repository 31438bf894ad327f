// Package callgraph reads applications from what their requests left behind: traces of Jaeger and OpenTelemetry, and
// the metrics of Istio.
package callgraph

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/predict"
)

// MaxBytes bounds a file. Reading one takes some five times its size of memory. A thousand traces are as good as all of a day.
const MaxBytes = 64 << 20

// Application is an application as a file shows it.
type Application struct {
	Graph predict.Graph
	Rates map[string]float64 // requests/s from outside, by service, nil if the file has none
	Notes []string           // what the graph leaves out
}

// Known reports whether data is in one of the formats, and not YAML.
func Known(data []byte) bool {
	data = bytes.TrimSpace(data)
	return len(data) > 0 && (data[0] == '{' || data[0] == '[') || bytes.Contains(data, []byte(requestsTotal+"{"))
}

// Read reads a file that is [Known]. The error has the place of a mistake in it.
func Read(file string, data []byte) (Application, error) {
	c := newCounts()
	if first := bytes.TrimSpace(data); first[0] != '{' && first[0] != '[' {
		if err := c.exposition(file, data); err != nil {
			return Application{}, err
		}
		return c.application(file)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	for decoder.More() { // a file of OpenTelemetry's collector has a document in each line
		var d document
		if first := bytes.TrimSpace(data); first[0] == '[' && bytes.Contains(first[:min(len(first), 64<<10)], []byte(`"localEndpoint"`)) {
			return Application{}, hint.New("give traces as Jaeger or OpenTelemetry write them, such as by the Zipkin receiver of OpenTelemetry's collector", "%s:1:1: these are traces of Zipkin", file)
		}
		if err := decoder.Decode(&d); err != nil {
			return Application{}, jsonError(file, data, decoder.InputOffset(), err)
		}
		if err := c.add(d); err != nil {
			return Application{}, strict.Problems{strict.Position{File: file, Line: 1, Column: 1}.Problem(err.Error(), hint.Of(err))}
		}
	}
	if err := c.spans(c.pending); err != nil {
		return Application{}, fmt.Errorf("%s: %w", file, err)
	}
	return c.application(file)
}

// document has the fields of all formats.
type document struct {
	Data          json.RawMessage `json:"data"`          // traces of Jaeger, or an answer of Prometheus
	ResourceSpans []resourceSpans `json:"resourceSpans"` // of OpenTelemetry
	Batches       []resourceSpans `json:"batches"`       // the same, as Tempo has them
}

func (c *counts) add(d document) error {
	switch {
	case d.ResourceSpans != nil || d.Batches != nil:
		c.openTelemetry(append(d.ResourceSpans, d.Batches...))
		return nil
	case bytes.HasPrefix(bytes.TrimSpace(d.Data), []byte("[")):
		return c.jaeger(d.Data)
	case d.Data != nil:
		return c.prometheus(d.Data)
	}
	return hint.New("give traces as Jaeger or OpenTelemetry write them, or an answer of Prometheus", "the file has neither data nor resourceSpans")
}

// jsonError is an error of JSON with its place.
func jsonError(file string, data []byte, offset int64, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = syntax.Offset
	} else if errors.Is(err, io.ErrUnexpectedEOF) {
		offset = int64(len(data))
	}
	before := data[:min(max(offset, 0), int64(len(data)))]
	p := strict.Position{File: file, Line: 1 + bytes.Count(before, []byte("\n")), Column: len(before) - bytes.LastIndexByte(before, '\n')}
	return strict.Problems{p.Problem("cannot be read as JSON: "+err.Error(), "give the whole file as it was exported")}
}

// counts are requests between services.
type counts struct {
	received map[string]float64 // requests that each service received
	outside  map[string]float64 // of these, without a caller in the file
	worked   map[string]float64 // messages and jobs of each service, which are no requests
	jobs     map[string]float64 // of these, without a message in the file
	messages map[predict.Edge]float64
	calls    map[predict.Edge]*edge // from a service to another
	answers  map[string]*sizes      // bytes of responses
	grpc     map[string]float64     // of received
	perTime  bool                   // counts are requests/s
	pending  []span                 // of all documents of the file
	notes    []string
}

// edge are the calls from a service to another.
type edge struct {
	calls    float64
	variance float64 // of calls per request of the caller, 0 if they are not known one by one
	requests sizes
	beside   float64 // calls that began before the one before them had ended
	place    float64 // sum of the numbers of calls before them
}

// sizes are bytes, and how many messages have them.
type sizes struct{ bytes, n float64 }

func (s *sizes) add(bytes, n float64) { s.bytes, s.n = s.bytes+bytes, s.n+n }

func newCounts() *counts {
	return &counts{received: map[string]float64{}, outside: map[string]float64{}, worked: map[string]float64{}, jobs: map[string]float64{}, messages: map[predict.Edge]float64{}, calls: map[predict.Edge]*edge{}, answers: map[string]*sizes{}, grpc: map[string]float64{}}
}

// edge returns the calls from a service to another.
func (c *counts) edge(from, to string) *edge {
	e := predict.Edge{From: from, To: to}
	if c.calls[e] == nil {
		c.calls[e] = &edge{}
	}
	return c.calls[e]
}

func (c *counts) answersOf(service string) *sizes {
	if c.answers[service] == nil {
		c.answers[service] = &sizes{}
	}
	return c.answers[service]
}

// units are the requests, messages and jobs that a service worked on.
func (c *counts) units(service string) float64 { return c.received[service] + c.worked[service] }

func (c *counts) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// mostCalls bounds the calls of a service for each request.
const mostCalls = 200

func (c *counts) application(file string) (a Application, err error) {
	working := maps.Clone(c.received)
	for more := true; more; { // a service whose messages lead to calls is part of them
		more = false
		for name, n := range c.worked {
			leads := len(c.calleesOf(name)) > 0
			for e := range c.messages {
				leads = leads || e.From == name && working[e.To] > 0
			}
			if working[name] == 0 && leads {
				working[name], more = n, true
			}
		}
	}
	if len(working) == 0 {
		return a, hint.New("give a file with requests between services", "%s has no request that a service received", file)
	}
	labels := labelsOf(slices.Sorted(maps.Keys(working)))
	g := predict.Graph{Unsized: true, Counted: map[predict.Edge]float64{}, Messages: map[predict.Edge]float64{}, Jobs: map[string]bool{}}
	g.Name = "app"
	base := strings.ToLower(file[strings.LastIndexAny(file, `/\`)+1:])
	if name, _, _ := strings.Cut(base, "."); app.IsLabel(name) {
		g.Name = name
	}
	names := slices.SortedFunc(maps.Keys(working), func(a, b string) int { return cmp.Compare(labels[a], labels[b]) })
	for _, name := range names {
		s := app.Service{Name: labels[name]}
		if a := c.answers[name]; a != nil && a.n > 0 {
			s.ResponseSize = app.FixedSize(int64(a.bytes / a.n))
		}
		if c.grpc[name] > c.received[name]/2 && c.received[name] > 0 {
			s.Protocol = app.GRPC
		}
		for _, to := range c.calleesOf(name) {
			e := c.calls[predict.Edge{From: name, To: to}]
			each := e.calls / c.units(name)
			if each > mostCalls {
				return a, fmt.Errorf("%s: %s calls %s %.0f times for each request, more than %d", file, name, to, each, mostCalls)
			}
			variance := e.variance
			if !c.perTime && variance == 0 && each != math.Trunc(each) {
				variance = each // of counts that are independent
			}
			if variance > 0 {
				g.Counted[predict.Edge{From: labels[name], To: labels[to]}] = math.Sqrt(variance / c.units(name))
			}
			s.Calls = append(s.Calls, callsOf(labels[to], each, *e)...)
		}
		g.Services = append(g.Services, s)
	}
	var most float64
	for _, name := range slices.Sorted(maps.Keys(c.outside)) {
		if c.outside[name] > most {
			most, g.Entry = c.outside[name], labels[name]
		}
	}
	for e, n := range c.messages {
		if working[e.To] > 0 && working[e.From] > 0 {
			g.Messages[predict.Edge{From: labels[e.From], To: labels[e.To]}] = n / c.units(e.From)
		}
	}
	var jobs float64
	for _, name := range slices.Sorted(maps.Keys(c.jobs)) {
		if working[name] == 0 {
			continue
		}
		g.Jobs[labels[name]] = c.outside[name] == 0
		if len(c.outside) == 0 && c.jobs[name] > jobs {
			jobs, g.Entry = c.jobs[name], labels[name]
		}
		if c.outside[name] == 0 {
			c.note("%s works %.0f times without a request: --rate %s=N is its jobs per second", labels[name], c.jobs[name], labels[name])
		}
	}
	if len(c.messages) > 0 {
		c.note("%s of services with messages between them: the traffic to the queue is left out, and calls because of messages are not", printable.Counted(len(c.messages), "pair"))
	}
	if c.perTime {
		a.Rates = map[string]float64{}
		for name, rate := range c.outside {
			a.Rates[labels[name]] += rate
		}
	}
	first := reporter{}
	g.Topology = g.Default()
	g.Topology.Validate(&first, "")
	if first.err != nil {
		return a, fmt.Errorf("%s: %w", file, first.err)
	}
	a.Graph, a.Notes = g, c.notes
	return a, nil
}

// calleesOf are the services that a service calls, in the order of the calls.
func (c *counts) calleesOf(name string) (all []string) {
	for e := range c.calls {
		if e.From == name && c.received[e.To] > 0 {
			all = append(all, e.To)
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		x, y := c.calls[predict.Edge{From: name, To: a}], c.calls[predict.Edge{From: name, To: b}]
		return cmp.Or(cmp.Compare(x.place/x.calls, y.place/y.calls), cmp.Compare(a, b))
	})
	return all
}

// callsOf are as many calls as each request makes, the last one with a probability.
func callsOf(to string, each float64, e edge) (all []app.Call) {
	c := app.Call{Service: to}
	if e.requests.n > 0 {
		c.RequestSize = app.FixedSize(int64(e.requests.bytes / e.requests.n))
	}
	c.Alongside = e.beside > e.calls/2
	for range int(each) {
		all = append(all, c)
	}
	if rest := each - math.Trunc(each); rest > 1e-9 {
		c.Probability = &rest
		all = append(all, c)
	}
	return all
}

// labelsOf makes DNS labels of names, all different.
func labelsOf(names []string) map[string]string {
	labels, used := map[string]string{}, map[string]bool{}
	for _, name := range names {
		label := printable.Plain(strings.ToLower(name), "", '-')
		label = strings.Trim(label[:min(len(label), 50)], "-")
		label = cmp.Or(label, "service")
		unique := label
		for n := 2; used[unique]; n++ {
			unique = fmt.Sprintf("%s-%d", label, n)
		}
		labels[name], used[unique] = unique, true
	}
	return labels
}

// reporter keeps the first mistake of a topology.
type reporter struct{ err error }

func (r *reporter) Report(_, message, advice string) {
	if r.err == nil {
		r.err = hint.New(advice, "%s", message)
	}
}

func (r *reporter) Sound(string) bool { return r.err == nil }
