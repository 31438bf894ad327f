package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// loading is a running load generator, through warm-up, measure phase and tail: one process, or
// one on each load worker.
type loading struct {
	workers []*loadWorker
	start   time.Time // of the schedule, with its monotonic reading, set by release if the load is held
	gate    *gate     // of a load that is held, nil if it begins by itself
	done    chan struct{}
	load    result.Load // set before done is closed
	err     error       // set before done is closed
	ended   time.Time   // set before done is closed: when the last process had ended
}

type loadWorker struct {
	platform.Process
	part generator.Part
	out  *io.PipeReader
	in   *io.PipeWriter
	gate *gate // of a process that is held
}

// startLoad starts the generator. It calls progress from another goroutine. A profile without a
// start begins with the process, or is held.
func startLoad(ctx context.Context, d *platform.Deployment, g generator.Generator, p load.Profile, progress func(load.Progress)) (*loading, error) {
	parts, err := generator.Split(p, loadWorkers(d))
	if err != nil {
		return nil, err
	}
	l := &loading{start: p.Start, done: make(chan struct{})}
	var together time.Time                      // the start of processes whose profile has none
	if p.Start.IsZero() && loadWorkers(d) > 0 { // never held
		together = time.Now().Add(togetherLead + time.Duration(len(parts))*togetherEach)
	}
	for i, part := range parts {
		w, err := startWorker(ctx, d, g, part, i, together)
		if err != nil {
			l.abandon(ctx)
			return nil, errors.Join(err, generator.RemoveLogs(p))
		}
		l.workers, l.gate = append(l.workers, w), w.gate
	}
	if l.start.IsZero() && l.gate == nil {
		if l.start = time.Now(); !together.IsZero() {
			if l.start.After(together) {
				l.abandon(ctx)
				return nil, fmt.Errorf("load generator %s: its %d processes were not all ready %v after the first was started, and must begin together", g.Name(), len(parts), togetherLead+time.Duration(len(parts))*togetherEach)
			}
			l.start = together
		}
		for _, w := range l.workers {
			w.part.Profile.Start = l.start.Add(w.part.Ahead)
		}
	}
	p.Start = l.start
	go routine.Guarded(func() { l.follow(g, p, progress) })()
	return l, nil
}

// loadWorkers is the number of load workers of the deployment, 0 if it has none.
func loadWorkers(d *platform.Deployment) int {
	if d.LoadWorkers == nil {
		return 0
	}
	return d.LoadWorkers.LoadWorkers()
}

// Time before the start of load workers whose processes begin together: for all, and for each.
const (
	togetherLead = 3 * time.Second
	togetherEach = time.Second
)

// startWorker starts one process. The start in its profile is in its own clock's time.
func startWorker(ctx context.Context, d *platform.Deployment, g generator.Generator, p load.Profile, i int, together time.Time) (*loadWorker, error) {
	w := &loadWorker{}
	if d.LoadWorkers != nil {
		var err error
		if w.part.Ahead, w.part.Unsure, err = d.LoadWorkers.LoadClock(ctx, i); err != nil {
			return nil, err
		}
	}
	if !p.Start.IsZero() {
		p.Start = p.Start.Add(w.part.Ahead)
	}
	w.part.Profile = p
	if p.HDRPath != "" {
		if err := os.MkdirAll(filepath.Dir(p.HDRPath), 0o755); err != nil {
			return nil, fmt.Errorf("load generator %s: %w", g.Name(), err)
		}
	}
	cmd, err := g.Command(p)
	if err != nil {
		return nil, fmt.Errorf("load generator %s: %w", g.Name(), err)
	}
	if !together.IsZero() {
		cmd.At = together.Add(w.part.Ahead)
	}
	w.out, w.in = io.Pipe()
	w.part.Stdout, cmd.Stdout = w.out, w.in
	feed := func() {}
	if p.Hold {
		if w.gate, feed, err = newGate(ctx, &cmd); err != nil {
			return nil, err
		}
		w.part.Stdout = announced{w.out, w.gate}
	}
	w.Process, err = d.StartLoad(ctx, cmd)
	feed()
	if err != nil {
		w.gate.close()
		return nil, err
	}
	return w, nil
}

// abandonGrace is the time for started workers to end after a later one failed to start.
const abandonGrace = time.Second

// abandon ends the workers that were started.
func (l *loading) abandon(ctx context.Context) {
	for _, w := range l.workers {
		go routine.Guarded(func() { _, _ = io.Copy(io.Discard, w.out) })()
	}
	ctx = context.WithoutCancel(ctx)
	l.each(func(w *loadWorker) { _ = w.Stop(ctx, abandonGrace); w.in.Close(); w.gate.close() })
}

// follow reads the generator's output to its end and waits for its processes.
func (l *loading) follow(g generator.Generator, p load.Profile, progress func(load.Progress)) {
	defer close(l.done)
	var parsed error
	var all errgroup.Group
	all.Go(routine.Guarded(func() error {
		parts := lists.Map(l.workers, func(w *loadWorker) generator.Part { return w.part })
		l.load, parsed = generator.ParseParts(g, parts, p, progress)
		// A parser that failed must not block the processes.
		l.each(func(w *loadWorker) { _, _ = io.Copy(io.Discard, w.out) })
		return nil
	}))
	for _, w := range l.workers {
		all.Go(routine.Guarded(func() error {
			defer w.gate.close()
			defer w.in.Close()
			return w.Wait()
		}))
	}
	// If the output is truncated, the error of the process is the reason.
	if l.err = all.Wait(); l.err == nil {
		l.err = parsed
	}
	l.ended = time.Now()
	if l.err == nil {
		l.err = l.mergeLogs(p)
	} else {
		l.err = errors.Join(l.err, generator.RemoveLogs(p))
	}
	if l.err != nil {
		l.err = fmt.Errorf("load generator %s: %w", g.Name(), l.err)
	}
}

