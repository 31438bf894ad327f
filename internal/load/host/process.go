// Package host reads the CPU times and the state of the machine under the load engine, and pins threads.
package host

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
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
