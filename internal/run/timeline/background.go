package timeline

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// Background changes services that no request calls from begin to end, rate times a second. Each change is at a random
// instant of its part of the time: at equal distances they would always come as long before a change of the entry. It
// returns when each accepted change was sent, by its number.
func Background(ctx context.Context, services platform.Background, rate float64, seed uint64, begin, end time.Time) (map[int]time.Time, error) {
	if rate == 0 || services == nil {
		return nil, nil
	}
	random := rand.New(rand.NewPCG(seed, 0x626b67))
	step := float64(time.Second) / rate
	var mu sync.Mutex
	made := map[int]time.Time{}
	group, ctx := errgroup.WithContext(ctx)
	var ended error
	for n := 1; ; n++ {
		at := begin.Add(time.Duration((float64(n-1) + random.Float64()) * step))
		came, err := await(ctx, at, end)
		if err != nil || !came {
			ended = err
			break
		}
		group.Go(routine.Guarded(func() error {
			sent := time.Now()
			if err := services.ChangeBackground(ctx, n); err != nil {
				return fmt.Errorf("change of background services: %w", err)
			}
			mu.Lock()
			defer mu.Unlock()
			made[n] = sent
			return nil
		}))
	}
	err := cmp.Or(group.Wait(), ended) // the first refusal ends the loop too
	return made, err
}
