package proxy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
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

// leaked is memory that is kept until the proxy ends.
type leaked struct {
	mu  sync.Mutex
	all [][]byte
}

// add keeps kib more KiB. Memory that was not written to would not be resident.
func (l *leaked) add(kib int) {
	if kib == 0 {
		return
	}
	more := bytes.Repeat([]byte{1}, kib<<10)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, more)
}

// hold maps memory and touches every page. It is outside the Go heap, where it
// would make garbage collection rarer and the proxy cheaper.
func hold(mib int) ([]byte, error) {
	if mib == 0 {
		return nil, nil
	}
	b, err := unix.Mmap(-1, 0, mib<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("hold %d MiB: %w", mib, err)
	}
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	return b, nil
}

func release(b []byte) {
	if b != nil {
		_ = unix.Munmap(b)
	}
}
