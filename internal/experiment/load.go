package experiment

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/jsonschema"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/regular"
	redact "github.com/tare-mesh/tare/internal/base/secret"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
)

type loadRules struct{ validation }

func (v loadRules) validate() {
	v.gateway()
	v.requests()
	v.profiles()
	v.spread()
	v.webSocket()
	v.profile()
	v.workers()
}

func (v loadRules) workers() {
	l := v.e.Load
	if !v.doc.Sound("load.workers") {
		return
	}
	connections := LevelsOf[int](v.e.Factors, "connections")
	for i, c := range connections {
		if c >= 1 && c < l.Workers {
			v.report(fmt.Sprintf("factors.connections[%d]", i), "every worker needs a connection of its own",
				"%d is fewer than the %d workers of the load generator", c, l.Workers)
		}
	}
	if c := DefaultLevels().Connections; len(connections) == 0 && c < l.Workers {
		v.report("load.workers", "write more in factors.connections", "%d is more than the %d connections", l.Workers, c)
	}
}

// profilePaths are the fields of the file with the fields of a profile, by its names.
var profilePaths = map[string]string{
	"headers": "load.headers", "expectStatus": "load.checks.status", "bodyHas": "load.checks.bodyHas", "bodyLacks": "load.checks.bodyLacks", "jsonHas": "load.checks.jsonHas",
	"jsonLacks": "load.checks.jsonLacks", "checks": "load.checks", "calls": "load.requests", "webSocket.messages": "load.webSocket.messages",
}

// profiles reports what the rules of every load find, with each protocol and each rate of new connections.
func (v loadRules) profiles() {
	l, c := v.e.Load, v.e.Load.Checks
	p := load.Profile{Targets: []string{"http://entry/package.Service/Method"}, Measure: time.Second, ExpectSize: -1, ExpectStatus: lists.Map(c.Status, func(s Status) string { return string(s) }),
		BodyHas: c.BodyHas, BodyLacks: c.BodyLacks, JSONHas: c.JSONHas, JSONLacks: c.JSONLacks, Calls: make([]load.Call, min(1, len(l.Requests)))}
	for _, name := range sortedKeys(l.Headers) {
		p.Headers = append(p.Headers, name+": "+l.Headers[name])
	}
	for _, p.Protocol = range v.requestProtocols() {
		if p.WebSocket = nil; p.Protocol == app.WebSocket {
			p.WebSocket = &load.WebSocket{Answer: l.WebSocket.Answer, Messages: l.WebSocket.Messages}
		}
		for _, m := range p.Mistakes() {
			field, index, indexed := strings.Cut(m.Field, "[")
			path, help := profilePaths[field], hint.Of(m)
			if indexed {
				path += "[" + index
			}
			if field == "calls" && p.Protocol == app.WebSocket {
				help = "write load.webSocket: {message: TEXT}, and the path in factors.route"
			}
			if path != "" {
				v.report(path, help, "%v", m)
			}
		}
	}
	p.Calls, p.Rate = nil, math.Inf(1)
	for _, r := range levelsOr(v.e, RateFactor, RateLevel{Rate: DefaultLevels().Rate}) {
		p.Rate = min(p.Rate, float64(r.Rate)) // 0 is max
	}
	each(v.validation, "factors."+ConnectionRateFactor, LevelsOf[int](v.e.Factors, ConnectionRateFactor), func(path string, x int) {
		p.ConnectionRate = float64(x)
		for _, p.Protocol = range v.e.protocols() {
			for _, m := range p.Mistakes() {
				if m.Field == "connectionRate" {
					v.report(path, hint.Of(m), "%v", m)
				}
			}
		}
	})
}

