package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// lane is one worker as the engine sees it. All methods but stop are called, in
// this order, on the worker's own locked thread.
type lane interface {
	// prewarm opens the connections.
	prewarm() error
	// run carries out the worker's share of the schedule from t0 and returns what it counted.
	run(t0 time.Time) *totals
	// stop makes run stop sending and return when nothing is under way. Any thread may call it.
	stop()
	// close frees what the worker holds, once run has returned and nobody calls stop.
	close()
}

// lead is the time between the agreement on t0 and t0: enough for every worker
// to be woken and waiting.
const lead = 5 * time.Millisecond

// Backoff of a connection that cannot be opened, doubling from first to last.
const (
	firstBackoff = int64(time.Millisecond)
	lastBackoff  = int64(time.Second)
)

// maxOpening bounds the connections a worker opens at once before the start, so
// that a server's accept queue is not flooded.
const maxOpening = 64

// engine is one load run.
type engine struct {
	name    string // "epoll" or "portable"
	profile Profile
	targets []target
	turns   []int   // order in which the targets are visited
	replay  []int64 // instants to replay
	collect *collector
	host    *hostWatch
	spin    time.Duration
	body    []byte // of every request
	lookup  lookup
}

// Run carries out p and reports what happened. progress, unless nil, is called
// once a second, from one goroutine. When ctx ends, Run stops sending, waits for
// what is under way, at most p.Drain, and reports what was measured so far; that
// is no error. It fails if p is invalid ([Profile.Validate]), a host cannot be
// looked up, or the machine refuses what the engine needs.
func Run(ctx context.Context, p Profile, progress func(Progress)) (Report, error) {
	return run(ctx, p, progress, net.DefaultResolver.LookupNetIP)
}

func run(ctx context.Context, p Profile, progress func(Progress), look lookup) (Report, error) {
	if err := p.Validate(); err != nil {
		return Report{}, fmt.Errorf("load profile: %w", err)
	}
	p = p.withDefaults()
	body, err := p.body()
	if err != nil {
		return Report{}, err
	}
	targets, err := resolveTargets(ctx, &p, body, look)
	if err != nil {
		return Report{}, err
	}
	e := &engine{profile: p, body: body, lookup: look, targets: targets, turns: p.turns(), spin: p.spin(allowedCPUs())}
	if p.Arrivals == Replay && p.Rate > 0 {
		if e.replay, err = readInstants(p.ReplayFile); err != nil {
			return Report{}, err
		}
	}
	e.collect = newCollector(&e.profile, progress)
	e.name = e.choose()
	lanes, err := e.lanes()
	defer func() {
		for _, l := range lanes {
			l.close()
		}
	}()
	if err != nil {
		return Report{}, fmt.Errorf("prepare load worker: %w", err)
	}
	var floor Quantiles
	if p.Calibrate > 0 {
		if floor, err = calibrate(ctx, p); err != nil {
			return Report{}, err
		}
	}
	r, err := e.run(ctx, lanes)
	r.FloorMS = floor
	return r, err
}

// choose names the engine: the system's own, unless the profile asks for the
// portable one.
func (e *engine) choose() string { return cmp.Or(e.profile.Engine, nativeEngine) }

func (e *engine) lanes() ([]lane, error) {
	if e.name == enginePortable {
		return e.portableLanes()
	}
	return e.nativeLanes()
}

// schedule is worker i's share.
func (e *engine) schedule(i int) schedule {
	p := &e.profile
	return newSchedule(p, e.replay, p.Part*p.Workers+i, max(1, p.Parts)*p.Workers)
}

// quota is how many requests worker i may send in the measure window.
func (e *engine) quota(i int) int64 {
	p := &e.profile
	if p.Requests == 0 {
		return math.MaxInt64
	}
	return int64(share(int(p.Requests), max(1, p.Parts)*p.Workers, p.Part*p.Workers+i))
}

// quotas are those of all workers of this process.
func (e *engine) quotas() int64 {
	if e.profile.Requests == 0 {
		return math.MaxInt64
	}
	var sum int64
	for i := range e.profile.Workers {
		sum += e.quota(i)
	}
	return sum
}

// spin is the spin window to use where n processors may be used: by default
// only where a core is left for each worker beside one for its server, since a
// core taken from the system under test is worse than a late send.
func (p *Profile) spin(cpus int) time.Duration {
	switch {
	case p.Spin < 0 || p.Rate == 0:
		return 0
	case p.Spin > 0:
		return p.Spin
	case len(p.CPUs) >= p.Workers+1, len(p.CPUs) == 0 && cpus >= 2*p.Workers+2:
		return defaultSpin
	}
	return 0
}

func (e *engine) run(ctx context.Context, lanes []lane) (Report, error) {
	var (
		begin   = make(chan time.Time)
		ready   = make(chan error, len(lanes))
		results = make([]*totals, len(lanes))
		running sync.WaitGroup
	)
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-over:
		case <-ctx.Done():
			for _, l := range lanes {
				l.stop()
			}
		}
	}()
	defer func() {
		close(over)
		<-watched
	}()
	for i, l := range lanes {
		running.Go(func() {
			// Never unlocked: the thread, with its timer slack and its pinning,
			// ends with the goroutine.
			runtime.LockOSThread()
			ready <- e.prepare(i, l)
			if t0, ok := <-begin; ok {
				results[i] = l.run(t0)
			}
		})
	}
	var errs []error
	for range lanes {
		errs = append(errs, <-ready)
	}
	if err := errors.Join(errs...); err != nil {
		close(begin)
		running.Wait()
		return Report{}, fmt.Errorf("prepare load worker: %w", err)
	}
	t0, late := e.startTime(time.Now())
	e.collect.start(len(lanes))
	for range lanes {
		begin <- t0
	}
	ended := make(chan struct{})
	e.host = watchHost(t0.Add(e.profile.Warmup), e.profile.Measure, ended)
	running.Wait()
	close(ended)
	e.collect.finish()
	report := e.report(t0, results)
	if late > 0 {
		report.warn("the load started %v after the agreed start: opening the connections took longer than expected", late.Round(time.Millisecond))
	}
	return report, e.writeLog(t0)
}

func (e *engine) prepare(i int, l lane) error {
	cpu := -1
	if n := len(e.profile.CPUs); n > 0 && e.name != enginePortable {
		cpu = e.profile.CPUs[i%n]
	}
	if err := prepareThread(cpu); err != nil {
		return fmt.Errorf("pin worker %d to cpu %d: %w", i, cpu, err)
	}
	return l.prewarm()
}

// startTime is t0, with the monotonic clock from here on, and how much later it
// is than the profile asked.
func (e *engine) startTime(now time.Time) (t0 time.Time, late time.Duration) {
	if e.profile.Start.IsZero() {
		return now.Add(lead), 0
	}
	wait := e.profile.Start.Round(0).Sub(now.Round(0)) // by the wall clock, which others share
	return now.Add(max(wait, lead)), max(0, lead-wait)
}

// writeLog writes the interval log to a temporary name first: a log is there whole or not at all.
func (e *engine) writeLog(t0 time.Time) (err error) {
	path := e.profile.HDRPath
	if path == "" {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".hdr-*")
	if err != nil {
		return fmt.Errorf("write interval log: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("write interval log: %w", err)
		}
	}()
	if err = errors.Join(writeLog(f, t0, e.collect.seconds), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// share is what part i of n gets of a whole that is shared out evenly, exactly.
func share(whole, n, i int) int {
	s := whole / n
	if i < whole%n {
		s++
	}
	return s
}
