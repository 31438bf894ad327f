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

// job is one load, prepared: all that its workers need. Only the collector changes.
type job struct {
	profile Profile
	targets []target
	turns   []int   // order in which the targets are visited
	replay  []int64 // instants to replay
	collect *collector
	spin    time.Duration
	body    []byte // of every request
	lookup  lookup
}

// prepareJob reads the profile's files, looks the targets' hosts up and encodes the
// requests. p is complete and valid.
func prepareJob(ctx context.Context, p Profile, progress func(Progress), look lookup) (*job, error) {
	body, err := requestBody(&p)
	if err != nil {
		return nil, err
	}
	targets, err := resolveTargets(ctx, &p, body, look)
	if err != nil {
		return nil, err
	}
	j := &job{profile: p, body: body, lookup: look, targets: targets, turns: turnsOf(&p), spin: spinWindow(&p, allowedCPUs())}
	if p.Arrivals == Replay && p.Rate > 0 {
		if j.replay, err = readInstants(p.ReplayFile); err != nil {
			return nil, err
		}
	}
	j.collect = newCollector(&j.profile, progress)
	return j, nil
}

// engine is one load run.
type engine struct {
	*job
	name string // EngineEpoll or EnginePortable
	host *hostWatch
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
	j, err := prepareJob(ctx, p, progress, look)
	if err != nil {
		return Report{}, err
	}
	e := &engine{job: j}
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

// choose names the engine: the profile's, or the system's own.
func (e *engine) choose() string { return cmp.Or(e.profile.Engine, NativeEngine()) }

// lanes builds the workers. Also in case of an error, those it returns are to be closed.
func (e *engine) lanes() ([]lane, error) {
	lanes := make([]lane, 0, e.profile.Workers)
	for i := range e.profile.Workers {
		l, err := e.newLane(i)
		if err != nil {
			return lanes, err
		}
		lanes = append(lanes, l)
	}
	return lanes, nil
}

func (e *engine) newLane(i int) (lane, error) {
	if e.name == EnginePortable {
		return newPortableLane(e.job, i), nil
	}
	return nativeLane(e.job, i)
}

// schedule is worker i's sharj.
func (j *job) schedule(i int) schedule {
	p := &j.profile
	return newSchedule(p, j.replay, p.Part*p.Workers+i, max(1, p.Parts)*p.Workers)
}

// quota is how many requests worker i may send in the measure window.
func (j *job) quota(i int) int64 {
	p := &j.profile
	if p.Requests == 0 {
		return math.MaxInt64
	}
	return int64(share(int(p.Requests), max(1, p.Parts)*p.Workers, p.Part*p.Workers+i))
}

// quotas are those of all workers of this process.
func (j *job) quotas() int64 {
	if j.profile.Requests == 0 {
		return math.MaxInt64
	}
	var sum int64
	for i := range j.profile.Workers {
		sum += j.quota(i)
	}
	return sum
}

// spin is the spin window to use where n processors may be used: by default
// only where a core is left for each worker beside one for its server, since a
// core taken from the system under test is worse than a late send.
func spinWindow(p *Profile, cpus int) time.Duration {
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
	report := e.collect.report(Facts{Engine: e.name, Protocols: spoken(e.targets), Started: t0, Quota: e.quotas()}, results, e.host.ratios)
	if late > 0 {
		report.warn("the load started %v after the agreed start: opening the connections took longer than expected", late.Round(time.Millisecond))
	}
	return report, e.writeLog(t0)
}

func (e *engine) prepare(i int, l lane) error {
	cpu := -1
	if n := len(e.profile.CPUs); n > 0 && e.name != EnginePortable {
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
	if err = errors.Join(e.collect.writeLog(f, t0), f.Close()); err != nil {
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