// gateway checks that every mesh has an ingress gateway, if the load enters there.
func (v loadRules) gateway() {
	const field = "load.entry"
	if !v.e.Gateway() {
		each(v.validation, "factors.mesh", v.e.meshes(), func(path, name string) {
			if d, ok := v.definition(name); ok && !v.local() && d.OnlyGateway() {
				v.report(path, "write load: {entry: gateway}", "mesh %s is a gateway, and the load does not enter there", name)
			}
		})
	}
	if !v.doc.Has(field) {
		return
	}
	if v.local() {
		v.onClusters(field)
		return
	}
	if !v.e.Gateway() {
		return
	}
	gateways := 0
	each(v.validation, "factors.mesh", v.e.meshes(), func(path, name string) {
		d, ok := v.definition(name)
		if !ok || d.On(mesh.OnKubernetes) != nil {
			return // meshRules reports it
		}
		g, err := d.Ingress()
		if err != nil {
			v.report(path, hint.Of(err), "%v", err)
		}
		if g != nil {
			v.routable(*g, name)
		}
		if g != nil || err != nil {
			gateways++
		}
	})
	if gateways == 0 && v.names.Definitions != nil && v.doc.Sound("factors.mesh") {
		v.report(field, "add a mesh with a gateway to factors.mesh, or remove it", "factors.mesh has no mesh, so there is no gateway")
	}
}

