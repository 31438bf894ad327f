package runner

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/loadgen"
	"github.com/tare-mesh/tare/internal/platform"
	"github.com/tare-mesh/tare/internal/proc"
	"github.com/tare-mesh/tare/internal/result"
)

// loading is a load generator at work: one process, over warm-up, measure phase and tail.
type loading struct {
	process *proc.Process
	start   time.Time // of the schedule, with its monotonic reading
	done    chan struct{}
	load    result.Load // set before done is closed
	err     error       // set before done is closed
}

// startLoad starts the generator. progress is called from another goroutine. A
// profile without a start begins when the process does.
func startLoad(ctx context.Context, d platform.Deployment, g load.Generator, p loadgen.Profile, progress func(loadgen.Progress)) (*loading, error) {
	cmd, err := g.Command(p)
	if err != nil {
		return nil, fmt.Errorf("load generator %s: %w", g.Name(), err)
	}
	out, in := io.Pipe()
	cmd.Stdout = in
	process, err := d.StartLoad(ctx, cmd)
	if err != nil {
		return nil, err
	}
	if p.Start.IsZero() {
		p.Start = time.Now()
	}
	l := &loading{process: process, start: p.Start, done: make(chan struct{})}
	go l.follow(g, p, out, in, progress)
	return l, nil
}

// follow reads the generator's output to its end and waits for the process.
func (l *loading) follow(g load.Generator, p loadgen.Profile, out *io.PipeReader, in *io.PipeWriter, progress func(loadgen.Progress)) {
	defer close(l.done)
	var parsed error
	var both errgroup.Group
	both.Go(func() error {
		l.load, parsed = g.Parse(out, p, progress)
		// A parser that has given up must not hold up the process.
		_, _ = io.Copy(io.Discard, out)
		return nil
	})
	both.Go(func() error {
		defer in.Close()
		return l.process.Wait()
	})
	// How the process ended explains an output that breaks off, not the other way round.
	if l.err = both.Wait(); l.err == nil {
		l.err = parsed
	}
	if l.err != nil {
		l.err = fmt.Errorf("load generator %s: %w", g.Name(), l.err)
	}
}

// wait returns what the generator says once it has ended, by the deadline at the latest.
func (l *loading) wait(ctx context.Context, deadline time.Time) (result.Load, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, fmt.Errorf("the load generator has not ended when it should"))
	defer cancel()
	select {
	case <-l.done:
		return l.load, l.err
	case <-ctx.Done():
		return result.Load{}, context.Cause(ctx)
	}
}

// early is the error of a generator that ended while it should be at work.
func (l *loading) early() error {
	select {
	case <-l.done:
		if l.err != nil {
			return l.err
		}
		return fmt.Errorf("the load generator ended before the measure phase did")
	default:
		return nil
	}
}

// stop ends the generator, where it has not ended.
func (l *loading) stop(ctx context.Context, grace time.Duration) {
	select {
	case <-l.done:
		return
	default:
	}
	_ = l.process.Stop(ctx, grace)
	select {
	case <-l.done:
	case <-ctx.Done():
	}
}
