package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

const (
	// probes are sent one after another, each on its own connection.
	probes       = 20
	probeTimeout = 10 * time.Second
	// settleTimeout is the maximum delay of counters after answers.
	settleTimeout = 3 * time.Second
)

// pathHint is the hint for counters that did not change as required.
const pathHint = "requests bypass the mesh; see the proxies' configurations and logs in the trial's provenance directory"

// verifier implements [platform.Verifier].
type verifier struct {
	layout    *layout
	processes *processes
	control   *controlPlane
	proxies   *proxies
	settle    time.Duration // maximum delay of counters
	refused   bool          // an earlier verification made connections that proxies refused
}

// Verify implements [platform.Verifier]. It sends probes to the entry and compares the change of
// every counter that they pass.
func (v *verifier) Verify(ctx context.Context) ([]check.Check, error) {
	if err := v.processes.Err(); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	flows, err := v.flows()
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	before, err := v.baseline(ctx, flows)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	checks := []check.Check{v.probe(ctx)}
	after, err := settle(ctx, v.settle, flows, before)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	for i, f := range flows {
		checks = append(checks, f.check(before[i], after[i]))
	}
	checks = append(checks, v.controlVersions(ctx)...)
	checks = append(checks, v.proxyVersions(ctx)...)
	checks = append(checks, v.workers(ctx)...)
	dumps := v.proxies.keepDumps(ctx)
	checks = append(checks, v.dumped(dumps)...)
	if v.layout.spec.Mesh.Provides.MTLS {
		checks = append(checks, v.checkTLS(ctx)...)
		v.refused = true
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("verify: %w", context.Cause(ctx))
	}
	return checks, nil
}

// baseline reads the counters before the probes. A proxy may count a connection after it refused
// it: then the counters of an earlier verification must rest.
func (v *verifier) baseline(ctx context.Context, flows []flow) ([]reading, error) {
	if v.refused {
		return rest(ctx, v.settle, flows)
	}
	return readAll(ctx, flows)
}

// probe sends the probes and checks the answers.
func (v *verifier) probe(ctx context.Context) check.Check {
	entry := entryOf(v.layout.spec.Topology)
	s, _ := v.layout.spec.Topology.Service(entry)
	want := s.AnswerSize(int64(v.layout.spec.Treatment.Levels.ResponseSize))
	client := clients[v.layout.spec.Protocol(s)]
	good, first := 0, ""
	for i := range probes {
		err := client.probe(ctx, v.probed(s, v.layout.entry[i%len(v.layout.entry)]), int64(v.layout.spec.Treatment.Levels.RequestSize), want)
		if err == nil {
			good++
		} else if first == "" {
			first = err.Error()
		}
	}
	how := "answered with status 200" + length(want)
	if p := v.layout.spec.Protocol(s); p == app.TCP || p == app.WebSocket {
		how = "answered"
	}
	c := check.Check{Name: "answers of " + entry, OK: good == probes, Detail: fmt.Sprintf("%d of %d probes were %s", good, probes, how)}
	if !c.OK {
		c.Detail += "; the first failure: " + first
		c.Hint = "the application, or a proxy before it, answers incorrectly; see their logs in the trial's provenance directory"
		if v.layout.proxied() && v.layout.spec.Protocol(s) == app.WebSocket {
			c.Hint = "the sidecars must forward upgrades to WebSocket: where .Inbound.WebSocket and .WebSocket of an outbound service are true in the mesh definition"
		}
		if s.IsOwn() {
			c.Hint = "factors.route or ready has the path that the program answers with status 200; its log is in the trial's provenance directory"
		}
	}
	return c
}

// probed is the URL of a probe: that of the load, or the path of the readiness of a program of the
// user, which may serve nothing at "/".
func (v *verifier) probed(s app.Service, url string) string {
	if s.Ready == "" || v.layout.spec.Treatment.Levels.Route != "" || slices.Contains([]string{app.GRPC, app.WebSocket}, v.layout.spec.Protocol(s)) {
		return url
	}
	return strings.TrimSuffix(url, "/") + s.Ready
}

func length(bytes int64) string {
	if bytes < 0 {
		return ""
	}
	return fmt.Sprintf(" and %d bytes", bytes)
}

func probeOnce(ctx context.Context, client *http.Client, url string, send, want int64) error {
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if send > 0 {
		method, body = http.MethodPost, bytes.NewReader(make([]byte, send))
	}
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err
	}
	r.Header.Set(app.AloneHeader, "1")
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var start strings.Builder
	n, err := io.Copy(io.Discard, io.TeeReader(resp.Body, &limitWriter{&start, 200}))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s, %q", resp.Status, strings.Join(strings.Fields(start.String()), " "))
	}
	if want >= 0 && n != want {
		return fmt.Errorf("%d bytes", n)
	}
	return nil
}

// limitWriter keeps the first bytes and discards the rest.
type limitWriter struct {
	to   *strings.Builder
	left int
}

func (l *limitWriter) Write(b []byte) (int, error) {
	keep := b[:min(len(b), l.left)]
	l.left -= len(keep)
	l.to.Write(keep)
	return len(b), nil
}
