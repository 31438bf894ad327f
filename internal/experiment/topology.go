package experiment

import (
	"errors"
	"reflect"
	"slices"

	"github.com/tare-mesh/tare/internal/base/jsonschema"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// Topologies returns the applications under test: one for each level of the factor, or the only one without it.
func (e *Experiment) Topologies() ([]app.Topology, error) {
	names := e.applications()
	if len(names) == 0 {
		names = []string{""}
	}
	var all []app.Topology
	var failed []error
	for _, name := range names {
		t, err := e.TopologyOf(Levels{Application: name})
		all = append(all, t)
		failed = append(failed, err)
	}
	return all, errors.Join(failed...)
}

// TopologyOf returns the application under test of a treatment, complete. It cannot fail for a valid experiment.
func (e *Experiment) TopologyOf(l Levels) (app.Topology, error) {
	if v, entry := e.Applications[l.Application]; entry && v.Topology != "" {
		return v.topology(l.Application)
	} else if entry && e.foreign() {
		t, err := e.Topology()
		t.Changes = e.ApplicationVariant(l.Application).ObjectChanges
		return t, err
	} else if entry {
		return ownTopology(l.Application, e.ApplicationVariant(l.Application).Own), nil
	}
	if l.Application != "" {
		return app.Load(l.Application)
	}
	return e.Topology()
}

// Topology returns the experiment's application if it is not a factor.
func (e *Experiment) Topology() (app.Topology, error) {
	if len(e.Application.Services) == 0 && !e.Application.IsOwn() && !e.Application.Source.IsSet() {
		t, err := app.Load(e.Application.Topology)
		if err == nil && e.Application.Entry != "" {
			t.Entry = e.Application.Entry
		}
		return t, err
	}
	return e.inline().Default(), nil
}

// foreign reports whether others' objects run the services.
func (e *Experiment) foreign() bool {
	return e.Application.Chart != nil || e.Application.Source.IsSet()
}

func (e *Experiment) applications() []string { return LevelsOf[string](e.Factors, ApplicationFactor) }

func (e *Experiment) meshes() []string { return LevelsOf[string](e.Factors, "mesh") }

// protocols lists the levels of the factor protocol, or its default.
func (e *Experiment) protocols() []string {
	return levelsOr(e, "protocol", DefaultLevels().Protocol)
}

// otherGenerator returns a load generator of the experiment that is not tare's own, or "".
func otherGenerator(e *Experiment) string {
	for _, name := range append(LevelsOf[string](e.Factors, "generator"), e.Load.Generator) {
		if name != "tare" {
			return name
		}
	}
	return ""
}

// exchanges reports whether a program that receives the load has its request.
func exchanges(e *Experiment) bool {
	all, _ := e.Topologies() // errors are reported elsewhere
	return slices.ContainsFunc(all, func(t app.Topology) bool {
		entry, ok := t.Service(t.EntryName())
		return ok && entry.Exchange.Send != ""
	})
}

func serviceRows(names Names) []fieldRow {
	const service, call = "application.services[].", "application.services[].calls[]."
	return slices.Concat([]fieldRow{
		{service + "name", "DNS label.", nil, form(label{}.describe)},
		{service + "replicas", "Replicas; 0: the factor replicas.", 0, serviceLimit("replicas")},
		{service + "protocol", "Protocol it speaks; default: the factor protocol.", nil, enum(app.Protocols()...)},
		{service + "port", "Port of its Service, in a chart, manifests or a namespace; default: found, or chart.port.", 0, limits(0, 65535)},
		{service + "command", "One's own program with its arguments, on this machine. ${port}, ${host} and, of a service in calls, ${api.url}, ${api.host} and ${api.port} are addresses.", nil, nil},
		{service + "url", "Address of a running program, instead of a command: http://127.0.0.1:8080.", nil, nil},
		{service + "env", "Environment variables of the command. It also has PORT and, of a service api in calls, API_URL, API_HOST and API_PORT.", nil, nil},
		{service + "dir", "Working directory of the command; default: the directory of the file.", nil, nil},
		{service + "ready", "Path that is answered with 2xx or 3xx once the program serves; default: any answer at /.", nil, nil},
	}, besideRows(service), []fieldRow{
		{service + "responseSize", "Bytes of the answer: a size, or a distribution such as uniform(1KiB, 4KiB); default: the factor responseSize.", nil, nil},
		{service + "status", "Status of every answer.", 200, serviceLimit("status")},
		{service + "time", "Wait before the answer: a time, or a distribution such as lognormal(10ms, 0.5).", nil, nil},
		{service + "delay", "Additional wait.", nil, nil},
		{service + "cpu", "CPU time to burn for each request, at most 10s.", nil, nil},
		{service + "memory", "Memory to hold.", nil, nil},
		{service + "errors", "Deliberate failures.", nil, nil},
		{service + "errors.ratio", "Share of answers.", nil, serviceLimit("errors.ratio")},
		{service + "errors.status", "Status of these answers.", 500, serviceLimit("errors.status")},
		{service + "rateLimit", "Served requests per second, others get 429; 0: no limit.", 0, serviceLimit("rateLimit")},
		{service + "failedCallStatus", "Status after a failed call.", 502, serviceLimit("failedCallStatus")},
		{service + "redirects", "Paths answered with 301, and their targets.", nil, nil},
		{service + "calls", "Calls before the answer, in order.", nil, nil},
		{call + "service", "Service that is called; left out: a step that only waits.", nil, nil},
		{call + "protocol", "Protocol of the call; left out: the callee's.", nil, enum(app.HTTP1, app.HTTP2, app.GRPC)},
		{call + "path", "Path asked for over HTTP.", "/", form(func(s *jsonschema.Schema) { s.Pattern = "^/" })},
		{call + "alongside", "Runs in parallel with the call before.", false, nil},
		{call + "wait", "Wait before the call: a time or distribution.", nil, nil},
		{call + "probability", "Probability of the call.", 1, serviceLimit("probability")},
		{call + "requestSize", "Bytes of the body: a size or distribution.", nil, nil},
		{call + "headers", "Additional headers; trace headers are forwarded anyway.", nil, nil},
		{call + "timeout", "Timeout of an attempt; 0: none.", 0, nil},
		{call + "retries", "Retries of a failed call.", 0, serviceLimit("retries")},
		{call + "newConnection", "Opens a connection for each call.", false, nil},
		{call + "followRedirects", "Follows redirects; otherwise a redirect is a failed call.", false, nil},
	})
}

// spreadSchema is the form of a distribution.
func spreadSchema(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[app.Times]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: spreadPattern(timeForm)}, {Type: "integer", Enum: []any{0}}}}
	case reflect.TypeFor[app.Sizes]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "string", Pattern: spreadPattern(sizeForm)}, {Type: "integer", Minimum: "0", Maximum: num(app.MaxSize)}}}
	}
	return nil
}

// serviceLimit describes the bounds that package app checks.
func serviceLimit(field string) form {
	l := app.Limits[field]
	return func(s *jsonschema.Schema) {
		if l.OrZero {
			s.AnyOf = []*jsonschema.Schema{{Type: "integer", Minimum: num(l.Low), Maximum: num(l.High)}, {Type: "integer", Enum: []any{0}}}
			s.Type = ""
			return
		}
		s.Minimum, s.Maximum = num(l.Low), num(l.High)
	}
}

// The forms in which times, sizes and their distributions are written.
const (
	timeForm = `[+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+|0`
	sizeForm = `[0-9]+(\.[0-9]+)? ?(B|kB|KB|MB|GB|KiB|MiB|GiB)?`
)

// spreadPattern is the form of a distribution over quantities of a form.
func spreadPattern(quantity string) string {
	q := ` *(` + quantity + `) *`
	weighed := q + `(: *[0-9.eE+-]+ *)?`
	return `^(` + quantity + `|uniform\(` + q + `,` + q + `\)|exponential\(` + q + `\)|lognormal\(` + q + `, *[0-9.eE+-]+ *\)|buckets\(` +
		weighed + `(,` + weighed + `)*\))$`
}
