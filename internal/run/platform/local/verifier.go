package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/run/platform"
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

// verifier implements [platform.Deployment.Verify].
type verifier struct {
	layout    *layout
	processes *processes
	control   *controlPlane
	proxies   *proxies
	sockets   *socketCounts
	answer    time.Duration // maximum time of a probe
	settle    time.Duration // maximum delay of counters
	proven    []check.Check // by nonces, before the applications started
	refused   bool          // an earlier verification made connections that proxies refused
}

// Verify implements [platform.Deployment.Verify]. It sends probes to the entry and compares the change of
// every counter that they pass.
func (v *verifier) Verify(ctx context.Context, probe platform.Probe) (done platform.Verification, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("verify: %w", err)
		}
	}()
	if err := v.processes.Err(); err != nil {
		return done, err
	}
	probe = v.layout.spec.Completed(probe, v.layout.entry)
	requests, err := requestsOf(probe.Load)
	if err != nil {
		return done, err
	}
	flows, err := v.flows(probe, requests)
	if err != nil {
		return done, err
	}
	before, err := v.baseline(ctx, flows)
	if err != nil {
		return done, err
	}
	answers, seen := v.probe(ctx, probe, requests)
	checks := append(slices.Clone(v.proven), answers)
	after, err := settle(ctx, v.settle, flows, before)
	if err != nil {
		return done, err
	}
	for i, f := range flows {
		checks = append(checks, f.check(before[i], after[i]))
	}
	checks = append(checks, v.controlVersions(ctx)...)
	checks = append(checks, v.proxyVersions(ctx)...)
	checks = append(checks, v.workers(ctx)...)
	checks = append(checks, v.background(ctx)...)
	dumps := v.proxies.keepDumps(ctx)
	checks = append(checks, v.dumped(dumps)...)
	if v.layout.spec.Mesh.Provides.MTLS {
		checks = append(checks, v.checkTLS(ctx)...)
		v.refused = true
	}
	checks = append(checks, v.sockets.arrive(ctx, probe.Load)...)
	v.sockets.learn(ctx, probe.Load)
	if kept := v.reuse(ctx, probe.Load); kept != nil {
		checks = append(checks, kept...)
		if _, err := rest(ctx, v.settle, flows); err != nil { // the load begins with counters that have all of these requests
			return done, err
		}
	}
	if ctx.Err() != nil {
		return done, context.Cause(ctx)
	}
	return platform.Verification{Checks: checks, Answers: seen}, nil
}

// baseline reads the counters before the probes. A proxy may count a connection after it refused
// it: then the counters of an earlier verification must rest.
func (v *verifier) baseline(ctx context.Context, flows []flow) ([]reading, error) {
	if v.refused {
		return rest(ctx, v.settle, flows)
	}
	return readAll(ctx, flows)
}

func timedOut(err error) bool {
	var late interface{ Timeout() bool }
	return errors.As(err, &late) && late.Timeout()
}

// probe sends the probes, checks the answers and describes them.
func (v *verifier) probe(ctx context.Context, probe platform.Probe, requests []request) (c check.Check, seen []check.Answer) {
	s := v.layout.spec.Entry()
	client := clients[v.layout.spec.Protocol(s)]
	all, first := platform.Answers{Failed: map[string]int{}}, ""
	for i := range requests {
		requests[i].echoes = !s.IsOwn()
		within, cancel := context.WithTimeout(ctx, v.answer)
		a, err := client.probe(within, &requests[i])
		cancel()
		if err == nil {
			all.Good++
			a.Request, a.Probes = requests[i].name, 1
			seen = check.Merge(seen, a)
			continue
		}
		first = cmp.Or(first, err.Error())
		all.Failed[cmp.Or(a.Status, "no correct answer")]++
		// The others would take the whole timeout too, and cannot change the result.
		best := platform.Answers{Good: all.Good + len(requests) - 1 - i, Failed: all.Failed}
		if ok, _ := v.layout.spec.Accept(probe, best); !ok && timedOut(err) {
			break
		}
	}
	c = check.Check{Name: "answers of " + s.Name}
	if c.OK, c.Detail = v.layout.spec.Accept(probe, all); !c.OK {
		c.Detail += "; the first failure: " + first
		c.Hint = "the application, or a proxy before it, answers incorrectly; see their logs in the trial's provenance directory"
		if v.layout.proxied() && v.layout.spec.Protocol(s) == app.WebSocket {
			c.Hint = "the sidecars must forward upgrades to WebSocket: where .Inbound.WebSocket and .WebSocket of an outbound service are true in the mesh definition"
		}
		switch {
		case s.IsOwn() && v.layout.spec.Protocol(s) == app.TCP:
			c.Hint = "exchange has the request and its whole answer, which is the same behind a proxy; the program's log is in the trial's provenance directory"
		case s.IsOwn():
			c.Hint = "factors.route or load.requests has the path, load.headers the Host, and load.checks the status of its answers; its log is in the trial's provenance directory"
		}
	}
	return c, seen
}
