// Package isotope converts service graphs of Istio's isotope into topologies.
package isotope

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// Convert converts a service graph to a topology. It reads the fields that
// isotope's code reads, which differ from isotope's README: "size" of a call and
// "defaults". Isotope does not read numRbacPolicies. As in isotope, a failed call
// makes the response a 500. The notes list what a topology cannot express.
// The error is a [strict.Problems].
func Convert(file string, data []byte) (t app.Topology, notes []string, err error) {
	doc, err := strict.Parse(file, data)
	if err != nil {
		return t, nil, err
	}
	var g graph
	doc.Decode(&g)
	c := converter{doc: doc, graph: g, from: map[string]string{}}
	if c.small() {
		t = c.topology(file)
	}
	if doc.Err() == nil {
		t.Validate(reporter{doc, c.from}, "")
	}
	if err := doc.Err(); err != nil {
		return app.Topology{}, nil, err
	}
	text, err := t.YAML()
	if err == nil && len(text) > strict.MaxBytes {
		doc.Report("services", fmt.Sprintf("the topology has %d bytes, max %d", len(text), strict.MaxBytes), smallerHint)
		err = doc.Err()
	}
	if err != nil {
		return app.Topology{}, nil, err
	}
	return t.Default(), c.notes, nil
}

// maxCommands is the max number of commands of a graph. The default script
// counts once per service without a script, so a small file can have billions.
const maxCommands = 20_000

const smallerHint = "add script: [] to the services without calls"

// small returns false for a graph that is too large, and reports it.
func (c *converter) small() bool {
	if n := len(c.graph.Services); n > app.MaxServices {
		c.doc.Report("services", fmt.Sprintf("%d services, max %d", n, app.MaxServices), "")
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
				c.doc.Report("services", fmt.Sprintf("more than %d commands in total", maxCommands), smallerHint)
				return false
			}
		}
	}
	return true
}

// graph is an isotope file.
type graph struct {
	APIVersion string    `yaml:"apiVersion"`
	Kind       string    `yaml:"kind"`
	Defaults   defaults  `yaml:"defaults"`
	Services   []service `yaml:"services"`
}

type defaults struct {
	Type         string  `yaml:"type"`
	ErrorRate    percent `yaml:"errorRate"`
	ResponseSize size    `yaml:"responseSize"`
	RequestSize  size    `yaml:"requestSize"`
	Script       []any   `yaml:"script"`
	NumReplicas  int     `yaml:"numReplicas"`
	NumRBAC      int     `yaml:"numRbacPolicies"`
}

type service struct {
	Name         string            `yaml:"name"`
	Namespace    string            `yaml:"namespace"`
	Cluster      string            `yaml:"cluster"`
	Type         string            `yaml:"type"`
	NumReplicas  *int              `yaml:"numReplicas"`
	IsEntrypoint bool              `yaml:"isEntrypoint"`
	ErrorRate    *percent          `yaml:"errorRate"`
	ResponseSize *size             `yaml:"responseSize"`
	Script       []any             `yaml:"script"`
	Labels       map[string]string `yaml:"labels"`
	NumRBAC      int               `yaml:"numRbacPolicies"`
}

// percent is a share, "5%" or 0.05.
type percent float64

func (percent) Wants() string { return "a share such as 5% or 0.05" }

func (p *percent) UnmarshalScalar(text string) error {
	number, hasSign := strings.CutSuffix(strings.TrimSpace(text), "%")
	f, err := strict.Number(number)
	if hasSign {
		f /= 100
	}
	if err != nil || f < 0 || f > 1 {
		return fmt.Errorf("found %.40q, expected %s", text, p.Wants())
	}
	*p = percent(f)
	return nil
}

// size is a number of bytes in Docker's units: both KB and KiB are 1024.
type size int64

func (size) Wants() string { return "a size such as 128, 1k, 1 KB or 1KiB" }

func (s *size) UnmarshalScalar(text string) error {
	wrong := fmt.Errorf("found %.40q, expected %s", text, s.Wants())
	number := strings.TrimRight(strings.ToLower(strings.TrimSpace(text)), "bi")
	scale := 1.0
	if i := strings.IndexByte("kmgt", last(number)); i >= 0 {
		number, scale = number[:len(number)-1], math.Pow(1024, float64(i+1))
	}
	f, err := strict.Number(strings.TrimSpace(number))
	if err != nil || f < 0 || f*scale > app.MaxSize {
		return wrong
	}
	*s = size(f * scale)
	return nil
}

func last(s string) byte {
	if s == "" {
		return 0
	}
	return s[len(s)-1]
}

// fields maps the fields of a call to their names in isotope's file.
var fields = map[string]string{".service": ".call", ".headers": ".call.extra-header", ".wait": ".sleep"}

