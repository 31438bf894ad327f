package mesh_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

const (
	probes     = 20
	callerID   = "spiffe://tare.test/load"
	calleeID   = "spiffe://tare.test/echo"
	outsiderID = "spiffe://tare.test/outsider"
)

// TestEnvoyDefinitions runs every definition whose sidecar is Envoy as a real
// pair of sidecars before a small application.
func TestEnvoyDefinitions(t *testing.T) {
	program := envoy(t)
	ran := map[string]bool{}
	t.Run("two workers", func(t *testing.T) { // they share a port that the kernel chose
		d := must.Get(mesh.Load("envoy"))(t)
		local := *d.Local
		local.Sidecar.Concurrency = 2
		d.Local = &local
		testPair(t, d, program)
	})
	for _, d := range mesh.Builtin() {
		if d.Local == nil || d.Local.Sidecar.Program != "envoy" {
			continue
		}
		ran[d.Name] = true
		if len(d.Local.Controls()) > 0 {
			continue // what a control plane configures is tried where one can be started
		}
		t.Run(d.Name, func(t *testing.T) { testPair(t, d, program) })
	}
	for _, name := range mesh.Names() {
		if d := must.Get(mesh.Load(name))(t); strings.HasPrefix(name, "envoy") && d.Local != nil && !ran[name] {
			t.Errorf("%s did not run", name)
		}
	}
}

