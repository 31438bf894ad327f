package timeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
)

// pods is a deployment that records every call.
type pods struct {
	mu   sync.Mutex
	down map[string]bool
	done []string
	fail map[string]error
}

func (p *pods) note(what, id string, down bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = append(p.done, what+" "+id)
	p.down[id] = down
	return p.fail[what]
}

func (p *pods) Victims() []platform.Victim {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []platform.Victim
	for i := range 3 {
		for container, plane := range map[string]metric.Plane{"app": metric.App, "sidecar": metric.Data} {
			id := fmt.Sprintf("web-%d/%s", i, container)
			all = append(all, platform.Victim{ID: id, Pod: fmt.Sprintf("web-%d", i), Service: "web", Replica: i, Plane: plane, Up: !p.down[id]})
		}
	}
	slices.SortFunc(all, func(a, b platform.Victim) int { return strings.Compare(a.ID, b.ID) })
	return all
}

func (p *pods) End(_ context.Context, id string, grace time.Duration) error {
	return p.note(fmt.Sprintf("end %v", grace), id, true)
}
func (p *pods) Freeze(_ context.Context, id string, frozen bool) error {
	return p.note(fmt.Sprintf("freeze %v", frozen), id, false)
}
func (p *pods) Restart(_ context.Context, id string) error { return p.note("restart", id, false) }

func (p *pods) Configure(_ context.Context, id string, patch []byte) ([]byte, error) {
	return []byte(`{"undo":1}`), p.note("patch "+string(patch), id, false)
}

func (p *pods) Configuration(context.Context, string) ([]byte, error) { return []byte("{}"), nil }

func (p *pods) declare() *platform.Deployment {
	return &platform.Deployment{TaskFaults: p, Configurer: p}
}

type faulty interface{ declare() *platform.Deployment }

// scaled removes and returns whole replicas.
type scaled struct{ *pods }

func (s scaled) Shrink(_ context.Context, pod string, grace time.Duration) error {
	return s.note(fmt.Sprintf("shrink %v", grace), pod+"/app", true)
}
func (s scaled) Grow(_ context.Context, pod string) error { return s.note("grow", pod+"/app", false) }

func (s scaled) declare() *platform.Deployment {
	d := s.pods.declare()
	d.Scaler = s
	return d
}

// With a Scaler, tasks are not ended one by one.
func TestScaledByThePlatform(t *testing.T) {
	p := newPods()
	if _, _, err := play(t, scaled{p}, experiment.Fault{Kind: "scale", By: -1, For: experiment.Duration(time.Millisecond), Target: experiment.FaultTarget{Replica: new(2)}}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"shrink 5s web-2/app", "grow web-2/app"}; !slices.Equal(p.done, want) {
		t.Errorf("done: %q, want %q", p.done, want)
	}
}

func newPods() *pods { return &pods{down: map[string]bool{}, fail: map[string]error{}} }

// play runs a timeline to its end and heals everything.
func play(t *testing.T, p faulty, faults ...experiment.Fault) (*Timeline, []result.Event, error) {
	t.Helper()
	var mu sync.Mutex
	var events []result.Event
	line := New(faults, 7, "web", p.declare(), time.Now, func(e result.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	})
	err := line.Run(t.Context(), time.Now(), time.Now().Add(time.Hour))
	return line, events, err
}

