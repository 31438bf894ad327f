package timeline_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/timeline"
	"github.com/tare-mesh/tare/test/must"
)

// changer takes some time for each change, and some before it sends one.
type changer struct {
	prepares, takes time.Duration

	mu   sync.Mutex
	made []platform.Change
}

func (c *changer) Endpoints() []string { return []string{"127.0.0.2:1", "127.0.0.3:1"} }

func (c *changer) Change(ctx context.Context, change platform.Change) error {
	c.mu.Lock()
	c.made = append(c.made, change)
	c.mu.Unlock()
	time.Sleep(c.prepares)
	change.Send()
	select {
	case <-time.After(c.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var calledKinds = []string{metric.RouteChanged, metric.WeightShifted, metric.EndpointRemoved, metric.EndpointAdded}

func ignored(result.Change) {}

func TestChangesAreMadeWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &changer{takes: 3 * time.Second} // six times the time between them
		x := experiment.Changes{Every: experiment.Duration(500 * time.Millisecond), Count: 12, Kinds: calledKinds}
		changes := must.Get(timeline.NewChanges(x, 1, "web", true, &platform.Deployment{Changer: c}))(t)
		start := time.Now()
		must.OK(t, changes.Run(t.Context(), start, start.Add(time.Second), start.Add(time.Minute), ignored))
		made := changes.Made()
		if len(made) != 12 {
			t.Fatalf("%d changes, want 12", len(made))
		}
		kinds, places := map[string]int{}, map[float64]bool{}
		for i, m := range made {
			kinds[m.Kind]++
			least := 1 + 0.5*float64(i+1)
			if m.DueSeconds < least || m.DueSeconds > least+0.125 || m.SentSeconds != m.DueSeconds || math.Abs(m.AcceptedSeconds-m.SentSeconds-3) > 1e-9 {
				t.Errorf("change %d: due %v, sent %v, accepted %v s, want one within 0.125 s after %v", i, m.DueSeconds, m.SentSeconds, m.AcceptedSeconds, least)
			}
			places[m.DueSeconds-least] = true
		}
		if len(places) != len(made) {
			t.Errorf("%d changes are at %d places of the time between them, want as many", len(made), len(places))
		}
		for _, kind := range calledKinds {
			if kinds[kind] != 3 {
				t.Errorf("%d changes of kind %s, want 3", kinds[kind], kind)
			}
		}
		out := false
		for i, m := range c.made {
			switch m.Kind {
			case metric.EndpointRemoved:
				out = true
			case metric.EndpointAdded:
				out = false
			}
			if want := map[bool]int{false: 2, true: 1}[out]; len(m.Endpoints) != want {
				t.Errorf("change %d (%s) leaves %d endpoints, want %d", i, m.Kind, len(m.Endpoints), want)
			}
		}
		again := must.Get(timeline.NewChanges(x, 1, "web", true, &platform.Deployment{Changer: &changer{}}))(t)
		must.OK(t, again.Run(t.Context(), start, time.Now(), time.Now().Add(time.Minute), ignored))
		for i, m := range again.Made() {
			if m.Kind != made[i].Kind || m.Endpoint != made[i].Endpoint {
				t.Errorf("change %d of the same seed is %s %s, want %s %s", i, m.Kind, m.Endpoint, made[i].Kind, made[i].Endpoint)
			}
		}
	})
}

