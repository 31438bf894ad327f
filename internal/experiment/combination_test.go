package experiment

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Experiments that a run could not use are refused with the place and the remedy, and their neighbours are not.
func TestCombinations(t *testing.T) {
	known := Names{Protocols: app.Protocols(), Platforms: []string{"local", "kubernetes"}, Generators: []string{"tare"}, Definitions: map[string]mesh.Definition{}}
	for _, d := range mesh.Builtin() {
		known.Definitions[d.Name] = d
	}
	const begin = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: m}\nphases: {warmup: 0s, measure: 1s, drain: 0s}\n"
	for _, c := range []struct{ text, at, want, hint string }{
		{"factors: {mesh: [none, reference], protocol: [http2]}", "5:24", "service echo uses http2, and reference forwards only http1, websocket", "such as envoy"},
		{"factors: {mesh: [none, reference-50us], protocol: [grpc]}", "5:24", "uses grpc, and reference-50us forwards", "such as envoy"},
		{"factors: {mesh: [envoy], protocol: [tcp]}", "5:18", "uses tcp, and envoy forwards only HTTP", "envoy-tcp"},
		{"factors: {mesh: [envoy-tcp], protocol: [tcp]}", "", "", ""},
		{"factors: {mesh: [none, reference], protocol: [websocket]}", "", "", ""},
		{"application: {topology: faces}\nfactors: {mesh: [none, reference]}", "6:24", "service color uses grpc, and reference forwards", "such as envoy"},
		{"application: {topology: faces}\nfactors: {mesh: [envoy], protocol: [http2]}", "", "", ""},
		{"application: {topology: faces}\nfactors: {mesh: [none], protocol: [http1, grpc]}", "6:43", "service face: smiley speaks grpc, and a call by gRPC has no path", ""},
		{"application: {topology: fan-out}\nfactors: {mesh: [none], protocol: [tcp]}", "6:36", "service front: a tcp service cannot call others", "http1"},
		{"factors: {mesh: [none], protocol: [tcp], application: [echo, fan-out]}", "5:36", "application fan-out: service front: a tcp service", "http1"},
		{"application: {command: [x]}\nfactors: {mesh: [none], protocol: [tcp]}", "6:36", "the load does not know what to send to a program with protocol tcp", "+PONG"},
		{"application: {command: [x], exchange: {send: a, expect: b}}\nfactors: {mesh: [none, haproxy, envoy-tcp], protocol: [tcp]}", "", "", ""},
		{"application: {command: [x], exchange: {send: a, expect: b}}\nfactors: {mesh: [none], protocol: [http1]}", "6:36", "it is of protocol tcp, and the protocol is http1", "protocol tcp"},
		{"application: {command: [x], ready: /a, exchange: {send: a, expect: b}}\nfactors: {mesh: [none], protocol: [tcp]}", "6:36", "a program with protocol tcp has no path", "remove it"},
		{"application: {command: [x], exchange: {send: a, expect: b}}\nfactors: {mesh: [none], protocol: [tcp], requestSize: [10]}", "6:55", "exchange has the request", "remove one"},
		{"application: {command: [x], exchange: {send: a}}\nfactors: {mesh: [none], protocol: [tcp]}", "6:36", "the load does not know what to send", "+PONG"},
		{"factors: {mesh: [none], replicas: [2], connections: [1]}", "5:54", "fewer connections (1) than replicas (2)", "connections"},
		{"factors: {mesh: [none], connectionRate: [0, 50]}", "", "", ""},
		{"factors: {mesh: [none], connectionRate: [0, 50], rate: [20, 100]}", "5:45", "50 new connections/s with 20 requests/s", "write at most 20"},
		{"factors: {mesh: [none], connectionRate: [50], rate: [max]}", "5:42", "need a rate of requests, not max", "give a rate"},
		{"factors: {mesh: [none], connectionRate: [50], rate: [{max: p99 < 1s}]}", "5:42", "need a rate of requests, not max", "give a rate"},
		{"factors: {mesh: [none], connectionRate: [50], protocol: [websocket]}", "5:42", "protocol websocket does not support new connections per second", "remove it"},
		{"factors: {mesh: [none], connectionRate: [1.5]}", "5:42", "expected a whole number", ""},
		{"factors: {mesh: [none], replicas: [17]}", "5:35", "fewer connections (16) than replicas (17)", "connections"},
		{"factors: {mesh: [none], replicas: [16]}", "", "", ""},
		{"factors: {mesh: [none]}\nexpect: [p99 < 1ms after 10s]", "6:10", "begins after 10s, and the measure phase has ended after 1s", "phases.measure"},
		{"factors: {mesh: [none]}\nexpect: [p99 < 1ms after 500ms]", "", "", ""},
		{"factors: {mesh: [none], rate: [{}]}", "5:32", "the search has no objective", "max"},
		{"application: {topology: echo, ready: /ok}\nfactors: {mesh: [none]}", "5:38", "it needs a command", "command"},
		{"application: {env: {A: b}}\nfactors: {mesh: [none]}", "5:20", "it needs a command", "command"},
	} {
		_, err := Parse("x.yaml", []byte(begin+c.text), known)
		switch {
		case c.want == "" && err != nil, c.want != "" && err == nil:
			t.Errorf("%s\n%v, want %q", c.text, err, c.want)
		case err != nil && (!strings.Contains(err.Error(), "x.yaml:"+c.at+": ") || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.(strict.Problems)[0].Tip, c.hint)):
			t.Errorf("%s\n%v\nwant %s: %q", c.text, err, c.at, c.want)
		}
	}
}
