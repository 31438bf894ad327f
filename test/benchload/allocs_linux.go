package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/engine"
)

// allocsLines runs the engine in this process, for the same time at a low rate
// and at the maximum. Allocations of a run and of each second are
// equal in both. The difference is the requests' share.
func allocsLines(ctx context.Context, b *bench) []line {
	l := line{figure: "allocations a request, HTTP/1.1", target: "0"}
	var few, many []alloc
	for range 2 {
		for _, rate := range []float64{1000, 0} {
			a, err := allocations(ctx, b.own.url, rate)
			if err != nil {
				l.verdict, l.compare = failed, why(err)
				return []line{l}
			}
			if rate == 0 {
				many = append(many, a)
			} else {
				few = append(few, a)
			}
		}
	}
	// The first pair warms up what a process allocates once.
	f, m := few[1], many[1]
	each := float64(int64(m.mallocs)-int64(f.mallocs)) / float64(m.requests-f.requests)
	l.ours = fmt.Sprintf("%.5f", max(0, each))
	l.compare = fmt.Sprintf("%d allocations in a run of %d requests, %d in one of %d", f.mallocs, f.requests, m.mallocs, m.requests)
	// Fewer than one in a thousand requests: a buffer that grew, a goroutine of the runtime's.
	l.verdict = yes(each < 0.001)
	return []line{l}
}

type alloc struct {
	mallocs  uint64
	requests int64
}

func allocations(ctx context.Context, url string, rate float64) (alloc, error) {
	p := profile(url)
	p.Rate, p.Arrivals, p.Measure = rate, load.Constant, 2*time.Second
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := engine.Run(ctx, p, nil)
	runtime.ReadMemStats(&after)
	return alloc{after.Mallocs - before.Mallocs, r.Requests}, err
}
