package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform/local"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/internal/run/timeline"
	"github.com/tare-mesh/tare/test/must"
)

// partitionText cuts the server off from its client for four seconds. On a busy machine the fault begins a second later.
const partitionText = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: partition}
application:
  entry: client
  services:
  - {name: client, calls: [{service: server, timeout: 900ms}]}
  - {name: server}
factors: {mesh: [none, envoy], rate: [50], connections: [120]}
faults:
- {kind: partition, at: 2500ms, for: 4s, target: {service: server}}
expect:
- lost > 50
- success_ratio < 0.75 during fault
phases: {warmup: 1s, measure: 13s, drain: 1s}
blocks: 1
# The machine that tests may be busy with other things: this is no measurement.
validity: {rateShortfall: 0.5, lateness: 1s, unattributed: 0.5}
`

// tables are the tables of nftables that this process has made.
func tables() (names []string, err error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	all, err := conn.ListTables()
	for _, table := range all {
		if strings.HasPrefix(table.Name, fmt.Sprintf("tare-%d-", os.Getpid())) {
			names = append(names, table.Name)
		}
	}
	return names, err
}

func nothingLeft(t *testing.T) {
	t.Helper()
	if left, err := tables(); err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
}

func needsRoot(t *testing.T) {
	t.Helper()
	if err := timeline.Check([]experiment.Fault{{Kind: "partition"}}, local.New(local.Options{}).Declare().Faults); err != nil {
		if os.Getuid() == 0 && !errors.Is(err, os.ErrPermission) {
			t.Fatal(err)
		}
		t.Skipf("not root: %v", err)
	}
}

// heartbeat records when this process waited for a processor.
type heartbeat struct {
	mu      sync.Mutex
	stopped []time.Time // the end of each wait
}

const (
	beat = 10 * time.Millisecond
	// skipped is the lateness of a beat on a busy machine. A request passes half a dozen
	// processes, each of which may wait as long, and the client waits for 900 ms.
	skipped = 50 * time.Millisecond
)

// listen begins to listen, until ctx ends.
func listen(ctx context.Context) *heartbeat {
	h := &heartbeat{}
	go func() {
		ticker := time.NewTimer(beat)
		defer ticker.Stop()
		for last := time.Now(); ctx.Err() == nil; last = time.Now() {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if now := time.Now(); now.Sub(last) > beat+skipped {
				h.mu.Lock()
				h.stopped = append(h.stopped, now)
				h.mu.Unlock()
			}
			ticker.Reset(beat)
		}
	}()
	return h
}

// late reports whether it waited between from and to.
func (h *heartbeat) late(from, to time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.stopped, func(t time.Time) bool { return t.After(from) && t.Before(to) })
}

// A whole trial records the loss of the server, its duration, and its return.
func TestPartitionedTrial(t *testing.T) {
	needsRoot(t)
	if testing.Short() {
		t.Skip("runs whole trials")
	}
	machine := listen(t.Context())
	t.Run("meshes", func(t *testing.T) {
		for _, name := range []string{"none", "envoy"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				partitioned(t, name, machine)
			})
		}
	})
	nothingLeft(t)
}

func partitioned(t *testing.T, mesh string, machine *heartbeat) {
	cfg, _ := real(t, strings.Replace(partitionText, "[none, envoy]", "["+mesh+"]", 1))
	records := ran(t, cfg, 1, -1)
	r := records[0]
	if r.Error != "" || len(r.Faults) != 1 || r.Faults[0].Healed.IsZero() {
		t.Fatalf("%s: %s, faults %+v", r.ID, r.Error, r.Faults)
	}
	for _, o := range r.Expectations {
		t.Logf("%s: %s: %s", r.ID, o.Expect, o.Detail)
		if !o.OK {
			t.Errorf("%s: does not hold: %s: %s", r.ID, o.Expect, o.Detail)
		}
	}
	cutOff(t, cfg, r, machine)
}

const (
	// partitionHeal is when the partition is taken back, from the start of the measure phase, and callTimeout
	// how long the client waits for its server, both in partitionText.
	partitionHeal = 6500 * time.Millisecond
	callTimeout   = 900 * time.Millisecond
	// reconnecting is more than TCP takes to try again that failed while the server was away.
	reconnecting = 4 * time.Second
)

// cutOff checks the trial's seconds against the times of its own fault. During the
// fault nothing is answered: a request due in one of its seconds takes at least from
// the end of that second to the end of the fault. Before the fault, and after TCP has
// recovered, all requests are answered. Seconds in which this process waited for a
// processor are excluded, and after the fault some requests succeed in any case.
func cutOff(t *testing.T, cfg runner.Config, r result.Record, machine *heartbeat) {
	t.Helper()
	f, heal := r.Faults[0], r.Load.Start.Add(partitionHeal)
	seconds := map[int]map[string]*hdrhistogram.Histogram{}
	file := must.Get(os.Open(cfg.Dir.TrialFile(r.ID, result.LatencyFile)))(t)
	defer file.Close()
	first, n := r.Load.Window()
	must.OK(t, hdrlog.ReadSeconds(file, func(second int, tag string, h *hdrhistogram.PackedHistogram) error {
		if i := second - first; i >= 0 && i < n && strings.HasPrefix(tag, load.TagResponse) {
			if seconds[i] == nil {
				seconds[i] = map[string]*hdrhistogram.Histogram{}
			}
			seconds[i][strings.TrimPrefix(tag, load.TagResponse)] = hdrlog.Dense(h)
		}
		return nil
	}))
	const rounded = 0.99 // a histogram's three digits
	within, before, after, answered := 0, 0, 0, int64(0)
	for i, by := range seconds {
		from := r.Load.Start.Add(time.Duration(i) * time.Second)
		to := from.Add(time.Second)
		ok := by[string(load.OK)]
		switch {
		case !from.Before(f.Done) && !to.After(heal):
			within++
			if least := heal.Sub(to); ok != nil && float64(ok.Min()) < rounded*float64(least) {
				t.Errorf("%s: second %d: a request was answered after %v, and the server was away for %v more", r.ID, i, time.Duration(ok.Min()), least)
			}
			continue
		case !to.After(f.Start):
			before++
		case !from.Before(f.Healed.Add(reconnecting)):
			after++
		default:
			continue
		}
		if from.After(f.Healed) && ok != nil {
			answered += ok.TotalCount()
		}
		for tag, h := range by {
			if tag != string(load.OK) && !machine.late(from.Add(-callTimeout), to.Add(callTimeout)) {
				t.Errorf("%s: second %d: %d requests failed (%s), the fault was from %v to %v", r.ID, i, h.TotalCount(), tag,
					f.Start.Sub(r.Load.Start), f.Healed.Sub(r.Load.Start))
			}
		}
	}
	if answered == 0 {
		t.Errorf("%s: nothing was answered after the fault", r.ID)
	}
	if within == 0 || before == 0 || after == 0 {
		t.Errorf("%s: %d whole seconds within the fault, %d before, %d after: %+v", r.ID, within, before, after, f)
	}
}

// An interrupt during a partition leaves the network unchanged.
func TestInterruptedPartition(t *testing.T) {
	needsRoot(t)
	cfg, sink := real(t, strings.NewReplacer("[none, envoy]", "[none]", "at: 2500ms, for: 4s", "at: 100ms", "warmup: 1s", "warmup: 200ms").Replace(partitionText))
	ctx, interrupt := context.WithCancelCause(t.Context())
	held := make(chan bool, 1)
	sink.on = func(e result.Event) {
		if e.Kind != result.KindFault {
			return
		}
		go func() { // the event is earlier than the injection
			found := false
			for deadline := time.Now().Add(2 * time.Second); !found && time.Now().Before(deadline); {
				<-time.After(10 * time.Millisecond)
				names, err := tables()
				found = err == nil && len(names) == 1
			}
			held <- found
			interrupt(errors.New("interrupted"))
		}()
	}
	_, err := runner.Run(ctx, cfg)
	var interrupted *runner.Interrupted
	if !errors.As(err, &interrupted) {
		t.Fatalf("ended with %v", err)
	}
	if !<-held {
		t.Error("nothing was cut off")
	}
	nothingLeft(t)
}
