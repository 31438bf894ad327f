package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/session"
)

// grpcHealth starts grpc-go with health, with or without reflection.
func grpcHealth(t *testing.T, reflects bool) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := grpc.NewServer()
	h := health.NewServer()
	h.SetServingStatus("shop", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(s, h)
	if reflects {
		reflection.Register(s)
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return "grpc://" + l.Addr().String()
}

const healthProto = `syntax = "proto3";
package grpc.health.v1;
message HealthCheckRequest { string service = 1; }
message HealthCheckResponse { int32 status = 1; }
service Health { rpc Check(HealthCheckRequest) returns (HealthCheckResponse); rpc Watch(HealthCheckRequest) returns (stream HealthCheckResponse); }
`

func TestLoadGRPCByDescription(t *testing.T) {
	with, without := grpcHealth(t, true), grpcHealth(t, false)
	proto := must.File(t, t.TempDir(), "health.proto", healthProto)
	list, err := runLoadCommand(t, with)
	if err != nil || !strings.Contains(list, "grpc.health.v1.Health\n  Check(grpc.health.v1.HealthCheckRequest) returns (grpc.health.v1.HealthCheckResponse)\n") ||
		!strings.Contains(list, "  Watch(grpc.health.v1.HealthCheckRequest) returns (stream grpc.health.v1.HealthCheckResponse)\n") {
		t.Errorf("%v\n%s", err, list)
	}
	if list, err = runLoadCommand(t, with+"/grpc.health.v1.Health"); err != nil || !strings.Contains(list, `--data '{"service":""}'`) {
		t.Errorf("%v\n%s", err, list)
	}
	call := func(args ...string) (r load.Report, err error) {
		out, err := runLoadCommand(t, append(args, "-n", "20", "-r", "200", "-c", "2", "-o", "json")...)
		if err == nil {
			err = json.Unmarshal([]byte(out), &r)
		}
		return r, err
	}
	const check = "/grpc.health.v1.Health/Check"
	for _, test := range []struct {
		args   []string
		status string
	}{
		{[]string{with + check, "--data", `{"service": "shop"}`}, "grpc-0"},
		{[]string{with + check}, "grpc-0"},
		{[]string{with + check, "--data", `{"service": "none"}`}, "grpc-5"}, // so that the message arrives
		{[]string{strings.Replace(with, "grpc:", "http:", 1) + check, "--protocol", "grpc", "--data", `{"service": "none"}`}, "grpc-5"},
		{[]string{without + check, "--proto", proto, "--data", `{"service": "none"}`}, "grpc-5"},
	} {
		if r, err := call(test.args...); err != nil || r.Statuses[test.status] != 20 || r.Protocol != load.ProtocolGRPC {
			t.Errorf("%q: %v, %v", test.args, err, r.Statuses)
		}
	}
	for _, test := range []struct {
		args       []string
		text, help string
	}{
		{[]string{without + check}, "has no reflection service", "--proto FILE"},
		{[]string{with + "/grpc.health.v1.Health/Chek"}, "has no method Chek", "methods: Check"},
		{[]string{with + check, "--data", `{"servce": "x"}`}, `--data:1:2: grpc.health.v1.HealthCheckRequest: unknown field "servce"`, `a request: {"service":""}`},
	} {
		if _, err := call(test.args...); err == nil || !strings.Contains(err.Error(), test.text) || !strings.Contains(hint.Of(err), test.help) {
			t.Errorf("%q: %v, hint %q", test.args, err, hint.Of(err))
		}
	}
	t.Setenv("TARE_KUBE", filepath.Join(t.TempDir(), "absent"))
	if _, err := call(with + check); err == nil || !strings.Contains(hint.Of(err), "make build-kube") {
		t.Errorf("without tare-kube: %v, hint %q", err, hint.Of(err))
	}
}

func TestLoadWebSocket(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			kind, m, err := c.ReadMessage()
			if err != nil || string(m) != `{"a": 1}` || kind != websocket.TextMessage || c.WriteMessage(kind, m) != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	out := must.Get(runLoadCommand(t, "ws"+strings.TrimPrefix(s.URL, "http"), "--data", `{"a": 1}`, "-n", "20", "-c", "2"))(t)
	must.Contain(t, out, "100 % ok", "WebSocket")
	if _, err := runLoadCommand(t, "ws"+strings.TrimPrefix(hello(t), "http"), "-n", "5", "-c", "1"); exitCode(err) != 1 || !strings.Contains(err.Error(), "websocket refused: status 200 OK") {
		t.Error(err)
	}
}

func TestLoadTCP(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					_, _ = fmt.Fprintf(c, "+%s\r\n", strings.Replace(lines.Text(), "I", "O", 1))
				}
			}()
		}
	}()
	target := "tcp://" + listener.Addr().String()
	out := must.Get(runLoadCommand(t, target, "--data", "PING\r\n", "--expect-body", "+PONG\r\n", "-n", "20", "-c", "2"))(t)
	must.Contain(t, out, "100 % ok")
	if _, err := runLoadCommand(t, target, "--data", "PANG\r\n", "--expect-body", "+PONG\r\n", "-n", "5", "-c", "1"); exitCode(err) != console.Gate {
		t.Errorf("another answer: %v", err)
	}
}

