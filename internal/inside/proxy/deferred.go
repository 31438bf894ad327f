package proxy

import (
	"context"
	"runtime"
	"time"
)

// deferWork does the deferred work of one request later.
func (p *Proxy) deferWork() {
	switch {
	case p.weight.Deferred == 0:
	case p.weight.Flush > 0:
		p.pending.Add(1)
	default:
		time.AfterFunc(p.weight.DeferredBy, func() { burn(p.weight.Deferred) })
	}
}

// flush does the deferred work of all requests since the last flush, until ctx ends.
func (p *Proxy) flush(ctx context.Context) error {
	if p.weight.Flush == 0 {
		return nil
	}
	return every(ctx, p.weight.Flush, func() {
		for range p.pending.Swap(0) {
			burn(p.weight.Deferred)
			runtime.Gosched() // requests are answered meanwhile
		}
	})
}

// steadyPeriod is the time between two parts of the steady use.
const steadyPeriod = 10 * time.Millisecond

// burnSteadily uses CPU with and without requests, until ctx ends.
func (p *Proxy) burnSteadily(ctx context.Context) error {
	if p.weight.Steady == 0 {
		return nil
	}
	return every(ctx, steadyPeriod, func() { burn(time.Duration(p.weight.Steady * float64(steadyPeriod))) })
}

func every(ctx context.Context, period time.Duration, do func()) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			do()
		}
	}
}
