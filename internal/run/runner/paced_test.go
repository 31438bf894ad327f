package runner_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/test/must"
)

const quickRefresh = 150 * time.Millisecond

// quickRefreshPlatform has counters with a short refresh interval.
type quickRefreshPlatform struct{}

func (quickRefreshPlatform) Refresh() time.Duration     { return quickRefresh }
func (quickRefreshPlatform) NodeRefresh() time.Duration { return quickRefresh }

// quickRefreshMeter repeats a reading of a task until the refresh interval is over.
type quickRefreshMeter struct {
	meter.Meter
	mu   sync.Mutex
	kept map[string]result.Reading
}

func (m *quickRefreshMeter) Read(ctx context.Context, tasks []platform.Task, depth meter.Depth) (meter.Look, error) {
	l, err := m.Meter.Read(ctx, tasks, depth)
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, r := range l.Tasks {
		if was, ok := m.kept[id]; !ok || r.At.Sub(was.At) >= quickRefresh {
			m.kept[id] = r
		}
	}
	l.Tasks = maps.Clone(m.kept)
	return l, err
}

// The planned refresh interval is replaced by the measured one before the first trial.
func TestTimesByMeasuredRefresh(t *testing.T) {
	t.Parallel()
	f := &fake{}
	cfg, sink := fakeConfig(t, f, "")
	const planned = 20 * time.Second
	cfg.Platform.CounterRefresh, cfg.Refresh, cfg.TrialTime = quickRefreshPlatform{}, planned, 3*time.Minute
	must.Get(runner.Run(t.Context(), cfg))(t)
	x := cfg.Experiment.Phases
	want := cfg.TrialTime - runner.RefreshExtra(x, planned) + runner.RefreshExtra(x, quickRefresh)
	at := slices.IndexFunc(sink.all, func(e result.Event) bool { return e.Kind == result.KindTimes })
	if at != 1 || sink.all[at].Run.TrialTime != want || want > 2*time.Minute {
		t.Errorf("event %d, want 1, of %v: %+v", at, want, sink.all[:2])
	}
}

// Without node agents the slices of a round are as long as the refresh of counters requires. Shorter ones are refused,
// with the length that is enough.
func TestRoundOfRefreshedCounters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length time.Duration
		failed int
	}{"long slices": {4 * time.Second, 0}, "short slices": {quickRefresh, 2}} {
		t.Run(name, func(t *testing.T) {
			if c.failed == 0 && testing.Short() {
				t.Skip("waits for slices of 4 s")
			}
			t.Parallel()
			f := &fake{}
			cfg, _ := fakeRun(t, strings.NewReplacer("[none, envoy]", "[none]", "blocks: 1", "blocks: 1\nslices: {length: 150ms}", "measure: 1s", "measure: 1500ms").Replace(fakeRoundText), f, "")
			cfg.Dir.Plan().Slices.Length, cfg.Dir.Plan().Slices.Measure = c.length, 1
			cfg.Experiment.Phases.Idle = experiment.Idle{CPU: 99, Deadline: 10 * experiment.Duration(time.Second)}
			cfg.Platform.CounterRefresh, cfg.Meter = quickRefreshPlatform{}, &quickRefreshMeter{Meter: cfg.Meter, kept: map[string]result.Reading{}}
			summary, err := runner.Run(context.Background(), cfg)
			if err != nil || summary.Failed != c.failed || summary.Recorded != 2 {
				t.Fatalf("%+v, %v, %q", summary, err, failures(cfg))
			}
			if c.failed > 0 {
				if all := failures(cfg); !strings.Contains(all[0], "slices of 150ms are shorter than 3 times the 1s between two readings of a counter") {
					t.Errorf("%q", all)
				}
				return
			}
			records := must.Get(cfg.Dir.Records())(t)
			for _, r := range records {
				rows, err := result.ReadSlices(cfg.Dir.TrialFile(r.ID, result.SlicesFile))
				if err != nil || len(rows) != 2 {
					t.Fatalf("%s: %d slices, %v", r.ID, len(rows), err)
				}
				if warned(r, "warm-up-raised") != "" || warned(r, "measure-short") != "" || warned(r, "counters-paced") != "" {
					t.Errorf("%s: %+v", r.ID, r.Warnings)
				}
				for _, u := range r.Tasks {
					if u.Missing != "" || u.End.CPU < u.Start.CPU || u.IdleCPU == nil {
						t.Errorf("%s: %+v", r.ID, u)
					}
				}
			}
			noLoadLeft(t, f)
		})
	}
}
