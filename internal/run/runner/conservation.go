package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// conservation checks that requests are conserved. It reads the counters before the load and
// after it, while nothing is in flight, so that its cost is in no measure phase.
type conservation struct {
	setup      *setup
	journal    *journal
	deployment *platform.Deployment

	before  []balance.Count
	unknown string // why there is no reading
}

const (
	// lastCounts is the time for counters to reach their final values: a request that timed out
	// may still be on its way.
	lastCounts = 2 * time.Second
	// lateCounts is the same after a load with unanswered requests: they may be in flight longer, and a
	// reading of a machine without idle CPU may take a second.
	lateCounts = 10 * time.Second
	// countsPause is the time between two readings of them.
	countsPause = 100 * time.Millisecond
)

// begin reads the counters before the load.
func (c *conservation) begin(ctx context.Context) error {
	if c.deployment.RequestCounts == nil {
		c.unknown = fmt.Sprintf("platform %s does not read counters of requests", c.setup.Experiment.Platform.Kind)
		return nil
	}
	var err error
	c.before, err = c.deployment.RequestCounts(ctx)
	return c.readable(ctx, err)
}

// end reads the counters after the load and records the balance. It reads them again until all
// equations hold, for no longer than lastCounts or lateCounts.
func (c *conservation) end(ctx context.Context) error {
	deadline := time.Now().Add(lastCounts)
	if w := c.journal.record.Whole(); w != nil && w.Unanswered > 0 {
		deadline = time.Now().Add(lateCounts)
	}
	for c.unknown == "" {
		after, err := c.deployment.RequestCounts(ctx)
		if err := c.readable(ctx, err); err != nil || c.unknown != "" {
			return err
		}
		b := balance.Check(c.setup.topology, c.rules(), append(c.sent(), c.ofEngine(balance.Changes(c.before, after))...))
		c.journal.record.Balance = &b
		if b.Message() == "" || time.Now().After(deadline) {
			c.report(b)
			return nil
		}
		if err := await(ctx, time.Now().Add(countsPause)); err != nil {
			return err
		}
	}
	b := balance.Balance{Flows: c.sent(), Equations: []balance.Equation{}, Unchecked: []string{c.unknown}}
	c.journal.record.Balance = &b
	c.report(b)
	return nil
}

// report emits the reasons if nothing was checked.
func (c *conservation) report(b balance.Balance) {
	own := slices.ContainsFunc(c.setup.topology.Services, func(s app.Service) bool { return s.IsOwn() })
	if len(b.Equations) == 0 && !own { // programs of users count nothing, in every trial
		c.journal.emit(result.Event{Kind: result.KindLog, Message: "requests sent and served were not compared: " + strings.Join(b.Unchecked, "; ")})
	}
}

// readable keeps the reason of a failed reading. The trial goes on without the check.
func (c *conservation) readable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		c.unknown = err.Error()
	}
	return nil
}

// sent are the requests and connections of the load, and of a probe beside it.
func (c *conservation) sent() []balance.Flow {
	requests := balance.Flow{Place: balance.Place{Service: balance.LoadName, Point: balance.Sent, To: c.setup.topology.EntryName(), Unit: balance.Requests}}
	connections := requests
	connections.Unit = balance.Connections
	w := c.journal.record.Whole()
	if w == nil {
		requests.Unknown = fmt.Sprintf("generator %s does not count the requests of its whole run", c.journal.record.Load.Generator)
		return []balance.Flow{requests}
	}
	requests.Tally = balance.Tally{Count: w.Sent, Failed: w.Unanswered + w.Failed, Unsure: w.Unsure}
	connections.Count = w.Connections
	switch {
	case c.setup.entryProtocol() == app.TCP: // whose requests nothing else counts
		connections.Failed = w.Unanswered
		return []balance.Flow{connections}
	case c.setup.entryProtocol() == app.WebSocket: // proxies count connections, the entry messages too
	case w.Connections == 0:
		return []balance.Flow{requests}
	}
	return []balance.Flow{requests, connections}
}

// ofEngine drops the counts by bytes of requests that another generator than tare's writes, whose size is unknown.
func (c *conservation) ofEngine(flows []balance.Flow) []balance.Flow {
	name := c.journal.record.Load.Generator
	for i, f := range flows {
		if f.Bytes > 0 && name != (generator.Tare{}).Name() {
			flows[i] = balance.Flow{Place: f.Place, Unknown: fmt.Sprintf("the size of requests of generator %s is unknown", name)}
		}
	}
	return flows
}

func (c *conservation) rules() balance.Rules {
	l := c.journal.record.Load
	r := balance.Rules{Retries: c.setup.mesh.Provides.Retries, Uncounted: c.setup.Experiment.Platform.Kind == mesh.OnKubernetes, Measured: 1}
	if l.Whole != nil && l.Whole.Sent > 0 {
		r.Measured = float64(l.Sent) / float64(l.Whole.Sent)
	}
	return r
}

// notConserved describes requests that appeared or vanished.
func notConserved(s seen) string {
	if s.record.Balance == nil {
		return ""
	}
	return s.record.Balance.Message()
}
