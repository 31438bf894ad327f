package timeline

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/stats"
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

// maxUnreached bounds the list of proxies that got no change.
const maxUnreached = 20

// Pushes computes when changes of background services reached the simulated proxies, from when each change was sent. The services
// change in turn. A later change of a service that comes without the earlier one replaces it: a control plane may push both at once.
func Pushes(sent map[int]time.Time, services int, r *platform.Received) *result.Pushes {
	p := &result.Pushes{Proxies: r.Proxies, Messages: r.Messages, Bytes: r.Bytes, Broken: r.Broken}
	for _, ms := range r.SyncedMS {
		p.SyncMS = max(p.SyncMS, float64(ms))
	}
	began := time.Unix(0, r.BeganNS).Add(-r.Ahead)
	at := map[int][]int64{}
	for _, a := range r.Arrivals {
		if len(a.AtUS) == r.Proxies {
			at[a.Number] = a.AtUS
		}
	}
	var each, last []float64 // ms, last of changes that reached all proxies
	reached := make([]bool, r.Proxies)
	later := map[int][]int64{} // by service: the earliest arrival of this or a later change
	for number := highest(sent, at); number > 0; number-- {
		service := (number - 1) % services
		later[service] = earliest(at[number], later[service])
		begin, made := sent[number]
		if !made {
			continue
		}
		slowest := 0.0
		for i := range r.Proxies {
			if later[service] == nil || later[service][i] == 0 {
				p.Missed++
				slowest = math.Inf(1)
				continue
			}
			reached[i] = true
			ms := float64(began.Add(time.Duration(later[service][i])*time.Microsecond).Sub(begin)) / 1e6
			each = append(each, ms)
			slowest = max(slowest, ms)
		}
		if !math.IsInf(slowest, 1) {
			last = append(last, slowest)
		}
	}
	p.Pairs = len(each) + p.Missed
	for i, ok := range reached {
		if !ok && len(sent) > 0 {
			if p.Unreached++; len(p.UnreachedAt) < maxUnreached {
				p.UnreachedAt = append(p.UnreachedAt, i+1)
			}
		}
	}
	p.EachMS, p.LastMS, p.Reached = quantiles(each, p.Missed), quantiles(last, 0), len(last)
	return p
}

func highest(sent map[int]time.Time, at map[int][]int64) (number int) {
	for n := range sent {
		number = max(number, n)
	}
	for n := range at {
		number = max(number, n)
	}
	return number
}

// earliest is the earlier arrival at each proxy, of a change and of later ones. Either may be nil, and 0 is none.
func earliest(a, b []int64) []int64 {
	if a == nil || b == nil {
		return append(slices.Clone(a), b...) // one of them
	}
	all := slices.Clone(a)
	for i := range all {
		if all[i] == 0 || b[i] > 0 && b[i] < all[i] {
			all[i] = b[i]
		}
	}
	return all
}

// quantiles of times, nil without any. Missing ones are later than all others.
func quantiles(ms []float64, missing int) *result.PushTimes {
	if len(ms) == 0 {
		return nil
	}
	for range missing {
		ms = append(ms, math.Inf(1))
	}
	slices.Sort(ms)
	var q result.PushTimes
	for _, of := range []struct {
		q    float64
		into **float64
	}{{0.5, &q.P50}, {0.99, &q.P99}} {
		if v := stats.Quantile(ms, of.q); !math.IsInf(v, 0) && !math.IsNaN(v) {
			*of.into = &v
		}
	}
	return &q
}