func (c *converter) topology(file string) app.Topology {
	name := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(file[strings.LastIndexAny(file, `/\`)+1:], ".yaml"), ".yml"))
	t := app.Topology{Name: name, Description: "imported from isotope"}
	if !app.IsLabel(name) {
		t.Name = "isotope"
	}
	if c.graph.Defaults.NumRBAC > 0 || slices.ContainsFunc(c.graph.Services, func(s service) bool { return s.NumRBAC > 0 }) {
		c.note("numRbacPolicies is dropped: isotope does not read it")
	}
	for i, s := range c.graph.Services {
		t.Services = append(t.Services, c.service(fmt.Sprintf("services[%d]", i), s))
		if s.IsEntrypoint && t.Entry == "" {
			t.Entry = s.Name
		} else if s.IsEntrypoint {
			c.note("%s is a second entry point: the load goes to %s", s.Name, t.Entry)
		}
	}
	return t
}

var types = map[string]string{"": app.HTTP1, "http": app.HTTP1, "grpc": app.GRPC}

func (c *converter) service(at string, s service) app.Service {
	d := c.graph.Defaults
	kind := cmp.Or(s.Type, d.Type)
	protocol, ok := types[strings.ToLower(kind)]
	if !ok {
		c.report(at+".type", fmt.Sprintf("unknown type %.40q", kind), "isotope supports http and grpc")
	}
	out := app.Service{Name: s.Name, Protocol: protocol, Replicas: max(d.NumReplicas, 1)}
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
	out.ResponseSize = app.FixedSize(int64(size))
	if rate > 0 {
		out.Errors = &app.Errors{Ratio: float64(rate)}
	}
	for _, x := range []struct{ name, value string }{{"namespace", s.Namespace}, {"cluster", s.Cluster}} {
		if x.value != "" {
			c.note("%s: %s %s is dropped: services are identified by name", s.Name, x.name, x.value)
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

// step is a command, or a list of concurrent commands.
func (c *converter) step(at string, step any) []app.Call {
	list, concurrent := step.([]any)
	if !concurrent {
		list = []any{step}
	}
	var calls []app.Call
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

func (c *converter) command(at string, command any) (app.Call, bool) {
	m, ok := command.(map[string]any)
	if !ok || len(m) != 1 {
		c.report(at, "found no command", "write {sleep: 10ms} or {call: service}")
		return app.Call{}, false
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
	return app.Call{}, false
}

func (c *converter) sleep(at string, value any) (app.Call, bool) {
	d, err := time.ParseDuration(fmt.Sprint(value))
	if err != nil || d < 0 || d > app.MaxTime {
		c.report(at, fmt.Sprintf("found %.40q, expected a duration such as 10ms, max %v", fmt.Sprint(value), app.MaxTime), "")
		return app.Call{}, false
	}
	return app.Call{CallOptions: app.CallOptions{Wait: app.FixedTime(d)}}, true
}

// graphCall is a call in long form.
type graphCall struct {
	Service     string            `yaml:"service"`
	Hostname    string            `yaml:"hostname"`
	ExtraHeader map[string]string `yaml:"extra-header"`
	Size        any               `yaml:"size"`
	Probability int               `yaml:"probability"`
}

func (c *converter) call(at string, value any) (app.Call, bool) {
	size := c.graph.Defaults.RequestSize
	if name, ok := value.(string); ok {
		return app.Call{Service: name, CallOptions: app.CallOptions{RequestSize: app.FixedSize(int64(size))}}, true
	}
	var in graphCall
	b, err := yaml.Marshal(value)
	if err == nil {
		var inner *strict.Document
		if inner, err = strict.Parse("call", b); err == nil {
			inner.Decode(&in)
			err = inner.Err()
		}
	}
	if err != nil {
		c.report(at, "not a call: "+firstLine(err), "write {service: b, size: 1KB, probability: 50}")
		return app.Call{}, false
	}
	if in.Size != nil {
		if err := size.UnmarshalScalar(fmt.Sprint(in.Size)); err != nil {
			c.report(at, "size: "+err.Error(), "")
			return app.Call{}, false
		}
	}
	if in.Hostname != "" {
		c.note("the host name %s of a call to %s is dropped: the platform chooses the address", in.Hostname, in.Service)
	}
	out := app.Call{Service: in.Service, CallOptions: app.CallOptions{RequestSize: app.FixedSize(int64(size)), Headers: in.ExtraHeader}}
	switch {
	case in.Probability < 0 || in.Probability > 100:
		c.report(at, "probability "+strconv.Itoa(in.Probability)+" is not from 0 to 100", "it is a percentage; 0 is always")
	case in.Probability > 0:
		p := float64(in.Probability) / 100
		out.Probability = &p
	}
	return out, true
}

func (c *converter) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// report adds a mistake, unless the same field has one already.
func (c *converter) report(path, message, hint string) {
	if c.doc.Sound(path) {
		c.doc.Report(path, message, hint)
	}
}

// isotope converts one graph.
type converter struct {
	doc   *strict.Document
	graph graph
	notes []string
	from  map[string]string // topology path of a call -> path of its command in the file
}

// reporter maps mistakes in a topology to their positions in isotope's file.
type reporter struct {
	*strict.Document
	from map[string]string
}

// Report implements [app.Reporter].
func (r reporter) Report(path, message, hint string) {
	r.Document.Report(r.path(path), message, hint)
}

// Sound implements [app.Reporter].
func (r reporter) Sound(path string) bool { return r.Document.Sound(r.path(path)) }

func (r reporter) path(path string) string {
	call, field, _ := strings.Cut(path, "].")
	if at, rest, inCall := strings.Cut(field, "]"); inCall {
		if command, ok := r.from[call+"]."+at+"]"]; ok {
			return command + fields[rest]
		}
	}
	return path
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
