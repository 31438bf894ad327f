// Package probe measures the CPU time of a fixed piece of work, to detect slow
// CPUs. Other tenants, clock frequency and shared caches increase this time.
//
// The work resembles the work of a proxy, which spends its time in system calls on
// sockets. A probe without system calls would miss causes that slow a proxy. A piece
// is a kibibyte sent over a TCP connection on the loopback interface, received,
// hashed, and sent back.
package probe

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/tare-mesh/tare/internal/base/routine"
)

// Work names the piece of work. Readings of different work cannot be compared.
const Work = "tcp-1KiB-sha256/1"

const (
	// pieces of one reading, on each processor: about 50 to 100 ms.
	pieces = 4000
	// warming is not measured: it fills buffers and caches, and raises the CPU frequency.
	warming = 400
	// batch is the number of pieces between two readings of the clock.
	batch = 100
	// longest bounds a reading in wall-clock time. A busy CPU finishes fewer pieces,
	// and the reading covers these.
	longest = 250 * time.Millisecond
	// mostProcessors bounds the threads. On a large machine, these CPUs represent all.
	mostProcessors = 8
)

// Reading is the result of a probe. Programs exchange it as JSON.
type Reading struct {
	Work string        `json:"work"` // name of the work
	At   time.Time     `json:"at"`   // its beginning
	Took time.Duration `json:"took"` // wall-clock duration, ns
	CPUs []Processor   `json:"cpus"` // side by side
}

// Processor is the part of one processor.
type Processor struct {
	Node   string `json:"node,omitempty"` // node of the processor; of a cluster
	CPU    int    `json:"cpu"`            // processor
	Pieces int64  `json:"pieces"`         // pieces done
	NS     int64  `json:"ns"`             // user and system CPU time, ns
}

// Microseconds returns the mean CPU time of a piece over the processors. It is not
// ok if one processor finished no piece.
func (r Reading) Microseconds() (float64, bool) {
	sum := 0.0
	for _, c := range r.CPUs {
		if c.Pieces <= 0 || c.NS <= 0 {
			return 0, false
		}
		sum += float64(c.NS) / float64(c.Pieces) / 1e3
	}
	mean := sum / float64(len(r.CPUs))
	return mean, len(r.CPUs) > 0 && !math.IsInf(mean, 0)
}

// Local is the probe of this machine.
type Local struct {
	// CPUs to probe. Empty means all that this process may use.
	CPUs []int
}

// Probe implements [Prober]. On systems that cannot pin threads or measure their
// CPU time, the error wraps [errors.ErrUnsupported].
func (l Local) Probe(ctx context.Context) (Reading, error) {
	cpus := l.CPUs
	if len(cpus) == 0 {
		var err error
		if cpus, err = Allowed(); err != nil {
			return Reading{}, err
		}
	}
	cpus = spread(cpus, mostProcessors)
	r := Reading{Work: Work, At: time.Now(), CPUs: make([]Processor, len(cpus))}
	begin, done := make(chan struct{}), make(chan error, len(cpus))
	for i, cpu := range cpus {
		r.CPUs[i].CPU = cpu
		go routine.Guarded(func() { done <- workOn(ctx, &r.CPUs[i], begin) })()
	}
	close(begin)
	var errs []error
	for range cpus {
		errs = append(errs, <-done)
	}
	r.Took = time.Since(r.At)
	if err := errors.Join(errs...); err != nil {
		return Reading{}, err
	}
	return r, nil
}

// spread is at most n of all, evenly.
func spread(all []int, n int) []int {
	if len(all) <= n {
		return all
	}
	some := make([]int, n)
	for i := range some {
		some[i] = all[i*len(all)/n]
	}
	return some
}
