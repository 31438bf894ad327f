package app

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// FromIsotope converts a service graph of isotope, by the names of the fields
// that its code reads: the size of a call is "size" (its README says
// payloadSize), defaults stand under "defaults" (in one place it says default),
// and numRbacPolicies is read no more. A call that fails makes the answer a 500 there, and
// so here. notes say what a topology cannot hold and is left out. Mistakes in
// the file are [strict.Problems].
func FromIsotope(file string, data []byte) (t Topology, notes []string, err error) {
	doc, err := strict.Parse(file, data)
	if err != nil {
		return t, nil, err
	}
	var g isotopeGraph
	doc.Decode(&g)
	c := isotope{doc: doc, graph: g, from: map[string]string{}}
	if c.small() {
		t = c.topology(file)
	}
	if doc.Err() == nil {
		t.Validate(isotopeReporter{doc, c.from}, "")
	}
	if err := doc.Err(); err != nil {
		return Topology{}, nil, err
	}
	text, err := t.YAML()
	if err == nil && len(text) > strict.MaxBytes {
		doc.Report("services", fmt.Sprintf("the topology has %d bytes, more than the %d that a topology's file may have", len(text), strict.MaxBytes), smallerHint)
		err = doc.Err()
	}
	if err != nil {
		return Topology{}, nil, err
	}
	return t.Default(), c.notes, nil
}

// maxCommands is how many commands a graph may have, those of the default script
// counted once for every service that has none of its own: a file of a few
// kilobytes can ask for billions.
const maxCommands = 20_000

const smallerHint = "give the services that call nothing a script of their own: script: []"

// small reports a graph that is too large to be converted.
func (c *isotope) small() bool {
	if n := len(c.graph.Services); n > maxServices {
		c.doc.Report("services", fmt.Sprintf("%d services, more than %d", n, maxServices), "")
		return false
	}
	n := 0
	for _, s := range c.graph.Services {
		script := s.Script
		if script == nil {
			script = c.graph.Defaults.Script
		}
		for _, step := range script {
			if list, ok := step.([]any); ok {
				n += len(list)
			} else {
				n++
			}
			if n > maxCommands {
				c.doc.Report("services", fmt.Sprintf("more than %d commands in all", maxCommands), smallerHint)
				return false
			}
		}
	}
	return true
}

// isotopeGraph is the file as isotope's code reads it.
type isotopeGraph struct {
	APIVersion string           `yaml:"apiVersion"`
	Kind       string           `yaml:"kind"`
	Defaults   isotopeDefaults  `yaml:"defaults"`
	Services   []isotopeService `yaml:"services"`
}

type isotopeDefaults struct {
	Type         string         `yaml:"type"`
	ErrorRate    isotopePercent `yaml:"errorRate"`
	ResponseSize isotopeSize    `yaml:"responseSize"`
	RequestSize  isotopeSize    `yaml:"requestSize"`
	Script       []any          `yaml:"script"`
	NumReplicas  int            `yaml:"numReplicas"`
	NumRBAC      int            `yaml:"numRbacPolicies"`
}

type isotopeService struct {
	Name         string            `yaml:"name"`
	Namespace    string            `yaml:"namespace"`
	Cluster      string            `yaml:"cluster"`
	Type         string            `yaml:"type"`
	NumReplicas  *int              `yaml:"numReplicas"`
	IsEntrypoint bool              `yaml:"isEntrypoint"`
	ErrorRate    *isotopePercent   `yaml:"errorRate"`
	ResponseSize *isotopeSize      `yaml:"responseSize"`
	Script       []any             `yaml:"script"`
	Labels       map[string]string `yaml:"labels"`
	NumRBAC      int               `yaml:"numRbacPolicies"`
}

// isotopePercent is a share, "5%" or 0.05.
type isotopePercent float64

func (isotopePercent) Wants() string { return "a share such as 5% or 0.05" }

func (p *isotopePercent) UnmarshalScalar(text string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	f, err := strict.Number(number)
	if percent {
		f /= 100
	}
	if err != nil || f < 0 || f > 1 {
		return fmt.Errorf("found %.40q, expected %s", text, p.Wants())
	}
	*p = isotopePercent(f)
	return nil
}

// isotopeSize is a number of bytes in the words of Docker's units, where KB and
// KiB alike are 1024.
type isotopeSize int64

func (isotopeSize) Wants() string { return "a size such as 128, 1k, 1 KB or 1KiB" }

