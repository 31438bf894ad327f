package runner_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

const refresh = 1500 * time.Millisecond

type refreshPlatform struct{}

func (refreshPlatform) Refresh() time.Duration     { return refresh }
func (refreshPlatform) NodeRefresh() time.Duration { return time.Second } // as in [findingMeter]

// refreshMeter repeats a reading for a refresh interval. Each task has its own phase,
// as in a kubelet.
type refreshMeter struct {
	meter.Meter
	mu   sync.Mutex
	kept map[string]result.Reading
	all  map[string][]result.Reading // without repetitions
	down func() bool                 // nothing can be read
}

func (m *refreshMeter) Read(ctx context.Context, tasks []platform.Task, depth meter.Depth) (meter.Look, error) {
	l, err := m.Meter.Read(ctx, tasks, depth)
	if err != nil {
		return l, err
	}
	if m.down != nil && m.down() {
		return meter.Look{Gap: errors.New("connection refused"), NodeErr: errors.New("connection refused")}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept, m.all = map[string]result.Reading{}, map[string][]result.Reading{}
	}
	for id, r := range l.Tasks {
		if was, ok := m.kept[id]; ok && r.At.Sub(was.At) < refresh*2/3 {
			continue
		}
		m.kept[id] = r
		m.all[id] = append(m.all[id], r)
	}
	l.Tasks = maps.Clone(m.kept)
	return l, nil
}

func refreshConfig(t *testing.T, f *fake, measure time.Duration) (runner.Config, *refreshMeter) {
	cfg, _ := fakeConfig(t, f, "")
	cfg.Experiment.Phases.Measure = experiment.Duration(measure)
	cfg.Experiment.Phases.Idle = experiment.Idle{CPU: 5, Deadline: experiment.Duration(10 * time.Second)}
	m := &refreshMeter{Meter: cfg.Meter}
	cfg.Meter, cfg.Platform.CounterRefresh = m, refreshPlatform{}
	return cfg, m
}

func onlyRecord(t *testing.T, cfg runner.Config) result.Record {
	t.Helper()
	return ran(t, cfg, -1, -1)[0]
}

func warned(r result.Record, code string) string {
	if i := slices.IndexFunc(r.Warnings, func(w result.Warning) bool { return w.Code == code }); i >= 0 {
		return r.Warnings[i].Message
	}
	return ""
}

// Readings of counters with a refresh interval replace the edges: under
// load, and around a measure phase shorter than the interval. No other two readings
// are nearer to the edges.
func TestPacedCounters(t *testing.T) {
	t.Parallel()
	for name, measure := range map[string]time.Duration{"shorter than a refresh": 300 * time.Millisecond, "longer": 4 * refresh} {
		t.Run(name, func(t *testing.T) {
			if measure > refresh && testing.Short() {
				t.Skip("waits for 9 s")
			}
			t.Parallel()
			cfg, m := refreshConfig(t, &fake{}, measure)
			r := onlyRecord(t, cfg)
			if r.Error != "" || !r.Valid {
				t.Fatalf("%s %+v", r.Error, r.Warnings)
			}
			if got := r.Load.WarmupSeconds; got < 1.5*refresh.Seconds()-0.001 {
				t.Errorf("the warm-up is %v s, shorter than one and a half refreshes", got)
			}
			loaded := r.Load.Start.Add(-time.Duration(r.Load.WarmupSeconds * 1e9)).Add(runner.Ramp)
			// The load continues for a tail after the measure phase. Later readings are not under load.
			_, tail := runner.PhasesForRefresh(cfg.Experiment.Phases, refresh)
			done := r.Load.End.Add(max(tail, cfg.Timing.Tail))
			var farthest time.Duration // of a reading from the edge it stands for
			for _, u := range r.Tasks {
				farthest = max(farthest, u.Start.At.Sub(r.Load.Start).Abs(), u.End.At.Sub(r.Load.End).Abs())
				used := u.Start.At.Sub(r.Load.Start).Abs() + u.End.At.Sub(r.Load.End).Abs()
				if d := difftest.Wrong(`u.Missing != ""`, u.Missing != "", "u.Start.At.Before(loaded)", u.Start.At.Before(loaded), "!u.End.At.After(u.Start.At)", !u.End.At.After(u.Start.At), "u.End.At.After(done.Add(clocks))", u.End.At.After(done.Add(clocks))); d != "" {
					t.Errorf("%s: %s %q: read at %v and %v, counted from the beginning of a measure phase of %v", d, u.ID, u.Missing, u.Start.At.Sub(r.Load.Start), u.End.At.Sub(r.Load.Start), measure)
				}
				readings := m.all[u.ID]
				if !slices.ContainsFunc(readings, func(r result.Reading) bool { return r.CPU == u.Start.CPU }) ||
					!slices.ContainsFunc(readings, func(r result.Reading) bool { return r.CPU == u.End.CPU }) {
					t.Fatalf("%s: the counters used are none that were read", u.ID)
				}
				for i, a := range readings {
					for _, b := range readings[i+1:] {
						off := a.At.Sub(r.Load.Start).Abs() + b.At.Sub(r.Load.End).Abs()
						if !a.At.Before(loaded.Add(clocks)) && !b.At.After(done.Add(-clocks)) && off < used-clocks {
							t.Errorf("%s: readings at %v and %v are %v from the edges, those used %v", u.ID,
								a.At.Sub(r.Load.Start), b.At.Sub(r.Load.Start), off, used)
						}
					}
				}
			}
			if got, want := warned(r, "warm-up-raised"), "2.25s, not the 50ms"; !strings.Contains(got, want) {
				t.Errorf("%q, want %q in it", got, want)
			}
			// Refreshes may coincide with the edges, but not around a phase shorter than the refresh interval.
			if measure < refresh && farthest < runner.Promptly {
				t.Errorf("both edges were read within %v", farthest)
			}
			got := warned(r, "counters-paced")
			if near := (farthest - runner.Promptly).Abs() < clocks; !near && strings.Contains(got, "at most") != (farthest >= runner.Promptly) {
				t.Errorf("readings up to %v from the edges: %q", farthest, got)
			}
			if warned(r, "meter-gap") != "" {
				t.Errorf("there was no gap: %+v", r.Warnings)
			}
		})
	}
}

