// Package host reads and sets what the engine needs of its process, threads and machine.
package host

import (
	"runtime"
	"runtime/debug"
)

// processMemory is how much a process that runs load may hold before it collects
// garbage after all. The engine allocates nothing per request, so a run of hours
// stays below it and no collection disturbs a send.
const processMemory = 1 << 30 // bytes

// TuneProcess makes this process fit for punctual sends, for good: no garbage
// collection below 1 GiB, and a processor of the Go scheduler's for every worker
// beside those for the rest, so that a worker that comes back from waiting never
// queues for one.
func TuneProcess(workers int) {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(processMemory)
	if want := max(1, workers) + 2; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}