// A stream in both directions is a request of an experiment: through Envoy too, each message is answered.
func TestStreamsOfExperiments(t *testing.T) {
	proto := filepath.Join(t.TempDir(), "reflection.proto")
	must.OK(t, os.WriteFile(proto, []byte(`syntax = "proto3";
package grpc.reflection.v1;
message ServerReflectionRequest { string list_services = 7; }
message ServerReflectionResponse { string valid_host = 1; }
service ServerReflection { rpc ServerReflectionInfo(stream ServerReflectionRequest) returns (stream ServerReflectionResponse); }
`), 0o600))
	const name = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	x := &experiment.Experiment{Load: experiment.Load{Requests: []experiment.Request{{GRPC: name, Proto: proto, JSON: `{"listServices": "*"} {"listServices": "a"}`}}}}
	err := session.EncodeMessages(t.Context(), x)
	if r := x.Load.Requests[0]; err != nil || len(r.Messages) != 2 {
		t.Fatalf("%+v, %v", r, err)
	} else if d := difftest.Of("r.Stream", r.Stream, experiment.StreamBoth, "string(r.Messages[0])", string(r.Messages[0]), "\x3a\x01*", "r.Proto", r.Proto, ""); d != "" {
		t.Fatalf("%s: %+v, %v", d, r, err)
	}
	if testing.Short() {
		t.Attr("short", "without Envoy")
		return
	}
	t.Parallel()
	bin, server := programs(t), grpcHealth(t, true)
	dir := t.TempDir()
	file := filepath.Join(dir, "x.yaml")
	text := fmt.Sprintf(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: streams}
application: {url: %q}
factors: {mesh: [none, envoy], protocol: [grpc], rate: [50], connections: [2]}
order: random
load:
  requests: [{grpc: %s, proto: %s, json: '{"listServices": "*"} {"listServices": "a"} {"listServices": "b"}'}]
phases: {warmup: 500ms, measure: 1s, drain: 2s}
blocks: 1
validity: {rateShortfall: 0.9, errorRatio: 0.01, lateness: 5s, unattributed: 0.9}
`, strings.Replace(server, "grpc:", "http:", 1), name, proto)
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	cmd := exec.Command(filepath.Join(bin, "tare"), "run", file, "--plain", "--out", filepath.Join(dir, "run"))
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState.ExitCode() != console.Incomplete { // a busy machine may invalidate a trial
		t.Fatalf("%v\n%s", err, out)
	}
	d := must.Get(result.Open(filepath.Join(dir, "run")))(t)
	defer d.Close()
	records, err := d.Records()
	if err != nil || len(records) != 2 {
		t.Fatalf("%d records, %v\n%s", len(records), err, out)
	}
	for _, r := range records {
		// Each answer lists or describes services: more than the headers of one. Some arrive after the measure phase.
		if r.Load == nil {
			t.Errorf("%s: %s %+v\n%s", r.Treatment, r.Error, r.Load, out)
		} else if d := difftest.Wrong("r.Load.Completed == 0", r.Load.Completed == 0, `r.Load.Statuses["grpc-0"] != r.Load.Sent`, r.Load.Statuses["grpc-0"] != r.Load.Sent, "r.Load.BytesIn < 3*40*r.Load.Completed", r.Load.BytesIn < 3*40*r.Load.Completed); d != "" {
			t.Errorf("%s: %s: %s %+v\n%s", d, r.Treatment, r.Error, r.Load, out)
		}
	}
}

// The recorded experiment has the encoded message, and neither JSON nor file.
func TestMessagesOfExperiments(t *testing.T) {
	proto := must.File(t, t.TempDir(), "health.proto", healthProto)
	request := func(method, message string) *experiment.Experiment {
		return &experiment.Experiment{Load: experiment.Load{Requests: []experiment.Request{{}, {GRPC: "grpc.health.v1.Health/" + method, Proto: proto, JSON: message}}}}
	}
	x := request("Check", `{"service": "shop"}`)
	err := session.EncodeMessages(t.Context(), x)
	if r := x.Load.Requests[1]; err != nil {
		t.Errorf("%+v, %v", r, err)
	} else if d := difftest.Of("string(r.Body)", string(r.Body), "\n\x04shop", "r.JSON", r.JSON, "", "r.Proto", r.Proto, ""); d != "" {
		t.Errorf("%s: %+v, %v", d, r, err)
	}
	for _, test := range []struct {
		x    *experiment.Experiment
		text string
	}{
		{request("Check", `{"servce": 1}`), "load.requests[1].json:1:2: "},
		{request("Watch", ""), "is a stream, and a stream must be the only request"},
	} {
		must.Fail(t, session.EncodeMessages(t.Context(), test.x), test.text)
	}
}