func (s *isotopeSize) UnmarshalScalar(text string) error {
	wrong := fmt.Errorf("found %.40q, expected %s", text, s.Wants())
	number := strings.TrimRight(strings.ToLower(strings.TrimSpace(text)), "bi")
	scale := 1.0
	if i := strings.IndexByte("kmgt", last(number)); i >= 0 {
		number, scale = number[:len(number)-1], math.Pow(1024, float64(i+1))
	}
	f, err := strict.Number(strings.TrimSpace(number))
	if err != nil || f < 0 || f*scale > MaxSize {
		return wrong
	}
	*s = isotopeSize(f * scale)
	return nil
}

func last(s string) byte {
	if s == "" {
		return 0
	}
	return s[len(s)-1]
}

// isotope converts one graph.
type isotope struct {
	doc   *strict.Document
	graph isotopeGraph
	notes []string
	from  map[string]string // the path of a call in the topology -> of its command in the file
}

// isotopeReporter says of mistakes in a topology where they stand in isotope's file.
type isotopeReporter struct {
	*strict.Document
	from map[string]string
}

// Report implements [Reporter].
func (r isotopeReporter) Report(path, message, hint string) {
	r.Document.Report(r.path(path), message, hint)
}

// Sound implements [Reporter].
func (r isotopeReporter) Sound(path string) bool { return r.Document.Sound(r.path(path)) }

func (r isotopeReporter) path(path string) string {
	call, field, _ := strings.Cut(path, "].")
	if at, rest, inCall := strings.Cut(field, "]"); inCall {
		if command, ok := r.from[call+"]."+at+"]"]; ok {
			return command + isotopeFields[rest]
		}
	}
	return path
}

// isotopeFields are the fields of a call, as they are called in isotope's file.
var isotopeFields = map[string]string{".service": ".call", ".headers": ".call.extra-header", ".wait": ".sleep"}

// report adds a mistake where none is known yet.
func (c *isotope) report(path, message, hint string) {
	if c.doc.Sound(path) {
		c.doc.Report(path, message, hint)
	}
}