// clocks is the allowed distance of the trial's clock from the wall clock.
const clocks = 20 * time.Millisecond

// The record has the CPU of a node outside its pods, beside the deployment's tasks.
// Without refreshes of these counters it has the reason, and the others are used.
func TestFoundTasks(t *testing.T) {
	t.Parallel()
	for name, still := range map[string]bool{"refreshed": false, "never refreshed": true} {
		t.Run(name, func(t *testing.T) {
			if still && testing.Short() {
				t.Skip("waits for 6 s")
			}
			t.Parallel()
			cfg, m := refreshConfig(t, &fake{}, 2*refresh)
			cfg.Meter = &findingMeter{refreshMeter: m, still: still}
			r := onlyRecord(t, cfg)
			if r.Error != "" || !r.Valid {
				t.Fatalf("%s %+v", r.Error, r.Warnings)
			}
			i := slices.IndexFunc(r.Tasks, func(u result.TaskUsage) bool { return u.ID == "n/kernel" && u.Plane == metric.Node })
			if i < 0 {
				t.Fatalf("no task of the node: %+v", r.Tasks)
			}
			if u := r.Tasks[i]; (u.End.CPU > u.Start.CPU) == still || strings.Contains(u.Missing, "two are needed") != still {
				t.Errorf("%+v %+v", u, r.Warnings)
			}
		})
	}
}

type findingMeter struct {
	*refreshMeter
	still bool
}

func (m *findingMeter) Read(ctx context.Context, tasks []platform.Task, depth meter.Depth) (meter.Look, error) {
	l, err := m.refreshMeter.Read(ctx, tasks, depth)
	if err != nil || m.still && len(m.kept) == 0 {
		return l, err
	}
	id := "n/kernel"
	l.Found = []platform.Task{{Task: mesh.Task{ID: id, Plane: metric.Node, Role: mesh.RoleRemainder}}}
	at := time.Now().Truncate(time.Second)
	if m.still {
		at = time.Unix(1000, 0)
	}
	l.Tasks[id] = result.Reading{At: at, CPU: at.UnixNano() / 10}
	return l, err
}

// A temporarily unreachable source causes a warning and does not end the trial.
func TestMeterGap(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for 12 s")
	}
	t.Parallel()
	cfg, m := refreshConfig(t, &fake{}, 6*refresh)
	var begin sync.Once
	var from time.Time
	sink := &events{on: func(e result.Event) {
		if e.Phase == "measure" {
			begin.Do(func() { m.mu.Lock(); from = time.Now().Add(refresh); m.mu.Unlock() })
		}
	}}
	cfg.Sinks = append(cfg.Sinks, sink)
	m.down = func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return !from.IsZero() && time.Now().After(from) && time.Since(from) < 2*refresh
	}
	r := onlyRecord(t, cfg)
	if r.Error != "" || !r.Valid || !strings.Contains(warned(r, "meter-gap"), "connection refused") {
		t.Fatalf("%s %+v", r.Error, r.Warnings)
	}
	for _, u := range r.Tasks {
		if u.Missing != "" {
			t.Errorf("%s: %s", u.ID, u.Missing)
		}
	}
}