func TestKinds(t *testing.T) {
	ms := func(n int) experiment.Duration { return experiment.Duration(time.Duration(n) * time.Millisecond) }
	for name, c := range map[string]struct {
		fault experiment.Fault
		want  []string
	}{
		"kill":      {experiment.Fault{Kind: "kill"}, []string{"end 0s web-0/app", "restart web-0/app"}},
		"replica":   {experiment.Fault{Kind: "kill", Target: experiment.FaultTarget{Replica: new(int)}}, []string{"end 0s web-0/app", "restart web-0/app"}},
		"sidecar":   {experiment.Fault{Kind: "kill", Target: experiment.FaultTarget{Plane: "data"}}, []string{"end 0s web-0/sidecar", "restart web-0/sidecar"}},
		"terminate": {experiment.Fault{Kind: "terminate", Grace: ms(20)}, []string{"end 20ms web-0/app", "restart web-0/app"}},
		"pause":     {experiment.Fault{Kind: "pause"}, []string{"freeze true web-0/app", "freeze false web-0/app"}},
		"restart":   {experiment.Fault{Kind: "restart"}, []string{"end 5s web-0/app", "restart web-0/app"}},
		"scale": {experiment.Fault{Kind: "scale", By: -1}, []string{"end 5s web-0/app", "end 5s web-0/sidecar",
			"restart web-0/sidecar", "restart web-0/app"}},
		"latency": {experiment.Fault{Kind: "latency", Delay: ms(5)}, []string{`patch {"delay":"5ms"} web-0/app`, `patch {"undo":1} web-0/app`}},
		"errors": {experiment.Fault{Kind: "errors", Ratio: 0.5, Status: 503},
			[]string{`patch {"errors":{"ratio":0.5,"status":503}} web-0/app`, `patch {"undo":1} web-0/app`}},
		"errors without a status": {experiment.Fault{Kind: "errors", Ratio: 0.5},
			[]string{`patch {"errors":{"ratio":0.5,"status":500}} web-0/app`, `patch {"undo":1} web-0/app`}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPods()
			c.fault.For = ms(1)
			if c.fault.Kind == "restart" {
				c.fault.For = 0
			}
			line, _, err := play(t, p, c.fault)
			must.OK(t, err)
			if !slices.Equal(p.done, c.want) {
				t.Errorf("did %q, want %q", p.done, c.want)
			}
			f := line.Injected()
			if len(f) != 1 || f[0].Healed.IsZero() || f[0].Done.Before(f[0].Start) {
				t.Errorf("recorded %+v", f)
			}
			if err := line.Heal(t.Context(), true); err != nil || len(p.done) != len(c.want) {
				t.Errorf("healed again: %q, %v", p.done, err)
			}
		})
	}
}

// A repeated fault hits each replica once.
func TestRepetition(t *testing.T) {
	for _, pick := range []string{"first", "random"} {
		p := newPods()
		_, events, err := play(t, p, experiment.Fault{Kind: "scale", By: -1, Every: 1e6, Count: 3, Target: experiment.FaultTarget{Pick: pick}})
		must.OK(t, err)
		if down := slices.Sorted(maps.Keys(p.down)); len(down) != 6 || len(events) != 3 {
			t.Errorf("%s: %q are down, %d events", pick, down, len(events))
		}
	}
	p := newPods()
	if _, _, err := play(t, p, experiment.Fault{Kind: "kill", Every: 1e6, Count: 4}); err == nil || !strings.Contains(err.Error(), "0 targets of web") {
		t.Errorf("a fourth of three: %v", err)
	}
}

// scale restarts the tasks of its pod, so it shares no pod with a fault of a task. A network fault can.
func TestPodsAndTasksAreHeld(t *testing.T) {
	latency := experiment.Fault{Kind: "latency", Delay: 1e6}
	remove := experiment.Fault{Kind: "scale", By: -1}
	partition := experiment.Fault{Kind: "partition", Target: experiment.FaultTarget{Pick: "all"}}
	sidecar := experiment.Fault{Kind: "pause", Target: experiment.FaultTarget{Plane: "data"}}
	short, pause := remove, experiment.Fault{Kind: "pause", Target: experiment.FaultTarget{Pick: "all"}}
	short.For = 1e6
	for name, c := range map[string]struct {
		faults []experiment.Fault
		want   string // targets of the last fault
	}{
		"scale beside a task":       {[]experiment.Fault{latency, remove}, "web-1"},
		"scale beside a sidecar":    {[]experiment.Fault{sidecar, remove}, "web-1"},
		"a task beside scale":       {[]experiment.Fault{remove, latency}, "web-1/app"},
		"a network beside a task":   {[]experiment.Fault{latency, partition}, "web-0 web-1 web-2"},
		"a task beside a network":   {[]experiment.Fault{partition, latency}, "web-0/app"},
		"a task of a healed pod":    {[]experiment.Fault{short, pause}, "web-0/app web-1/app web-2/app"},
		"scale after tasks of most": {[]experiment.Fault{latency, latency, remove}, "web-2"},
	} {
		synctest.Test(t, func(t *testing.T) {
			for i := range c.faults {
				c.faults[i].At = experiment.Duration(time.Duration(i) * time.Second)
			}
			line, _, err := play(t, slow{newPods()}, c.faults...)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all := line.Injected()
			if got := strings.Join(all[len(all)-1].Targets, " "); got != c.want {
				t.Errorf("%s: the last fault hit %s, want %s", name, got, c.want)
			}
		})
	}
}

// slow has pods that run until the deployment is removed, as while they drain.
type slow struct{ *pods }

func (s slow) Shrink(context.Context, string, time.Duration) error       { return nil }
func (s slow) Grow(context.Context, string) error                        { return nil }
func (s slow) Impair(context.Context, string, platform.Impairment) error { return nil }
func (s slow) Mend(context.Context, string) error                        { return nil }