// TestDocumentedDefinition runs the example of the page on adding a mesh.
func TestDocumentedDefinition(t *testing.T) {
	const page = "../../../docs/how-to/add-a-mesh.md"
	text := must.Get(os.ReadFile(page))(t)
	_, rest, found := strings.Cut(string(text), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```\n")
	if !found || !closed {
		t.Fatalf("%s has no YAML block", page)
	}
	d := must.Get(mesh.Decode(page, []byte(example)))(t)
	testPair(t, d, envoy(t))
}

// envoy is the path of a real one.
func envoy(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real Envoy")
	}
	found := must.Get(fetch.Envoy().Find(t.Context(), fetch.Options{Log: func(line string) { t.Log(line) }}))(t)
	return found.Path
}

func testPair(t *testing.T, d mesh.Definition, program string) {
	p := newPair(t, d, program)
	before := p.counters(t)
	for i := range probes {
		if err := p.get(); err != nil {
			t.Fatalf("probe %d: %v", i, err)
		}
	}
	after := p.counters(t)
	if got := p.requests.Load(); got != probes {
		t.Errorf("the application saw %d requests, want %d", got, probes)
	}
	for _, name := range []string{"inbound", "outbound"} {
		if got := after[name] - before[name]; got != probes {
			t.Errorf("%s counter moved by %d, want %d", name, got, probes)
		}
	}
	if d.Provides.L7 != (d.Local.Verify.Unit == "request") {
		t.Errorf("unit %q does not go with l7: %v", d.Local.Verify.Unit, d.Provides.L7)
	}
	t.Run("many at once", func(t *testing.T) { p.testMany(t) })
	if !d.Provides.MTLS {
		return
	}
	// A handshake is counted once on each side, at most one for each probe.
	in, out := after["inbound handshakes"]-before["inbound handshakes"], after["outbound handshakes"]-before["outbound handshakes"]
	if in == 0 || in != out || in > probes {
		t.Errorf("handshakes: %d inbound, %d outbound", in, out)
	}
	t.Run("identity", func(t *testing.T) { p.testIdentity(t) })
	t.Run("refusals", func(t *testing.T) { p.testRefusals(t) })
	t.Run("wrong callee", func(t *testing.T) { p.testWrongCallee(t) })
}

// testMany holds more requests open at once than a proxy's usual limits allow (Envoy's are 1024).
func (p *pair) testMany(t *testing.T) {
	const many = 1200
	var settled atomic.Int64 // arrived, or failed
	all := make(chan struct{})
	settle := func() {
		if settled.Add(1) == many {
			close(all)
		}
	}
	p.hold.Store(func() { settle(); <-all })
	defer p.hold.Store(func() {})
	failed := make(chan error, many)
	for range many {
		go func() {
			err := p.get()
			if err != nil {
				settle() // let the others go
			}
			failed <- err
		}()
	}
	bad := 0
	var first error
	for range many {
		if err := <-failed; err != nil {
			bad, first = bad+1, cmp.Or(first, err)
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d requests at once failed, the first with %v", bad, many, first)
	}
}

// testIdentity checks the client identity in the request to the application.
func (p *pair) testIdentity(t *testing.T) {
	got, _ := p.peer.Load().(string)
	want := ""
	if p.definition.Provides.L7 {
		want = "URI=" + callerID
	}
	if !strings.Contains(got, want) || (want == "" && got != "") {
		t.Errorf("X-Forwarded-Client-Cert is %q, want %q in it", got, want)
	}
}

// testRefusals sends requests that bypass the client's sidecar.
func (p *pair) testRefusals(t *testing.T) {
	seen := p.requests.Load()
	addr := net.JoinHostPort(p.callee.ctx.IP, strconv.Itoa(p.callee.ports["inbound"]))
	clients := map[string]*tls.Config{
		"no certificate":          {InsecureSkipVerify: true},
		"unknown identity":        p.ca.client(t, outsiderID),
		"certificate of other CA": newAuthority(t).client(t, callerID),
		"TLS 1.2":                 p.ca.client(t, callerID),
	}
	clients["TLS 1.2"].MaxVersion = tls.VersionTLS12
	for name, config := range clients {
		if err := rawRequest(t.Context(), addr, config); err == nil {
			t.Errorf("%s: answered", name)
		}
	}
	if err := rawRequest(t.Context(), addr, nil); err == nil {
		t.Error("plain text: answered")
	}
	if got := p.requests.Load(); got != seen {
		t.Errorf("%d requests of outside clients reached the application", got-seen)
	}
	if err := rawRequest(t.Context(), addr, p.ca.client(t, callerID)); err != nil {
		t.Errorf("a caller that may: %v", err)
	}
}

// testWrongCallee starts a caller that expects another identity at the far end.
func (p *pair) testWrongCallee(t *testing.T) {
	ctx := p.caller.ctx
	ctx.Outbound = []mesh.Outbound{{Service: "echo", Identity: outsiderID, Endpoints: ctx.Outbound[0].Endpoints}}
	seen := p.requests.Load()
	q := *p
	q.caller = startSidecar(t, p.definition, p.program, ctx)
	if err := q.get(); err == nil {
		t.Error("answered by a callee of the wrong identity")
	}
	if got := p.requests.Load(); got != seen {
		t.Error("the request reached a callee of the wrong identity")
	}
}

// rawRequest sends one request over a new connection; nil config: plain text.
func rawRequest(ctx context.Context, addr string, config *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var conn net.Conn
	var err error
	if config == nil {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr)
	} else {
		conn, err = (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: echo\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		return fmt.Errorf("answer %.40q, %v", answer, err)
	}
	return nil
}

// pair is an application behind a sidecar, and the sidecar of its caller.
type pair struct {
	definition     mesh.Definition
	program        string
	ca             *authority
	caller, callee *sidecar
	requests       *atomic.Int64
	hold           *atomic.Value // func(), called by the application before it answers
	peer           *atomic.Value // X-Forwarded-Client-Cert of the last request
}

func newPair(t *testing.T, d mesh.Definition, program string) *pair {
	p := &pair{definition: d, program: program, ca: newAuthority(t), requests: new(atomic.Int64), peer: new(atomic.Value), hold: new(atomic.Value)}
	p.hold.Store(func() {})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		p.peer.Store(r.Header.Get("X-Forwarded-Client-Cert"))
		if r.ProtoMajor != 1 {
			t.Errorf("the application is spoken to in %s", r.Proto)
		}
		p.hold.Load().(func())()
		fmt.Fprint(w, "hello")
	}))
	t.Cleanup(app.Close)
	addr := app.Listener.Addr().(*net.TCPAddr)
	p.callee = startSidecar(t, d, program, p.identify(t, mesh.SidecarContext{
		Pod: "echo-0", Service: "echo", Identity: calleeID, IP: "127.0.0.1",
		Inbound: &mesh.Inbound{AppIP: addr.IP.String(), AppPort: addr.Port, Callers: []string{callerID}},
	}))
	p.caller = startSidecar(t, d, program, p.identify(t, mesh.SidecarContext{
		Pod: "load", Service: "load", Identity: callerID, IP: "127.0.0.1",
		Outbound: []mesh.Outbound{{Service: "echo", Identity: calleeID,
			Endpoints: []mesh.Endpoint{{IP: "127.0.0.1", Port: p.callee.ports["inbound"]}}}},
	}))
	return p
}

func (p *pair) identify(t *testing.T, ctx mesh.SidecarContext) mesh.SidecarContext {
	if p.definition.Provides.MTLS {
		ctx.CertPath, ctx.KeyPath, ctx.CAPath = p.ca.files(t, ctx.Identity)
	}
	return ctx
}

// get sends one request through both sidecars, on a new connection.
func (p *pair) get() error {
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", p.caller.ports["outbound-echo"]))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != 200 || string(body) != "hello") {
		err = fmt.Errorf("status %d, body %q", resp.StatusCode, body)
	}
	return err
}

// counters reads every counter the definition names; one that does not exist is an error.
func (p *pair) counters(t *testing.T) map[string]int {
	t.Helper()
	callee := must.Get(p.definition.Local.Counters(p.callee.ctx))(t)
	caller := must.Get(p.definition.Local.Counters(p.caller.ctx))(t)
	values := map[string]int{
		"inbound":  p.callee.stat(t, callee.Inbound),
		"outbound": p.caller.stat(t, caller.Outbound[0].Sent),
	}
	if p.definition.Provides.MTLS {
		values["inbound handshakes"] = p.callee.stat(t, callee.InboundHandshakes)
		values["outbound handshakes"] = p.caller.stat(t, caller.Outbound[0].Handshakes)
	}
	return values
}
