// Package host reads the CPU times and the state of the machine under the load engine, and pins threads.
package host

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// processMemory is the memory limit below which a load process collects no garbage. The
// engine allocates nothing per request, so collections are rare and never disturb a send.
const processMemory = 96 << 20 // bytes

// TuneProcess prepares this process for punctual sends, permanently. It disables garbage
// collection below a memory limit, and raises GOMAXPROCS to workers+2, so that a worker
// that wakes up never queues for a processor.
func TuneProcess(workers int) {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(processMemory)
	afterCollection()
	if want := max(1, workers) + 2; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}

// afterCollection moves the memory limit after every collection: a load with many connections
// needs more, and a limit near the heap in use would make collections frequent.
func afterCollection() {
	type sentinel struct{ _ *byte } // with a pointer: the tiny allocator finalizes others together
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) {
		debug.SetMemoryLimit(memoryLimit(memory()))
		afterCollection()
	})
}

// memory returns the bytes of live objects, and those in use for anything else.
func memory() (live, rest uint64) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
	}
	metrics.Read(samples)
	rest = samples[1].Value.Uint64()
	for _, heap := range samples[2:] {
		rest -= min(rest, heap.Value.Uint64())
	}
	return samples[0].Value.Uint64(), rest
}

// memoryLimit leaves room for as much garbage as there are live objects.
func memoryLimit(live, rest uint64) int64 { return max(processMemory, int64(2*live+rest)) }

// LockPunctual locks the calling goroutine to a thread that wakes up punctually. It is never unlocked: the thread, with its
// timer slack, ends with the goroutine.
func LockPunctual() {
	runtime.LockOSThread()
	_ = PrepareThread(-1) // pins nothing, so it cannot fail
	prioritise()
}

// nap bounds a sleep, so that the end of a context is noticed.
const nap = 50 * time.Millisecond

// SleepUntil blocks the calling thread until an instant. The error is the cause of ctx's end before it.
func SleepUntil(ctx context.Context, at time.Time) error {
	for wait := time.Until(at); wait > 0; wait = time.Until(at) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		Sleep(min(wait, nap))
	}
	return nil
}

// Watch reads the machine at the edges of the measure window.
type Watch struct {
	start, end reading
	done       chan struct{}
}

// StartWatch begins to watch for a window that starts at the given time. The end
// is read when it is over or stop is closed.
func StartWatch(start time.Time, measure time.Duration, stop <-chan struct{}) *Watch {
	h := &Watch{done: make(chan struct{})}
	go func() {
		defer close(h.done)
		for _, edge := range []struct {
			at      time.Time
			reading *reading
		}{{start, &h.start}, {start.Add(measure), &h.end}} {
			timer := time.NewTimer(time.Until(edge.at))
			select {
			case <-timer.C:
			case <-stop:
				timer.Stop()
			}
			*edge.reading = read()
		}
	}()
	return h
}

// Shares waits for the readings, and relates them to a window of the given length.
func (h *Watch) Shares(wall time.Duration) load.Host {
	<-h.done
	var r load.Host
	if all := h.end.all - h.start.all; all > 0 {
		r.StealRatio = (h.end.steal - h.start.steal) / all
	}
	if wall > 0 {
		r.CPUPressure = min(1, (h.end.pressure-h.start.pressure)/wall.Seconds())
	}
	return r
}
