package experiment

import (
	"regexp"
	"time"

	"github.com/tare-mesh/tare/internal/base/jsonschema"
	"github.com/tare-mesh/tare/internal/load"
)

func loadRows(names Names) []fieldRow {
	d := defaults()
	text := func(pattern string) form { return func(s *jsonschema.Schema) { s.Pattern = pattern } }
	times := between(0, float64(maxTimes), "a multiple of the rate: 2 is twice the rate")
	const request = "load.requests[]."
	return []fieldRow{
		{"load", "How requests are sent.", nil, nil},
		{"load.generator", "Load generator, if it is no factor.", d.Load.Generator, oneOf("generator", names.Generators...)},
		{"load.from", "Origin of the load, on kubernetes. inside: load workers in pods; outside: this machine, through platform.expose.", nil, oneOf("origin of the load", loadFrom...)},
		{"load.entry", "Target of the load, on kubernetes. service: the entry's Service; gateway: the mesh's ingress gateway.", nil, oneOf("entry of the load", entries...)},
		{"load.arrivals", "Arrivals of an open loop.", d.Load.Arrivals, oneOf("distribution of arrivals", load.Constant, load.Poisson, load.Uniform)},
		{"load.timeout", "Timeout of a request from its send, at most 60s.", d.Load.Timeout.String(), between(Duration(time.Millisecond), maxTimeout, "")},
		{"load.workers", "Threads of the load generator.", d.Load.Workers, between(1, load.MaxWorkers, "one worker sends tens of thousands of requests per second")},
		{"load.checks", "Conditions for a successful answer. Only the generator tare checks them.", nil, nil},
		{"load.checks.status", "Successful statuses: codes, classes, grpc-0 to grpc-16; default: 2xx and grpc-0.", nil, form(func(s *jsonschema.Schema) { levelList(s); statusItems(s.Items) })},
		{"load.checks.bodyHas", "Texts that the first MiB of every body must contain.", nil, form(levelList)},
		{"load.checks.bodyLacks", "Texts that no body may contain.", nil, form(levelList)},
		{"load.checks.jsonHas", "Fields that every body, JSON of at most 16 MiB, must have: errors, or data.errors. null, [] and {} count as absent.", nil, form(levelList)},
		{"load.checks.jsonLacks", "Fields that no body may have.", nil, form(levelList)},
		{"load.profile", "Change of the rate in the measure phase, repeated until the load ends. The warm-up has the mean rate.", nil, nil},
		{"load.profile.steps", "Steps and ramps, in multiples of the rate.", nil, form(levelList)},
		{"load.profile.steps[].for", "Length of the step.", nil, required{between(minStep, maxPhase, "")}},
		{"load.profile.steps[].at", "Multiple of the rate: 2 is twice the rate, 0 a pause.", nil, times},
		{"load.profile.steps[].from", "Multiple at the start of a ramp.", nil, times},
		{"load.profile.steps[].to", "Multiple at its end.", nil, times},
		{"load.targets", "File of requests, which become load.requests: vegeta's targets, or JSON lines. Relative to the experiment file.", nil, nil},
		{"load.stream", "Messages of answers that stream. Events of text/event-stream, lines of newline-delimited JSON and messages of gRPC are recognised. chunks: each chunk of HTTP/1.1, or DATA frame of HTTP/2. Only the generator tare has their times.", nil, oneOf("stream", load.StreamChunks)},
		{"load.webSocket", "Messages of protocol websocket. Each is a request.", nil, nil},
		{"load.webSocket.answer", "Answer to a message. echo: the same message; message: any; pong: that of a ping after it, for streams to a server.", load.AnswerEcho, oneOf("answer", load.AnswerEcho, load.AnswerMessage, load.AnswerPong)},
		{"load.webSocket.messages", "Messages that answer one, with answer message: a stream from the server.", 1, between(1, load.MaxSocketMessages, "")},
		{"load.webSocket.message", "The message as text, or base64: and the encoded bytes; default: factors.requestSize bytes.", nil, nil},
		{"load.headers", "Headers of every request, such as Host, with the placeholders of load.requests[].headers, whose headers replace them. Without a Host, requests on this machine have that of the application's url, or localhost, in every treatment.", nil, nil},
		{"load.requests", "Requests in place of one to /, in proportion to their weights. Figures of each are in the record and the report. Only the generator tare sends them.", nil, form(levelList)},
		{request + "name", "Name of its figures; requests of one name share them. Default: method and path.", nil, nil},
		{request + "method", "Method; default: GET, or POST with a body.", nil, pattern{"a method", "write it in capital letters: GET", regexp.MustCompile(`^[A-Z][A-Z_-]*$`)}},
		{request + "path", "Path at the entry, with query. The host is the entry's, or the header Host.", "/", text("^/")},
		{request + "grpc", "gRPC method package.Service/Method, in place of method and path.", nil, pattern{"a gRPC method", "write package.Service/Method", regexp.MustCompile(`^/?[A-Za-z_][A-Za-z0-9_.]*/[A-Za-z_][A-Za-z0-9_]*$`)}},
		{request + "headers", "Headers. ${env:NAME} and ${file:PATH} are read when the run starts. Files of the run have (secret) in place of values of 6 characters or more. A value that is a word of results, such as a treatment, is refused. After kill -9, logs have the value until the run is resumed.", nil, nil},
		{request + "body", "Body as text, or base64: and the encoded bytes. Of gRPC: the encoded message.", nil, nil},
		{request + "bodyFile", "File with the body, at most 1 MiB, relative to the experiment file. It is copied into the recorded experiment.", nil, nil},
		{request + "stream", "Side of a gRPC method that sends several messages; both: each message follows the answer to the one before. Such a request is the only one.", nil, oneOf("stream", streams...)},
		{request + "messages", "Encoded messages of the client's stream.", nil, nil},
		{request + "weight", "Share of the request: weight over the sum of all.", 1, between(1, load.MaxWeight, "the share of a request is its weight over the sum of all")},
	}
}

// statusItems allows a number as well as text.
func statusItems(s *jsonschema.Schema) {
	s.Type = ""
	s.AnyOf = []*jsonschema.Schema{{Type: "integer", Minimum: "100", Maximum: "999"}, {Type: "string", Pattern: load.StatusForm}}
}
