package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
)

// threeWorkers is a platform whose deployments have three load workers.
type threeWorkers struct{ platform.Deployer }

func (p threeWorkers) Deploy(ctx context.Context, spec platform.Spec) (*platform.Deployment, error) {
	d, err := p.Deployer.Deploy(ctx, spec)
	if err != nil {
		return nil, err
	}
	d.LoadWorkers = p
	return d, nil
}

func (threeWorkers) LoadWorkers() int { return 3 }

func (threeWorkers) LoadClock(context.Context, int) (ahead, unsure time.Duration, err error) {
	return 0, 0, nil
}

// Three workers share one load exactly, request for request, and write one interval log.
func TestLoadIsSharedExactly(t *testing.T) {
	t.Parallel()
	text := strings.Replace(strings.Replace(realText, "[none, envoy]", "[none]", 1), "rate: [300]", "rate: [70]", 1) + "load: {arrivals: constant}\n"
	cfg, _ := real(t, strings.Replace(text, "measure: 1500ms", "measure: 1s", 1))
	cfg.Platform.Deployer = threeWorkers{cfg.Platform.Deployer}
	cfg.Timing.Lead = 1500e6 // the machine may be busy, and all must be ready at the start
	records := ran(t, cfg, -1, 0)
	r := records[0]
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	for name, n := range map[string]struct{ got, want int64 }{
		"intended": {r.Load.Intended, 70}, "sent": {r.Load.Sent, 70}, "2xx": {r.Load.Classes["2xx"], 70}, "rate": {int64(r.Load.AskedRate), 70},
		"connections": {int64(r.Load.Connections), 4}, "workers": {int64(r.Load.Workers), 3},
	} {
		if n.got != n.want {
			t.Errorf("%s: %d, want %d", name, n.got, n.want)
		}
	}
	var loads int
	for _, task := range r.Tasks {
		if strings.HasPrefix(task.ID, "load/load") {
			loads++
		}
	}
	if loads != 3 {
		t.Errorf("%d load workers among the tasks, want 3", loads)
	}
	first, n := r.Load.Window()
	seconds := must.Get(expect.ReadSeconds(cfg.Dir.TrialFile(r.ID, result.LatencyFile), first, n))(t)
	for i, s := range seconds {
		// The warm-up is half a second: the log's seconds begin with it.
		if s.OK != 70 {
			t.Errorf("second %d has %d requests, want 70", i, s.OK)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(cfg.Dir.TrialFile(r.ID, result.LatencyFile)), "parts")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the workers' own logs remain: %v", err)
	}
}

// If one worker cannot be started the others are ended, and no part of a log remains.
func TestAWorkerThatDoesNotStart(t *testing.T) {
	cfg, _ := real(t, strings.Replace(realText, "[none, envoy]", "[none]", 1))
	cfg.Platform.Deployer = twoOfThree{threeWorkers{cfg.Platform.Deployer}}
	r := ran(t, cfg, -1, 1)[0]
	must.Contain(t, r.Error, "no room")
	if _, err := os.Stat(filepath.Join(filepath.Dir(cfg.Dir.TrialFile(r.ID, result.LatencyFile)), "parts")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the workers' own logs remain: %v", err)
	}
}
