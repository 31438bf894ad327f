package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/target"
)

// A load of a number of requests ends when its server has gone. Without that its requests fail one by one, for hours.
func TestServerThatHasGone(t *testing.T) {
	type state struct{ opened, failed, answered bool } // in each second
	const never = 0
	for name, test := range map[string]struct {
		timeout time.Duration
		at      func(second int) state
		want    time.Duration // the end
	}{
		"never there":                          {0, func(int) state { return state{failed: true} }, openWithin},
		"there late":                           {0, func(s int) state { return state{failed: s < 4, opened: s == 4, answered: s >= 4} }, never},
		"gone after ten seconds":               {0, func(s int) state { return state{opened: s == 1, answered: s <= 10, failed: s > 10} }, 10*time.Second + goneWithin},
		"gone, and requests may take a minute": {time.Minute, func(s int) state { return state{opened: s == 1, answered: s <= 10, failed: s > 10} }, 70 * time.Second},
		"a restart of 25 seconds": {0, func(s int) state {
			return state{opened: s == 1 || s == 35, answered: s < 10 || s > 35, failed: s >= 10 && s < 35}
		}, never},
		"opened, and never answers":                  {0, func(s int) state { return state{opened: s == 1} }, never},
		"one connection is refused, another answers": {0, func(s int) state { return state{opened: s == 1, failed: true, answered: s%20 == 0} }, never},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &job.Job{Targets: []target.Target{{}}, Profile: load.Profile{Timeout: test.timeout}}
				j.Divide([]int{0})
				e := &engine{Job: j}
				progress := e.watched(nil)
				ctx, giveUp := context.WithCancelCause(t.Context())
				defer giveUp(nil)
				began := time.Now()
				ended := make(chan time.Duration, 1)
				go func() {
					e.awaitConnections(ctx, giveUp)
					ended <- time.Since(began)
				}()
				for s := range 120 {
					if now := test.at(s); ctx.Err() == nil {
						if now.opened {
							j.Opened()
						}
						if now.failed {
							j.Unopened(&j.Targets[0])
						}
						if now.answered {
							progress(load.Progress{Second: s, Completed: 1})
						}
					}
					time.Sleep(time.Second)
				}
				if test.want == never {
					if ctx.Err() != nil {
						t.Errorf("given up after %v", <-ended)
					}
					return
				}
				giveUp(nil) // has no effect on a load that has ended
				after := <-ended
				if late := after - test.want; !errors.Is(context.Cause(ctx), ErrNoConnection) || late < 0 || late > 2*openCheck {
					t.Errorf("%v after %v, want %v", context.Cause(ctx), after, test.want)
				}
			})
		})
	}
}
