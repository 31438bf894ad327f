package runner

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

// The start leaves time for the last readings before the measure phase. A warm-up that is long enough has them.
func TestStartAfter(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		warmup time.Duration
		trials int
		after  time.Duration
	}{
		{10 * time.Second, 1, startAhead},
		{10 * time.Second, 5, startAhead},
		{listLead, 5, startAhead},
		{0, 1, listLead},
		{0, 3, 3 * listLead},
		{100 * time.Millisecond, 1, listLead - 100*time.Millisecond},
		{100 * time.Millisecond, 3, 3*listLead - 100*time.Millisecond},
		{listLead - time.Millisecond, 1, startAhead},
	} {
		start := startAfter(now, c.warmup, c.trials)
		if start.Sub(now) != c.after {
			t.Errorf("warm-up %v, %d trials: start after %v, want %v", c.warmup, c.trials, start.Sub(now), c.after)
		}
		if first := start.Add(c.warmup - readAhead(c.warmup, c.trials)); first.Before(now) {
			t.Errorf("warm-up %v, %d trials: readings due %v before the loads are ready", c.warmup, c.trials, now.Sub(first))
		}
	}
}

// A generator that has ended when it gets its start fails the trial for its own reason.
func TestReleaseAfterTheEnd(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]error{"reason": errors.New("OOMKilled"), "no reason": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, in, err := os.Pipe()
			must.OK(t, err)
			out.Close()
			l := &loading{gate: &gate{in: in}, done: make(chan struct{})}
			go func() {
				l.err = want
				close(l.done)
			}()
			got := l.release(time.Now())
			if got == nil || want != nil && !errors.Is(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}
