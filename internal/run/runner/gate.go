package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
)

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
