package timeline

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// partsEvery is the share of changes after which the proxies are read: every fifth one. The reading costs CPU in the time that
// has the level without a change, so that these changes have no CPU time.
const partsEvery = 5

// readLead is how long before the next change the proxies are read, and readRemoteLead the same over a network.
const (
	readLead       = 20 * time.Millisecond
	readRemoteLead = 200 * time.Millisecond
)

// update has the instants of proxies after a change.
type update struct {
	read    time.Time
	proxies map[string][]time.Time
}

// readsParts reports whether the proxies are read after a change of the plan. Proxies of a cluster have no instants of endpoints.
func (c *Changes) readsParts(number int) bool {
	kind := c.plan[number].described
	return c.deployment.Moments != nil && number%partsEvery == partsEvery-1 && kind.Shown != metric.Outage &&
		!(c.Remote && kind.Shown == metric.Endpoint)
}

// readUpdates reads the proxies before the next change. A reading that fails leaves the parts of the change unknown.
func (c *Changes) readUpdates(ctx context.Context, group *errgroup.Group, begin, end time.Time) {
	lead := readLead
	if c.Remote {
		lead = readRemoteLead
	}
	for number := range c.plan {
		if !c.readsParts(number) {
			continue
		}
		group.Go(routine.Guarded(func() error {
			came, err := await(ctx, begin.Add(c.plan[number].at+max(c.plan[number].next*3/4, c.plan[number].next-lead)), end)
			if err != nil || !came {
				return err
			}
			read := time.Now() // a later instant may be of the next change
			if proxies, err := c.deployment.Moments.ProxyUpdates(ctx); err == nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.updates[number] = update{read, proxies}
			}
			return nil
		}))
	}
}

// Parts adds to changes what the mesh counts of them. start is the start of the load. A change is left out while an earlier one
// had not taken effect: the latest configuration of a proxy may be of that.
func (c *Changes) Parts(ctx context.Context, start time.Time, changes []result.Change) {
	if len(c.updates) == 0 {
		return
	}
	counted, err := c.deployment.Moments.ControlMoments(ctx)
	if err != nil {
		counted = nil // as of a control plane that started again: unknown
	}
	byDue := map[float64]update{}
	for number, u := range c.updates {
		if made := c.made[number]; made != nil {
			byDue[made.DueSeconds] = u
		}
	}
	for i := range changes {
		change := &changes[i]
		if u, has := byDue[change.DueSeconds]; has && settled(changes[:i], change.SentSeconds) {
			change.Parts = partsOf(change, start, u, counted)
		}
	}
}

// settled reports whether no answer shows that changes had not taken effect at an instant.
func settled(earlier []result.Change, at float64) bool {
	for i := range earlier {
		if of := earlier[i].Time(); of != nil && earlier[i].SentSeconds+of.AfterMS/1000 > at {
			return false
		}
	}
	return true
}

// partsOf finds the instants of a change: the one change that the control plane received while tare sent it, and the last
// configuration that a proxy took over since. nil: none is known.
func partsOf(change *result.Change, start time.Time, u update, counted []mesh.ControlMoment) *result.ChangeParts {
	sent := start.Add(time.Duration(nanoseconds(change.SentSeconds)))
	after := func(ns int64) float64 { return milliseconds(ns - sent.UnixNano()) }
	var parts result.ChangeParts
	var found []mesh.ControlMoment
	for _, m := range counted {
		if at := after(m.ReceivedNS); at >= 0 && at <= 1000*(change.AcceptedSeconds-change.SentSeconds) {
			found = append(found, m)
		}
	}
	if len(found) == 1 {
		received, pushed := after(found[0].ReceivedNS), after(found[0].SentNS)
		parts.ReceivedMS, parts.PushedMS = &received, &pushed
	}
	for _, times := range u.proxies {
		took := false
		for _, at := range times {
			if at.Before(sent.Truncate(time.Millisecond)) || at.After(u.read) { // of an earlier change
				continue
			}
			took = true
			if ms := after(at.Add(time.Millisecond / 2).UnixNano()); parts.TakenMS == nil || ms > *parts.TakenMS {
				parts.TakenMS = &ms
			}
		}
		if took {
			parts.Proxies++
		}
	}
	if parts == (result.ChangeParts{}) {
		return nil
	}
	return &parts
}