// routable checks that the gateway's routes support the entry's protocol, or every level of the factor.
func (v loadRules) routable(g mesh.Gateway, name string) {
	path, protocols := "factors.protocol", v.e.protocols()
	if own := v.entryProtocol(); own != "" {
		path, protocols = "application", []string{own}
	}
	for i, p := range protocols {
		at := path
		if at == "factors.protocol" {
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		if err := g.Carries(p); err != nil {
			v.report(at, "write load: {entry: service}", "mesh %s: %v", name, err)
		}
	}
}

const (
	maxRequests     = 2000
	maxNames        = 200     // of figures
	MaxRequestBody  = 1 << 20 // bytes
	maxRequestText  = 8 << 10 // of a path or header, bytes
	maxRequestName  = 100
	maxMessages     = 1000
	maxRequestBytes = 8 << 20 // of all bodies
)

func (v loadRules) requests() {
	if v.doc.Has("factors."+RequestSizeFactor) && exchanges(v.e) {
		v.report("factors."+RequestSizeFactor, "remove one of the two", "exchange has the request")
	}
	switch {
	case v.e.Load.Targets == "":
	case v.doc.Has("load.requests"):
		v.report("load.targets", "remove one of the two", "the load has requests and a file of them")
	default:
		v.report("load.targets", "", "a recorded experiment has load.requests")
	}
	v.headers("load.headers", v.e.Load.Headers)
	rs := v.e.Load.Requests
	if len(rs) == 0 {
		if v.doc.Has("load.requests") {
			v.report("load.requests", "remove it: without it the load requests / of the entry", "the list is empty")
		}
		return
	}
	if len(rs) > maxRequests {
		v.report("load.requests", "join similar requests under one weight", "%d requests, max %d", len(rs), maxRequests)
		return
	}
	for _, factor := range []string{"route", "requestSize"} {
		if v.doc.Has("factors." + factor) {
			v.report("factors."+factor, "remove one of the two", "load.requests has paths and bodies")
		}
	}
	var bytes int
	names := map[string]bool{}
	for i := range rs {
		r, path := &rs[i], fmt.Sprintf("load.requests[%d]", i)
		pattern, _, _ := strings.Cut(r.Path, "?")
		names[cmp.Or(r.Name, r.GRPC, r.Method+" "+pattern)] = true
		v.address(path, r)
		v.headers(path+".headers", r.Headers)
		v.body(path, r)
		v.stream(path, r)
		bytes += len(r.Body)
		if len(r.Name) > maxRequestName || strings.ContainsFunc(r.Name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			v.report(path+".name", "", "the name has over %d bytes, or control characters", maxRequestName)
		}
	}
	if len(names) > maxNames {
		v.report("load.requests", "give similar requests one name", "figures of %d different requests, max %d", len(names), maxNames)
	}
	if bytes > maxRequestBytes {
		v.report("load.requests", "", "the bodies have %d bytes, max %d", bytes, maxRequestBytes)
	}
}

// spread checks that each replica of the entry has a connection, unless a sidecar or a Service of a cluster chooses the
// replicas.
func (v loadRules) spread() {
	without := func(name string) bool {
		d, _ := v.definition(name)
		return v.local() && d.Local == nil
	}
	if !slices.ContainsFunc(meshesOf(v.e), without) && len(v.e.Load.Requests) == 0 {
		return
	}
	need := 1
	all, _ := v.e.Topologies() // a mistake is reported elsewhere
	for _, t := range all {
		entry, _ := t.Service(t.EntryName())
		for _, n := range append(LevelsOf[int](v.e.Factors, "replicas"), entry.Replicas) {
			if n <= maxReplicas {
				need = max(need, cmp.Or(entry.Replicas, n))
			}
		}
	}
	for i, c := range levelsOr(v.e, ConnectionsFactor, DefaultLevels().Connections) {
		path := fmt.Sprintf("factors.connections[%d]", i)
		if !v.doc.Has(path) {
			path = "factors.replicas"
		}
		if c >= 1 && c < need {
			v.report(path, "each replica has connections of its own: write more in factors.connections", "fewer connections (%d) than replicas (%d)", c, need)
		}
	}
}

// address checks the method and the path of a request, or the method of gRPC.
func (v loadRules) address(path string, r *Request) {
	grpc, http := false, false
	for _, p := range v.requestProtocols() {
		if !load.Supports(p, "calls") {
			return // reported already
		}
		grpc, http = grpc || p == app.GRPC, http || p != app.GRPC
	}
	if r.GRPC != "" {
		switch {
		case r.Path != "" || r.Method != "":
			v.report(path+".grpc", "remove method and path", "a gRPC method replaces method and path")
		case http:
			v.report(path+".grpc", "write factors: {protocol: [grpc]}", "the protocol is not grpc")
		}
		return
	}
	if grpc {
		v.report(path, "write grpc: package.Service/Method", "a request of protocol grpc needs a method")
	}
	if r.Path == "" {
		return
	}
	u, err := url.ParseRequestURI(r.Path)
	control := strings.ContainsFunc(r.Path, func(c rune) bool { return c <= ' ' || c >= 0x7f })
	switch {
	case err == nil && u.Host != "":
		v.report(path+".path", "write "+clip(u.RequestURI())+"; the host is the entry's, or the header Host", "%q has a host", clip(r.Path))
	case err != nil || control || r.Path[0] != '/' || strings.Contains(r.Path, "#") || len(r.Path) > maxRequestText:
		v.report(path+".path", "write a path such as /items?page=2", "%q is not a path", clip(r.Path))
	}
}

// requestProtocols are the protocols of the entry: its own, or the levels of the factor.
func (v loadRules) requestProtocols() []string {
	if own := v.entryProtocol(); own != "" {
		return []string{own}
	}
	return v.e.protocols()
}

// framing are the headers that depend on the body and the connection.
var framing = []string{"content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "upgrade", "te", "trailer"}

func (v loadRules) headers(path string, headers map[string]string) {
	for _, name := range sortedKeys(headers) {
		value := headers[name]
		switch {
		case !load.IsToken(name):
			v.report(path, "", "%q is not the name of a header", clip(name))
		case slices.Contains(framing, strings.ToLower(name)):
			v.report(path, "remove it", "header %s: tare sets it", name)
		case !load.IsFieldValue(value) || len(value) > maxRequestText:
			v.report(path, "", "the value of header %s has control characters, or over %d bytes", name, maxRequestText)
		}
		if wrong := checkPlaceholders(value); wrong != "" {
			v.report(path, "write ${env:NAME} or ${file:PATH}", "header %s: %s is not a placeholder", name, clip(wrong))
		}
	}
}

// stream checks a stream of gRPC. Its messages count for the whole load, of which it is the only request.
func (v loadRules) stream(path string, r *Request) {
	switch {
	case r.Stream == "" && len(r.Messages) == 0:
		return
	case r.GRPC == "":
		v.report(path+".stream", "write grpc: package.Service/Method", "only a gRPC method has streams")
	case r.Stream == "":
		v.report(path+".messages", "write stream: client, or both", "a call without a stream has one message, its body")
	case len(v.e.Load.Requests) > 1:
		v.report(path+".stream", "remove the other requests", "a stream must be the only request of the load")
	case r.Stream != StreamServer && len(r.Messages) == 0:
		v.report(path+".stream", "write messages", "the client's stream has no message")
	case r.Stream == StreamServer && len(r.Messages) > 0:
		v.report(path+".messages", "write body", "the client sends one message")
	case len(r.Messages) > maxMessages:
		v.report(path+".messages", "", "%d messages, max %d", len(r.Messages), maxMessages)
	}
}

// body checks the body of a request. The content of a file is in it once the file was read.
func (v loadRules) body(path string, r *Request) {
	switch {
	case len(r.Body) > MaxRequestBody:
		v.report(path+".body", "", "%d bytes, max %d", len(r.Body), MaxRequestBody)
	case r.BodyFile == "":
	case r.Body != "":
		v.report(path+".bodyFile", "remove one of the two", "the request has a body and a file")
	default:
		v.report(path+".bodyFile", "", "a recorded experiment has the body itself")
	}
}

// entryProtocol returns the protocol that the topology fixes for the entry, or "" if the treatment chooses it.
func (v loadRules) entryProtocol() (protocol string) {
	all, err := v.e.Topologies()
	if err != nil {
		return "" // already reported
	}
	for _, t := range all {
		entry, ok := t.Service(t.Entry)
		if !ok && len(t.Services) > 0 {
			entry = t.Services[0]
		}
		protocol = cmp.Or(protocol, entry.Protocol)
	}
	return protocol
}

// WebSocket describes the messages of protocol websocket. Each message is a request.
type WebSocket struct {
	Answer   string `yaml:"answer,omitempty" json:"answer,omitempty"`     // echo (default) | message | pong
	Messages int    `yaml:"messages,omitempty" json:"messages,omitempty"` // that answer one, default 1
	// Message is sent, in place of a number of bytes.
	Message Body `yaml:"message,omitempty" json:"message,omitempty"`
}

func (v loadRules) webSocket() {
	w := v.e.Load.WebSocket
	if !slices.Contains(v.requestProtocols(), app.WebSocket) {
		if v.doc.Has("load.webSocket") {
			v.report("load.webSocket", "write factors: {protocol: [websocket]}, or remove it", "no load has protocol websocket")
		}
		return
	}
	if !v.local() {
		at := "factors.protocol"
		if !v.doc.Has(at) {
			at = "application"
		}
		v.report(at, "write platform: {kind: local}", "protocol websocket is for this machine, and the platform is %s", v.e.Platform.Kind)
	}
	alone := !slices.ContainsFunc(v.requestProtocols(), func(p string) bool { return p != app.WebSocket })
	if v.doc.Has("factors.responseSize") && alone && w.Answer != load.AnswerMessage {
		v.report("factors.responseSize", "write load: {webSocket: {answer: message}}, or remove it", "an answer has the size of its message or none")
	}
	if len(w.Message) > MaxRequestBody {
		v.report("load.webSocket.message", "", "%d bytes, max %d", len(w.Message), MaxRequestBody)
	}
	if w.Message != "" && v.doc.Has("factors.requestSize") {
		v.report("factors.requestSize", "remove one of the two", "load.webSocket.message has the message")
	}
}

// RateProfile changes the rate during the measure phase. It repeats until the end of the load.
// The warm-up has the mean rate.
type RateProfile struct {
	Steps []Step `yaml:"steps,omitempty" json:"steps,omitempty"`
}

// Step is a stretch at a multiple of the rate, or a ramp from one to another.
type Step struct {
	For  Duration `yaml:"for" json:"for"`
	At   float64  `yaml:"at" json:"at"`
	From float64  `yaml:"from" json:"from"`
	To   float64  `yaml:"to" json:"to"`
}

func (v loadRules) profile() {
	const path = "load.profile"
	if !v.doc.Has(path) {
		return
	}
	p := v.e.Load.Profile
	if !v.doc.Has(path + ".steps") {
		v.report(path, "write steps: [{for: 10s, at: 2}]", "the steps are missing")
		return
	}
	v.steps(path, p.Steps)
	if v.e.closedLoop() {
		v.report(path, "give a rate", "rate max has no schedule")
	}
	if c := p.Cycle(); c > 0 && v.doc.Sound("phases.measure") && v.e.Phases.Measure%c != 0 {
		v.report("phases.measure", "write a multiple of "+c.String(), "%v is not a whole number of cycles of load.profile, %v each", v.e.Phases.Measure, c)
	}
}

const (
	maxSteps = 100
	maxTimes = 1000
	minStep  = Duration(time.Millisecond)
)

// Cycle is the time after which the profile repeats. It is 0 if there is none.
func (p RateProfile) Cycle() (cycle Duration) {
	return lists.Sum(p.Steps, func(s Step) Duration { return s.For })
}

func (v loadRules) steps(path string, steps []Step) {
	path += ".steps"
	if v.doc.Has(path) && len(steps) == 0 || len(steps) > maxSteps {
		v.report(path, "", "%d steps are not between 1 and %d", len(steps), maxSteps)
		return
	}
	sum := 0.0
	for i, s := range steps {
		at := fmt.Sprintf("%s[%d]", path, i)
		ramp := v.doc.Has(at+".from") || v.doc.Has(at+".to")
		switch {
		case !ramp && !v.doc.Has(at+".at"):
			v.report(at, "write at: 2 for twice the rate, or from and to for a ramp", "the step has no rate")
		case s.At != 0 && (s.From != 0 || s.To != 0):
			v.report(at, "write at for a step, or from and to for a ramp", "the step is also a ramp")
		}
		from, to := s.Ends()
		sum += from + to
	}
	if len(steps) > 0 && sum == 0 {
		v.report(path, "", "no step has a rate above 0")
	}
}

// Ends are the multiples of the rate at both ends.
func (s Step) Ends() (from, to float64) {
	if s.From != 0 || s.To != 0 {
		return s.From, s.To
	}
	return s.At, s.At
}

// closedLoop reports whether a level of the rate is max without an objective.
func (e *Experiment) closedLoop() bool {
	return slices.Contains(LevelsOf[RateLevel](e.Factors, "rate"), RateLevel{})
}

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
		{"load.checks.jsonHas", "Fields that every body, JSON of at most 2 MiB, must have: errors, or data.errors. null, [] and {} count as absent.", nil, form(levelList)},
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

// Way describes the path of the load for people, or is empty for the default path.
func (e *Experiment) Way() string {
	if !e.Gateway() {
		return ""
	}
	service := "ClusterIP"
	if e.Outside() {
		service = cmp.Or(map[string]string{"loadBalancer": "LoadBalancer"}[e.Platform.Expose], "NodePort")
	}
	return fmt.Sprintf("Load through each mesh's ingress gateway, from outside of the mesh; without a mesh, to the entry's Service. Either is a Service of type %s", service)
}

// Entries of the load.
const (
	EntryService = "service"
	EntryGateway = "gateway"
)

// entries lists the entries of the load, the default first.
var entries = []string{EntryService, EntryGateway}

// Gateway reports whether the load enters through the ingress gateway of each mesh. Without a mesh it enters at the
// entry's Service.
func (e *Experiment) Gateway() bool { return e.Load.Entry == EntryGateway }

// Request is one kind of request of the load. An absent field has tare's default.
type Request struct {
	// Name identifies the request in the results. By default it is method and path, or the gRPC method.
	Name   string `yaml:"name,omitempty" json:"name,omitempty"`
	Method string `yaml:"method,omitempty" json:"method,omitempty"` // default GET, or POST with a body
	Path   string `yaml:"path,omitempty" json:"path,omitempty"`     // with a query, at the entry, default /
	// GRPC is the method "package.Service/Method", in place of method and path.
	GRPC string `yaml:"grpc,omitempty" json:"grpc,omitempty"`
	// Headers may contain ${env:NAME} and ${file:PATH}, which no record contains.
	Headers map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	Body    Body              `yaml:"body,omitempty" json:"body,omitempty"` // of gRPC: the encoded message
	// BodyFile is read with the experiment, and becomes Body.
	BodyFile string `yaml:"bodyFile,omitempty" json:"bodyFile,omitempty"`
	// Stream names the side of a gRPC method that sends several messages. Messages are the client's messages,
	// encoded.
	Stream   string `yaml:"stream,omitempty" json:"stream,omitempty"`
	Messages []Body `yaml:"messages,omitempty" json:"messages,omitempty"`
	Weight   int    `yaml:"weight,omitempty" json:"weight,omitempty"` // share of the request: weight over the sum of all
}

// Host is the header Host that the file sets: of all requests, or of the first that has one. Empty: none.
func (l *Load) Host() string {
	own := lists.Map(l.Requests, func(r Request) map[string]string { return r.Headers })
	for _, headers := range append([]map[string]string{l.Headers}, own...) {
		for name, value := range headers {
			if strings.EqualFold(name, "host") {
				return value
			}
		}
	}
	return ""
}

// Streams of gRPC. With both, each message is sent after the answer to the one before.
const (
	StreamServer = "server"
	StreamClient = "client"
	StreamBoth   = "both"
)

var streams = []string{StreamServer, StreamClient, StreamBoth}

// Body is the content of a request: text, or "base64:" and its encoding.
type Body string

const base64Body = "base64:"

func (Body) Wants() string { return "text, or base64: and the encoded bytes" }

func (b *Body) UnmarshalScalar(text string) error {
	encoded, ok := strings.CutPrefix(text, base64Body)
	if !ok {
		*b = Body(text)
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return fmt.Errorf("found %.40q, expected %s", text, b.Wants())
	}
	*b = Body(raw)
	return nil
}

// MarshalText writes bytes that are not UTF-8 in base64.
func (b Body) MarshalText() ([]byte, error) {
	if utf8.ValidString(string(b)) && !strings.HasPrefix(string(b), base64Body) {
		return []byte(b), nil
	}
	return []byte(base64Body + base64.StdEncoding.EncodeToString([]byte(b))), nil
}

func (b *Body) UnmarshalText(text []byte) error { return b.UnmarshalScalar(string(text)) }

// WithSecrets replaces the placeholders of a header's value. No error contains a secret.
func WithSecrets(value string) (string, error) {
	if wrong := checkPlaceholders(value); wrong != "" {
		return "", hint.New("write ${env:NAME} or ${file:PATH}", "%s is not a placeholder", clip(wrong))
	}
	var errs []error
	replaced := placeholder.ReplaceAllStringFunc(value, func(whole string) string {
		text, err := secret(whole[2 : len(whole)-1])
		if err == nil && !load.IsFieldValue(text) {
			err = fmt.Errorf("%s has control characters, such as line breaks", whole)
		}
		errs = append(errs, err)
		return text
	})
	return replaced, errors.Join(errs...)
}

// placeholder is a part of a header's value that is read when the run starts.
var placeholder = regexp.MustCompile(`\$\{([^}]*)\}`)

const (
	fromEnv  = "env:"
	fromFile = "file:"
	// maxSecret bounds the file of a placeholder, in bytes.
	maxSecret = 64 << 10
)

// checkPlaceholders returns the first part of a header's value that looks like a placeholder and is not one.
func checkPlaceholders(value string) (wrong string) {
	for _, m := range placeholder.FindAllStringSubmatch(value, -1) {
		name, isEnv := strings.CutPrefix(m[1], fromEnv)
		path, isFile := strings.CutPrefix(m[1], fromFile)
		if !isEnv && !isFile || isEnv && name == "" || isFile && path == "" {
			return m[0]
		}
	}
	return ""
}

// secret reads the source of a placeholder. No file of a run contains its value from then on.
func secret(source string) (string, error) {
	if name, ok := strings.CutPrefix(source, fromEnv); ok {
		text, set := os.LookupEnv(name)
		if !set {
			return "", hint.New("set it before tare run; the record has its name only", "environment variable %s is not set", name)
		}
		redact.Add(text)
		return text, nil
	}
	path, _ := strings.CutPrefix(source, fromFile)
	text, err := regular.ReadInput(path, maxSecret)
	if err != nil {
		return "", fmt.Errorf("read header: %w", err)
	}
	value := strings.TrimRight(string(text), "\r\n")
	redact.Add(value)
	return value, nil
}
