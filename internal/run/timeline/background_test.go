package timeline_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/timeline"
	"github.com/tare-mesh/tare/test/must"
)

// behind keeps when each change was made, and refuses one.
type behind struct {
	takes  time.Duration
	refuse int

	mu sync.Mutex
	at map[int]time.Duration
	t0 time.Time
}

var errRefused = errors.New("refused")

func (b *behind) ChangeBackground(ctx context.Context, number int) error {
	b.mu.Lock()
	b.at[number] = time.Since(b.t0)
	b.mu.Unlock()
	if number == b.refuse {
		return errRefused
	}
	select {
	case <-time.After(b.takes):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *behind) Received(context.Context) (*platform.Received, error) { return nil, nil }

// Changes of background services come at random instants, each in its part of the time, also while earlier ones last.
func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := &behind{takes: 3 * time.Second, at: map[int]time.Duration{}, t0: start}
		made := must.Get(timeline.Background(t.Context(), b, 4, 1, start, start.Add(10*time.Second)))(t)
		if len(made) != 40 || len(b.at) != 40 {
			t.Fatalf("%d changes accepted of %d, want 40", len(made), len(b.at))
		}
		var gaps []time.Duration
		for n := 1; n <= 40; n++ {
			from := time.Duration(n-1) * 250 * time.Millisecond
			if b.at[n] < from || b.at[n] >= from+250*time.Millisecond {
				t.Errorf("change %d after %v, want within a quarter of a second after %v", n, b.at[n], from)
			}
			if sent := made[n].Sub(start); sent != b.at[n] {
				t.Errorf("change %d was sent after %v, recorded as %v", n, b.at[n], sent)
			}
			gaps = append(gaps, b.at[n]-from)
		}
		if slices.Max(gaps)-slices.Min(gaps) < 100*time.Millisecond {
			t.Errorf("changes are at equal distances: %v", gaps)
		}
	})
}

// A change that the control plane refuses ends them at once.
func TestBackgroundRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := &behind{refuse: 2, at: map[int]time.Duration{}, t0: start}
		_, err := timeline.Background(t.Context(), b, 1, 1, start, start.Add(time.Hour))
		if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "background") || time.Since(start) > time.Minute {
			t.Errorf("%v after %v, want the refusal at once", err, time.Since(start))
		}
	})
}
