package timeline_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/timeline"
	"github.com/tare-mesh/tare/test/must"
)

// counting is a mesh whose control plane has each change 2 ms after it was sent, sends it after a delay, and whose proxies take it
// over 3 ms later. Its load generator's proxy alone counts.
type counting struct {
	changer
	delay   time.Duration
	deaf    bool // the proxies count nothing
	lost    bool // the control plane has forgotten the changes
	moments []mesh.ControlMoment
}

func (c *counting) Change(ctx context.Context, change platform.Change) error {
	sent := time.Now()
	c.mu.Lock()
	c.moments = append(c.moments, mesh.ControlMoment{ReceivedNS: sent.Add(2 * time.Millisecond).UnixNano(), SentNS: sent.Add(2*time.Millisecond + c.delay).UnixNano()})
	c.mu.Unlock()
	return c.changer.Change(ctx, change)
}

func (c *counting) ControlMoments(context.Context) ([]mesh.ControlMoment, error) {
	if c.lost {
		return nil, errors.New("the control plane has restarted")
	}
	return c.moments, nil
}

func (c *counting) ProxyUpdates(context.Context) (map[string][]time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deaf {
		return nil, nil
	}
	last := time.Unix(0, c.moments[len(c.moments)-1].SentNS).Add(3 * time.Millisecond).Truncate(time.Millisecond)
	return map[string][]time.Time{"load": {time.Now().Add(-time.Hour), last}, "echo-0": {time.Now().Add(-time.Hour)}}, nil
}

func TestPartsOfChanges(t *testing.T) {
	for name, c := range map[string]struct {
		mesh    *counting
		settles float64 // ms after a change
		known   bool
	}{
		"50 ms of the control plane":     {&counting{delay: 50 * time.Millisecond}, 60, true},
		"no delay":                       {&counting{}, 10, true},
		"proxies that count nothing":     {&counting{delay: 50 * time.Millisecond, deaf: true}, 60, true},
		"a control plane that forgot":    {&counting{delay: 50 * time.Millisecond, lost: true}, 60, true},
		"an earlier change is under way": {&counting{}, 600, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := c.mesh
			m.takes = 4 * time.Millisecond
			x := experiment.Changes{Every: experiment.Duration(500 * time.Millisecond), Count: 10, Kinds: []string{metric.RouteChanged}}
			changes := must.Get(timeline.NewChanges(x, 1, "web", true, &platform.Deployment{Changer: m, Moments: m}))(t)
			start := time.Now()
			must.OK(t, changes.Run(t.Context(), start, start.Add(time.Second), start.Add(time.Minute), ignored))
			made := changes.Made()
			for i := range made {
				made[i].LastOld = &result.Span{AfterMS: c.settles, BeforeMS: &c.settles}
			}
			changes.Parts(t.Context(), start, made)
			for i, change := range made {
				p := change.Parts
				if has := p != nil; has != (c.known && i%5 == 4) {
					t.Errorf("%s: change %d has parts: %v", name, i+1, has)
				}
				if p == nil {
					continue
				}
				if m.lost != (p.ReceivedMS == nil && p.PushedMS == nil) || m.deaf != (p.TakenMS == nil) {
					t.Errorf("%s: change %d has %+v", name, i+1, p)
					continue
				}
				delay := float64(m.delay.Milliseconds())
				if !m.lost && (math.Abs(*p.ReceivedMS-2) > 0.01 || math.Abs(*p.PushedMS-2-delay) > 0.01) {
					t.Errorf("%s: change %d was received after %v ms and pushed after %v ms", name, i+1, *p.ReceivedMS, *p.PushedMS)
				}
				if !m.deaf && (math.Abs(*p.TakenMS-5-delay) > 1 || p.Proxies != 1) {
					t.Errorf("%s: change %d was taken over after %v ms by %d proxies", name, i+1, *p.TakenMS, p.Proxies)
				}
			}
		})
	}
}