// Times of a change count from when it was sent. What is prepared for it, such as a file or a certificate, is before it.
func TestChangesCountFromTheirSending(t *testing.T) {
	const prepares = 20 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		a := &authority{after: 100 * time.Millisecond, changer: changer{prepares: prepares}}
		for _, kind := range []string{metric.RouteChanged, metric.CertificateRenewed} {
			x := experiment.Changes{Every: experiment.Duration(2 * time.Second), Count: 3, Kinds: []string{kind}}
			changes := must.Get(timeline.NewChanges(x, 1, "web", true, &platform.Deployment{Changer: a, Serial: a.Serial}))(t)
			start := time.Now()
			must.OK(t, changes.Run(t.Context(), start, start, start.Add(time.Hour), ignored))
			for i, m := range changes.Made() {
				if late := m.SentSeconds - m.DueSeconds; late < prepares.Seconds()-1e-9 || late > prepares.Seconds()+0.0011 { // a certificate is read before
					t.Errorf("%s %d was sent %v s after it was due, want %v", kind, i, late, prepares)
				}
				if kind == metric.CertificateRenewed && (m.FirstNew.AfterMS > 100 || *m.FirstNew.BeforeMS < 100 || *m.FirstNew.BeforeMS > 110) {
					t.Errorf("%s %d: first effect in %+v, want 100 ms", kind, i, m.FirstNew)
				}
			}
		}
	})
}

// Without a mesh nothing restarts when a restart is due. A mesh without the process is an error.
func TestRestartsWithoutMesh(t *testing.T) {
	x := experiment.Changes{Every: experiment.Duration(time.Second), Count: 4, Kinds: []string{metric.ProxyRestarted, metric.ControlRestarted}}
	_, err := timeline.NewChanges(x, 1, "web", true, &platform.Deployment{Changer: &changer{}})
	must.Fail(t, err, "the deployment has no such process")
	synctest.Test(t, func(t *testing.T) {
		c := &changer{}
		changes := must.Get(timeline.NewChanges(x, 1, "web", false, &platform.Deployment{Changer: c}))(t)
		start := time.Now()
		must.OK(t, changes.Run(t.Context(), start, start, start.Add(time.Minute), ignored))
		made := changes.Made()
		for i, m := range made {
			if !m.NothingRestarted() || m.SentSeconds < float64(i+1) || m.SentSeconds > float64(i)+1.25 || m.AcceptedSeconds != m.SentSeconds {
				t.Errorf("change %d: %+v", i, m)
			}
		}
		if len(made) != 4 || len(c.made) > 0 || changes.Restarts {
			t.Errorf("%d changes, %d of them made; want 4 that are not", len(made), len(c.made))
		}
	})
}

// A control plane uses 40 % of a CPU, and 3 ms more soon after each change. The halves of the time between changes show it.
func TestCPUAroundChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 100 * time.Millisecond
		c := &changer{takes: time.Millisecond}
		changes, err := timeline.NewChanges(experiment.Changes{Every: experiment.Duration(every), Count: 5, Kinds: []string{metric.RouteChanged}}, 1, "web", true, &platform.Deployment{Changer: c})
		if err != nil {
			t.Fatal(err)
		}
		start, reads := time.Now(), 0
		read := func(context.Context) (timeline.Clocks, error) {
			if reads++; reads == 4 {
				time.Sleep(2 * time.Millisecond) // the reading before the second half of change 2 is late
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			return timeline.Clocks{At: time.Now(), NS: map[metric.Plane]int64{metric.Control: int64(time.Since(start))*4/10 + 3e6*int64(len(c.made))}}, nil
		}
		group, ctx := errgroup.WithContext(t.Context())
		group.Go(func() error { return changes.Run(ctx, start, start, start.Add(time.Minute), ignored) })
		group.Go(func() error { return changes.Watch(ctx, start, start.Add(time.Minute), read) })
		must.OK(t, group.Wait())
		for i, made := range changes.Made() {
			switch {
			case i == 1:
				if made.CPU != nil {
					t.Errorf("change 2 has CPU %+v, and a reading was late", made.CPU)
				}
			case made.CPU == nil:
				t.Errorf("change %d has no CPU", i+1)
			default:
				ns := made.CPU.NS[metric.Control]
				if above := float64(ns[0]) - float64(ns[1])*made.CPU.Seconds[0]/made.CPU.Seconds[1]; math.Abs(above-3e6) > 10 {
					t.Errorf("change %d: %v ns above the level, want 3 ms (%+v)", i+1, above, made.CPU)
				}
			}
		}
	})
}