func (l *loading) mergeLogs(p load.Profile) error {
	if len(l.workers) == 1 || p.HDRPath == "" {
		return nil
	}
	parts := lists.Map(l.workers, func(w *loadWorker) load.Profile { return w.part.Profile })
	if err := generator.MergeLogs(p.HDRPath, p.Start, parts); err != nil {
		return err
	}
	return generator.RemoveLogs(p) // the merged log contains all of their counts
}

// wait returns the generator's results when it has ended, or an error at the deadline.
func (l *loading) wait(ctx context.Context, deadline time.Time) (result.Load, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, fmt.Errorf("the load generator did not end in time"))
	defer cancel()
	select {
	case <-l.done:
		return l.load, l.err
	case <-ctx.Done():
		return result.Load{}, context.Cause(ctx)
	}
}

// early returns an error if the generator ended before the end of the measure phase. It may be
// called later.
func (l *loading) early(end time.Time) error {
	select {
	case <-l.done:
	default:
		return nil
	}
	switch {
	case l.err != nil:
		return l.err
	case l.ended.Before(end):
		return fmt.Errorf("the load generator ended before the measure phase did")
	}
	return nil
}

func (l *loading) stop(ctx context.Context, grace time.Duration) {
	select {
	case <-l.done:
		return
	default:
	}
	l.each(func(w *loadWorker) { _ = w.Stop(ctx, grace) })
	select {
	case <-l.done:
	case <-ctx.Done():
	}
}

// each calls do for all workers at the same time.
func (l *loading) each(do func(*loadWorker)) {
	var all sync.WaitGroup
	for _, w := range l.workers {
		all.Go(routine.Guarded(func() { do(w) }))
	}
	all.Wait()
}

// gate holds a load back until its generator is ready ([load.Profile.Hold]). Loads of a round open their
// connections side by side, for as long as a busy machine takes, and begin together shortly afterwards.
type gate struct {
	in    *os.File // standard input of the generator, closed when it has the start
	ready chan struct{}
	once  sync.Once
}

const (
	// startAhead is the least time from the agreement on a start to the start. A load that gets it later begins
	// within its warm-up.
	startAhead = 50 * time.Millisecond
	// feedTimeout bounds the writing of a profile to a generator that does not read it.
	feedTimeout = 30 * time.Second
	// endWait is the time for the end of a generator that does not take its start.
	endWait = 2 * time.Second
)

// startAfter is the start of loads that are ready now, of a number of trials.
func startAfter(now time.Time, warmup time.Duration, trials int) time.Time {
	return now.Add(max(startAhead, readAhead(warmup, trials)-warmup))
}

// readAhead is the time from the last readings before the measure phase to that phase. A long warm-up leaves time
// before it. A short one does not, and the readings of a number of trials are made one after another.
func readAhead(warmup time.Duration, trials int) time.Duration {
	if warmup >= listLead {
		return listLead
	}
	return time.Duration(trials) * listLead
}

// newGate makes cmd read from the gate. feed must be called once the command runs. It ends with ctx.
func newGate(ctx context.Context, cmd *proc.Command) (g *gate, feed func(), err error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("open the input of the load generator: %w", err)
	}
	profile := cmd.Stdin
	cmd.Stdin = out
	g = &gate{in: in, ready: make(chan struct{})}
	return g, func() {
		_ = out.Close() // the command has its own copy
		// A process that ends, or reads nothing, is noticed by its output.
		_ = in.SetWriteDeadline(time.Now().Add(feedTimeout))
		defer context.AfterFunc(ctx, func() { _ = in.SetWriteDeadline(time.Now()) })()
		_, _ = io.Copy(in, profile)
	}, nil
}

// close lets a generator that waits for its start end.
func (g *gate) close() {
	if g != nil {
		_ = g.in.Close() // it may have been closed with the start
	}
}

// announced is the output of a held generator. Its first line is that it is ready.
type announced struct {
	io.Reader
	gate *gate
}

func (a announced) Read(b []byte) (int, error) {
	n, err := a.Reader.Read(b)
	if n > 0 {
		a.gate.once.Do(func() { close(a.gate.ready) })
	}
	return n, err
}

// awaitReady waits until the generator is ready. A load that is not held begins by itself.
func (l *loading) awaitReady(ctx context.Context, limit time.Duration) error {
	if l.gate == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the load generator was not ready after %v", limit))
	defer cancel()
	select {
	case <-l.gate.ready:
		return nil
	case <-l.done:
		if l.err != nil {
			return l.err
		}
		return fmt.Errorf("the load generator ended before the load")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release lets a held load begin at an instant.
func (l *loading) release(start time.Time) error {
	l.start = start
	_ = l.gate.in.SetWriteDeadline(time.Now().Add(feedTimeout))
	err := json.NewEncoder(l.gate.in).Encode(load.Begin{Start: start})
	if err == nil {
		err = l.gate.in.Close()
	}
	if err == nil {
		return nil
	}
	select {
	case <-l.done: // the reason of its end
		if l.err != nil {
			return l.err
		}
	case <-time.After(endWait):
	}
	return fmt.Errorf("send the start to the load generator: %w", err)
}