// A deployment that is never idle is measured, with warnings about CPU and memory.
func TestNeverIdle(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]experiment.Idle{"of CPU": {CPU: 0}, "of memory": {CPU: 1000, Memory: 1}} {
		t.Run(name, func(t *testing.T) {
			if limits.Memory > 0 && testing.Short() {
				t.Skip("waits for 7 s")
			}
			t.Parallel()
			f := &fake{tasks: func(l []platform.Task) []platform.Task {
				l[0].Plane = metric.App // this test's own process, which is never idle
				return l
			}}
			cfg, _ := refreshConfig(t, f, 300*time.Millisecond)
			cfg.Experiment.Phases.Idle = limits
			cfg.Experiment.Phases.Idle.Deadline = experiment.Duration(time.Second)
			r := onlyRecord(t, cfg)
			if !strings.Contains(warned(r, "not-settled"), " MiB") || !strings.Contains(warned(r, "not-drained"), " cores and ") || r.Load == nil {
				t.Errorf("%s %+v", r.Error, r.Warnings)
			}
			var phases []string
			for _, p := range r.Phases {
				phases = append(phases, p.Name)
			}
			if want := []string{"deploy", "verify", "settle", "warm-up", "measure", "drain"}; len(phases) < len(want) || !slices.Equal(phases[:len(want)], want) {
				t.Errorf("phases %v, want %v", phases, want)
			}
		})
	}
}

// twoOfThree lets two load workers start.
type twoOfThree struct{ platform.Deployer }

func (p twoOfThree) Deploy(ctx context.Context, spec platform.Spec) (*platform.Deployment, error) {
	d, err := p.Deployer.Deploy(ctx, spec)
	if err != nil {
		return nil, err
	}
	d.Running = &failingThird{Running: d.Running}
	return d, nil
}

type failingThird struct {
	platform.Running
	started int
}

func (d *failingThird) StartLoad(ctx context.Context, cmd proc.Command) (platform.Process, error) {
	if d.started++; d.started == 3 {
		return nil, errors.New("no room")
	}
	return d.Running.StartLoad(ctx, cmd)
}

// The load lasts two refreshes of the nodes' counters, and never more than one of them longer. A measure phase
// below one refresh is not lengthened.
func TestNodeTail(t *testing.T) {
	for _, c := range []struct{ warmup, measure, refresh, want time.Duration }{
		{5 * time.Second, 10 * time.Second, 16 * time.Second, 0},
		{5 * time.Second, 20 * time.Second, 16 * time.Second, 13 * time.Second},
		{24 * time.Second, 20 * time.Second, 16 * time.Second, 0},
		{time.Second, 16 * time.Second, 16 * time.Second, 16 * time.Second},
		{5 * time.Second, 70 * time.Second, 16 * time.Second, 0},
		{5 * time.Second, 20 * time.Second, 0, 0},
	} {
		if got := runner.NodeTail(experiment.Phases{Measure: experiment.Duration(c.measure)}, c.warmup, c.refresh); got != c.want {
			t.Errorf("warm-up %v, measure %v, refresh %v: %v, want %v", c.warmup, c.measure, c.refresh, got, c.want)
		}
	}
}

// Half a refresh beside each edge, where CPU differs by 5 %, is 2 % of a phase of two and a half refreshes.
func TestMinMeasure(t *testing.T) {
	for _, c := range []struct{ refresh, measure, want time.Duration }{
		{0, time.Second, 0}, {20 * time.Second, 50 * time.Second, 50 * time.Second}, {20 * time.Second, 30 * time.Second, 50 * time.Second}, {10 * time.Second, 30 * time.Second, 25 * time.Second},
	} {
		short := runner.ShortMeasure(experiment.Phases{Measure: experiment.Duration(c.measure)}, c.refresh)
		if got := runner.MinMeasure(c.refresh); got != c.want || (short != "") != (c.measure < c.want) {
			t.Errorf("%v: %v, want %v; %q", c.refresh, got, c.want, short)
		}
	}
	must.Contain(t, runner.ShortMeasure(experiment.Phases{Measure: experiment.Duration(30 * time.Second)}, 20*time.Second), "is up to 3 %", "with 50s or more")
}
