package wait

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntil(t *testing.T) {
	unready, broken, interrupted := errors.New("unready"), errors.New("broken"), errors.New("interrupted")
	for name, c := range map[string]struct {
		results []error // of the attempts, the last one repeated
		wants   []error
	}{
		"at once":                {[]error{nil}, nil},
		"at the third":           {[]error{unready, unready, nil}, nil},
		"never":                  {[]error{unready}, []error{unready, interrupted}},
		"a final error":          {[]error{unready, Stop(broken)}, []error{broken}},
		"an attempt cut short":   {[]error{unready, interrupted}, []error{unready, interrupted}},
		"the first is cut short": {[]error{interrupted}, []error{interrupted}},
	} {
		ctx, interrupt := context.WithCancelCause(t.Context())
		attempts := 0
		err := Until(ctx, time.Millisecond, func(context.Context) error {
			result := c.results[min(attempts, len(c.results)-1)]
			if attempts++; attempts == 5 || errors.Is(result, interrupted) {
				interrupt(interrupted)
			}
			return result
		})
		interrupt(nil)
		if (err == nil) != (c.wants == nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range c.wants {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v does not wrap %v", name, err, want)
			}
		}
	}
	if err := Within(t.Context(), time.Millisecond, time.Hour, func(context.Context) error { return unready }); !errors.Is(err, unready) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the limit: %v", err)
	}
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupt(interrupted)
	if err := For(ctx, time.Hour); !errors.Is(err, interrupted) {
		t.Error(err)
	}
}

// Calls begin at the interval while earlier ones run, and those beyond the largest number are left out.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 95*time.Millisecond)
		defer cancel()
		var calls atomic.Int64
		began := time.Now()
		Every(ctx, 10*time.Millisecond, 3, func() {
			calls.Add(1)
			time.Sleep(45 * time.Millisecond)
		})
		// At 0, 10, 20 ms, then as places become free: at 50, 60, 70 ms.
		if n := calls.Load(); n != 6 || time.Since(began) != 115*time.Millisecond {
			t.Errorf("%d calls in %v, want 6 in 115ms", n, time.Since(began))
		}
	})
}