func (s slow) declare() *platform.Deployment {
	d := s.pods.declare()
	d.Scaler, d.NetworkFaults = s, s
	return d
}

func TestAllAndTooMany(t *testing.T) {
	p := newPods()
	if _, _, err := play(t, p, experiment.Fault{Kind: "pause", Target: experiment.FaultTarget{Pick: "all"}}); err != nil || len(p.done) != 3 {
		t.Errorf("paused %q, %v", p.done, err)
	}
	_, _, err := play(t, newPods(), experiment.Fault{Kind: "scale", By: 1})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("more than were deployed: %v", err)
	}
	p = newPods()
	if _, _, err := play(t, p, experiment.Fault{Kind: "scale", By: -2}, experiment.Fault{Kind: "scale", By: 1, At: 20e6},
		experiment.Fault{Kind: "latency", At: 40e6, Target: experiment.FaultTarget{Replica: new(int)}}); err != nil {
		t.Fatal(err)
	}
	if up := len(p.Victims()) - 4 + 2; up != 4 || p.down["web-0/app"] {
		t.Errorf("did %q", p.done)
	}
}

// A heal that is due exactly at the end is left to the removal, so that the counters are read on time.
func TestHealAtTheEnd(t *testing.T) {
	for length, want := range map[time.Duration]bool{20 * time.Millisecond: false, 15 * time.Millisecond: true} {
		p := newPods()
		line := New([]experiment.Fault{{Kind: "scale", By: -1, For: experiment.Duration(length)}}, 7, "web", scaled{p}.declare(), time.Now, func(result.Event) {})
		start := time.Now()
		must.OK(t, line.Run(t.Context(), start, start.Add(20*time.Millisecond)))
		if healed := slices.Contains(p.done, "grow web-0/app"); len(p.done) == 0 || healed != want {
			t.Errorf("healed after %v of 20ms: %q", length, p.done)
		}
	}
}

// A mesh without a control plane has no target: an event, not a failure.
func TestNoTarget(t *testing.T) {
	_, events, err := play(t, newPods(), experiment.Fault{Kind: "kill", Target: experiment.FaultTarget{Plane: "control"}})
	if err != nil || len(events) != 1 || !strings.Contains(events[0].Message, "no target") {
		t.Errorf("%v, %+v", err, events)
	}
	_, _, err = play(t, newPods(), experiment.Fault{Kind: "kill", Target: experiment.FaultTarget{Service: "db"}})
	must.Fail(t, err, "db has no replica", "no such service")
}

func TestFailures(t *testing.T) {
	p := newPods()
	p.fail["end 0s"] = errors.New("not permitted")
	if _, _, err := play(t, p, experiment.Fault{Kind: "kill"}); err == nil || !strings.Contains(err.Error(), "faults[0]): end web-0/app: not permitted") {
		t.Errorf("got %v", err)
	}
}

// An interrupted trial leaves no task suspended.
func TestInterrupt(t *testing.T) {
	p := newPods()
	line := New([]experiment.Fault{{Kind: "pause", For: experiment.Duration(time.Hour)}, {Kind: "kill", Target: experiment.FaultTarget{Plane: "data"}}},
		1, "web", p.declare(), time.Now, func(result.Event) {})
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	stopped := make(chan error, 1)
	go func() { stopped <- line.Run(ctx, time.Now(), time.Now().Add(2*time.Hour)) }()
	deadline := time.After(10 * time.Second)
	for len(line.Injected()) < 2 || line.Injected()[0].Done.IsZero() || line.Injected()[1].Done.IsZero() {
		select {
		case <-deadline:
			t.Fatal("nothing was injected")
		case <-time.After(time.Millisecond):
		}
	}
	cancel(enough)
	if err := <-stopped; !errors.Is(err, enough) {
		t.Errorf("ended with %v", err)
	}
	must.OK(t, line.Heal(context.Background(), false))
	if !slices.Contains(p.done, "freeze false web-0/app") || slices.Contains(p.done, "restart web-0/sidecar") {
		t.Errorf("did %q", p.done)
	}
}

func TestEveryKindExists(t *testing.T) {
	for _, k := range experiment.FaultKinds() {
		if _, ok := kinds[k.Name]; !ok {
			t.Errorf("%s exists in the experiment file's table only", k.Name)
		}
	}
	if len(kinds) != len(experiment.FaultKinds()) {
		t.Errorf("%d kinds, %d in the experiment file's table", len(kinds), len(experiment.FaultKinds()))
	}
}