func (c *isotope) topology(file string) Topology {
	name := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(file[strings.LastIndexAny(file, `/\`)+1:], ".yaml"), ".yml"))
	t := Topology{Name: name, Description: "imported from isotope"}
	if !IsLabel(name) {
		t.Name = "isotope"
	}
	if c.graph.Defaults.NumRBAC > 0 || slices.ContainsFunc(c.graph.Services, func(s isotopeService) bool { return s.NumRBAC > 0 }) {
		c.note("numRbacPolicies is not read by isotope either, and left out")
	}
	for i, s := range c.graph.Services {
		t.Services = append(t.Services, c.service(fmt.Sprintf("services[%d]", i), s))
		if s.IsEntrypoint && t.Entry == "" {
			t.Entry = s.Name
		} else if s.IsEntrypoint {
			c.note("%s is an entry point as well: the load goes to %s", s.Name, t.Entry)
		}
	}
	return t
}

func (c *isotope) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

var isotopeTypes = map[string]string{"": HTTP1, "http": HTTP1, "grpc": GRPC}

func (c *isotope) service(at string, s isotopeService) Service {
	d := c.graph.Defaults
	kind := s.Type
	if kind == "" {
		kind = d.Type
	}
	protocol, ok := isotopeTypes[strings.ToLower(kind)]
	if !ok {
		c.report(at+".type", fmt.Sprintf("unknown type %.40q", kind), "isotope knows http and grpc")
	}
	out := Service{Name: s.Name, Protocol: protocol, Replicas: max(d.NumReplicas, 1)}
	if s.NumReplicas != nil {
		out.Replicas = *s.NumReplicas
	}
	size, rate, script, scriptAt := d.ResponseSize, d.ErrorRate, d.Script, "defaults.script"
	if s.ResponseSize != nil {
		size = *s.ResponseSize
	}
	if s.ErrorRate != nil {
		rate = *s.ErrorRate
	}
	if s.Script != nil {
		script, scriptAt = s.Script, at+".script"
	}
	out.ResponseSize = FixedSize(int64(size))
	if rate > 0 {
		out.Errors = &Errors{Ratio: float64(rate)}
	}
	for _, x := range []struct{ name, value string }{{"namespace", s.Namespace}, {"cluster", s.Cluster}} {
		if x.value != "" {
			c.note("%s: %s %s is left out: services are told apart by their names", s.Name, x.name, x.value)
		}
	}
	for j, step := range script {
		path := fmt.Sprintf("%s[%d]", scriptAt, j)
		_, concurrent := step.([]any)
		for k, call := range c.step(path, step) {
			command := path
			if concurrent {
				command = fmt.Sprintf("%s[%d]", path, k)
			}
			c.from[fmt.Sprintf("%s.calls[%d]", at, len(out.Calls))] = command
			out.Calls = append(out.Calls, call)
		}
	}
	if len(out.Calls) > 0 {
		out.FailedCallStatus = 500
	}
	return out
}

// step is a command, or a list of commands that are carried out at the same time.
func (c *isotope) step(at string, step any) []Call {
	list, concurrent := step.([]any)
	if !concurrent {
		list = []any{step}
	}
	var calls []Call
	for i, command := range list {
		here := at
		if concurrent {
			here = fmt.Sprintf("%s[%d]", at, i)
		}
		if _, nested := command.([]any); nested {
			c.report(here, "found a list in a list of commands that are concurrent already", "isotope knows one level")
			return nil
		}
		call, ok := c.command(here, command)
		if !ok {
			return nil
		}
		call.Alongside = len(calls) > 0
		calls = append(calls, call)
	}
	return calls
}

func (c *isotope) command(at string, command any) (Call, bool) {
	m, ok := command.(map[string]any)
	if !ok || len(m) != 1 {
		c.report(at, "found no command", "write {sleep: 10ms} or {call: service}")
		return Call{}, false
	}
	for name, value := range m {
		switch name {
		case "sleep":
			return c.sleep(at+".sleep", value)
		case "call":
			return c.call(at+".call", value)
		default:
			c.report(at, fmt.Sprintf("unknown command %.40q", name), strict.DidYouMean(name, []string{"sleep", "call"}))
		}
	}
	return Call{}, false
}

func (c *isotope) sleep(at string, value any) (Call, bool) {
	d, err := time.ParseDuration(fmt.Sprint(value))
	if err != nil || d < 0 || d > MaxTime {
		c.report(at, fmt.Sprintf("found %.40q, expected a time of at most %v such as 10ms", fmt.Sprint(value), MaxTime), "")
		return Call{}, false
	}
	return Call{CallOptions: CallOptions{Wait: FixedTime(d)}}, true
}

// isotopeCall is a call written out.
type isotopeCall struct {
	Service     string            `yaml:"service"`
	Hostname    string            `yaml:"hostname"`
	ExtraHeader map[string]string `yaml:"extra-header"`
	Size        any               `yaml:"size"`
	Probability int               `yaml:"probability"`
}

func (c *isotope) call(at string, value any) (Call, bool) {
	size := c.graph.Defaults.RequestSize
	if name, ok := value.(string); ok {
		return Call{Service: name, CallOptions: CallOptions{RequestSize: FixedSize(int64(size))}}, true
	}
	var in isotopeCall
	b, err := yaml.Marshal(value)
	if err == nil {
		var inner *strict.Document
		if inner, err = strict.Parse("call", b); err == nil {
			inner.Decode(&in)
			err = inner.Err()
		}
	}
	if err != nil {
		c.report(at, "found no call: "+firstLine(err), "write {service: b, size: 1KB, probability: 50}")
		return Call{}, false
	}
	if in.Size != nil {
		if err := size.UnmarshalScalar(fmt.Sprint(in.Size)); err != nil {
			c.report(at, "size: "+err.Error(), "")
			return Call{}, false
		}
	}
	if in.Hostname != "" {
		c.note("the host name %s of a call to %s is left out: calls go where the platform says", in.Hostname, in.Service)
	}
	out := Call{Service: in.Service, CallOptions: CallOptions{RequestSize: FixedSize(int64(size)), Headers: in.ExtraHeader}}
	switch {
	case in.Probability < 0 || in.Probability > 100:
		c.report(at, "probability "+strconv.Itoa(in.Probability)+" is not from 0 to 100", "it is a percentage; 0 is always")
	case in.Probability > 0:
		p := float64(in.Probability) / 100
		out.Probability = &p
	}
	return out, true
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// YAML renders the topology as a file that [Load] reads.
func (t Topology) YAML() ([]byte, error) {
	b, err := yaml.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("render topology %s: %w", t.Name, err)
	}
	return b, nil
}
