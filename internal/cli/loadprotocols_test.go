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

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
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

func TestLoadGRPC(t *testing.T) {
	server, dir := grpcHealth(t, true), t.TempDir()
	shop, none := must.File(t, dir, "shop.bin", "\x0a\x04shop"), must.File(t, dir, "none.bin", "\x0a\x04none")
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
		{[]string{server + check, "--data", "@" + shop}, "grpc-0"},
		{[]string{server + check}, "grpc-0"},
		{[]string{server + check, "--data", "@" + none}, "grpc-5"}, // so that the message arrives
		{[]string{strings.Replace(server, "grpc:", "http:", 1) + check, "--protocol", "grpc", "--data", "@" + none}, "grpc-5"},
	} {
		if r, err := call(test.args...); err != nil || r.Statuses[test.status] != 20 || r.Protocol != load.ProtocolGRPC {
			t.Errorf("%q: %v, %v", test.args, err, r.Statuses)
		}
	}
	if _, err := call(server+check, "--data", `{"service": "shop"}`); err == nil || !strings.Contains(hint.Of(err), "protoc --encode") {
		t.Errorf("JSON: %v, hint %q", err, hint.Of(err))
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
	if testing.Short() {
		t.Attr("short", "without Envoy")
		return
	}
	t.Parallel()
	bin, server := programs(t), grpcHealth(t, true)
	dir := t.TempDir()
	file := filepath.Join(dir, "x.yaml")
	// Each message is a ServerReflectionRequest: list_services "*", "a" and "b".
	text := fmt.Sprintf(`apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: streams}
application: {url: %q}
factors: {mesh: [none, envoy], protocol: [grpc], rate: [50], connections: [2]}
order: random
load:
  requests: [{grpc: grpc.reflection.v1.ServerReflection/ServerReflectionInfo, stream: both, messages: ["base64:OgEq", "base64:OgFh", "base64:OgFi"]}]
phases: {warmup: 500ms, measure: 1s, drain: 2s}
blocks: 1
validity: {rateShortfall: 0.9, errorRatio: 0.01, lateness: 5s, unattributed: 0.9}
`, strings.Replace(server, "grpc:", "http:", 1))
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
