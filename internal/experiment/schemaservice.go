package experiment

import (
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// describeServices has a line for every field of a service and of a call.
func describeServices() []description {
	status := func(s *jsonschema.Schema) { s.AnyOf = statuses; s.Type = "" }
	probability := func(s *jsonschema.Schema) { between(0, 1)(s) }
	const service, call = "application.services[].", "application.services[].calls[]."
	return []description{
		{service + "name", "Name of the service, a DNS label.", nil, label},
		{service + "replicas", "Replicas of this service; 0: as many as the factor replicas says.", 0, between(0, maxReplicas)},
		{service + "program", "What plays it; left out: the service that can be anything; adder: the server of the sidecar study, with its sidecar.", nil, oneOf(app.Adder)},
		{service + "protocol", "Protocol it speaks; left out: as the factor protocol says.", nil, oneOf(app.Protocols()...)},
		{service + "responseSize", "Bytes of this service's answers: a size, or a distribution such as uniform(1KiB, 4KiB); left out: as the factor responseSize says.", nil, nil},
		{service + "status", "Status of every answer.", 200, status},
		{service + "time", "Waited before a request is answered: a time, or a distribution such as lognormal(10ms, 0.5).", nil, nil},
		{service + "delay", "Waited on top of time.", nil, nil},
		{service + "cpu", "Processor time to burn for each request; at most 10s.", nil, nil},
		{service + "memory", "Memory to hold.", nil, nil},
		{service + "errors", "Answers that fail on purpose.", nil, nil},
		{service + "errors.ratio", "Share of the answers.", nil, ratio},
		{service + "errors.status", "Status of those answers.", 500, status},
		{service + "rateLimit", "Requests a second that are served, the others are answered with 429; 0: no limit.", 0, between(0, 1e7)},
		{service + "failedCallStatus", "Status of the answer when a call has failed.", 502, status},
		{service + "redirects", "Paths that are answered with 301, and where they lead.", nil, nil},
		{service + "calls", "Calls made one after another before the service answers.", nil, nil},
		{call + "service", "Service that is called; left out: a step that only waits.", nil, nil},
		{call + "protocol", "Protocol of the call; left out: the callee's.", nil, oneOf(app.HTTP1, app.HTTP2, app.GRPC)},
		{call + "path", "Path asked for over HTTP.", "/", func(s *jsonschema.Schema) { s.Pattern = "^/" }},
		{call + "alongside", "Makes the call at the same time as the one before it.", false, nil},
		{call + "wait", "Waited before the call: a time, or a distribution of times.", nil, nil},
		{call + "probability", "Probability that the call is made.", 1, probability},
		{call + "requestSize", "Bytes of the request's body: a size, or a distribution of sizes.", nil, nil},
		{call + "headers", "Headers added to the request; trace headers are passed on besides.", nil, nil},
		{call + "timeout", "Of one attempt; 0: none.", 0, nil},
		{call + "retries", "How often a call that failed is made again.", 0, between(0, 100)},
		{call + "newConnection", "Opens a connection for every call and closes it after.", false, nil},
		{call + "followRedirects", "Follows redirects; otherwise a redirect is a failed call.", false, nil},
	}
}

var statuses = []*jsonschema.Schema{
	{Type: "integer", Minimum: "200", Maximum: "599"},
	{Type: "integer", Enum: []any{0}},
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
