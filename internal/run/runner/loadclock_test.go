package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// aheadBy is the lead of the clock of a load worker.
const aheadBy = 250 * time.Millisecond

// fastClock is a platform with a load worker whose clock is ahead. It drifts by 4 ms during the load.
type fastClock struct {
	platform.Deployer
	asked *atomic.Int32
}

func (p fastClock) Deploy(ctx context.Context, spec platform.Spec) (*platform.Deployment, error) {
	d, err := p.Deployer.Deploy(ctx, spec)
	if err != nil {
		return nil, err
	}
	d.LoadWorkers, d.Running = p, fastWorker{d.Running}
	return d, nil
}

func (fastClock) LoadWorkers() int { return 1 }

func (p fastClock) LoadClock(context.Context, int) (ahead, unsure time.Duration, err error) {
	if p.asked.Add(1) == 1 {
		return aheadBy, time.Millisecond, nil
	}
	return aheadBy + 4*time.Millisecond, 2 * time.Millisecond, nil
}

// fastWorker starts a load worker on this machine as one whose clock is ahead: it begins earlier by this machine's clock.
type fastWorker struct{ platform.Running }

func (w fastWorker) StartLoad(ctx context.Context, cmd proc.Command) (platform.Process, error) {
	text, err := io.ReadAll(cmd.Stdin)
	if err != nil {
		return nil, err
	}
	var p load.Profile
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, err
	}
	p.Start = p.Start.Add(-aheadBy)
	if text, err = json.Marshal(p); err != nil {
		return nil, err
	}
	cmd.Stdin = bytes.NewReader(text)
	return w.Running.StartLoad(ctx, cmd)
}

// The load of a worker whose clock is ahead begins when it should, and the error of its clock is a part of what changes show.
func TestClockOfTheLoadWorker(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("[none, envoy]", "[none]", "measure: 1500ms", "measure: 2500ms").Replace(realText) + "changes: {every: 400ms, count: 2, kinds: [route-changed]}\n"
	cfg, _ := real(t, text)
	cfg.Platform.Deployer = fastClock{cfg.Platform.Deployer, new(atomic.Int32)}
	cfg.Timing.Lead = 1500e6
	r := ran(t, cfg, -1, 0)[0]
	if r.Error != "" || len(r.Changes) != 2 {
		t.Fatalf("%s: %+v", r.Error, r.Changes)
	}
	if r.ChangeClockMS == nil || *r.ChangeClockMS != 6 {
		t.Errorf("error of the clock: %v ms, want 6: 4 of drift, and 2 of its measurement", r.ChangeClockMS)
	}
	shown := 0
	for i, c := range r.Changes { // the application has the new version when it accepts it
		if c.FirstNew == nil { // on a busy machine the load may end first
			continue
		}
		shown++
		if accepted := 1000 * (c.AcceptedSeconds - c.SentSeconds); c.FirstNew.AfterMS > accepted {
			t.Errorf("change %d: accepted after %v ms, first effect %+v", i+1, accepted, c.FirstNew)
		}
	}
	if shown == 0 {
		t.Errorf("no answer shows a change: %+v", r.Changes)
	}
}
