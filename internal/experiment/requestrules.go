package experiment

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load"
)

const (
	maxRequests     = 2000
	maxNames        = 200     // of figures
	MaxRequestBody  = 1 << 20 // bytes
	maxRequestText  = 8 << 10 // of a path or header, bytes
	maxRequestName  = 100
	maxMessages     = 1000
	maxRequestBytes = 8 << 20 // of all bodies
)

// requests checks the headers and kinds of requests.
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

// headers checks the headers of a request, or of all requests.
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
