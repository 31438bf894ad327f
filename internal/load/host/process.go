// Package host reads and sets what the engine needs of its process, threads and machine.
package host

import (
	"runtime"
	"runtime/debug"
)

// processMemory is the memory limit above which a load process collects garbage.
// The engine allocates nothing per request, so a run of hours stays below it and no
// collection disturbs a send.
const processMemory = 1 << 30 // bytes

// TuneProcess prepares this process for punctual sends, permanently. It disables
// garbage collection below 1 GiB and raises GOMAXPROCS to workers+2, so that a worker
// that wakes up never queues for a processor.
func TuneProcess(workers int) {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(processMemory)
	if want := max(1, workers) + 2; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}
