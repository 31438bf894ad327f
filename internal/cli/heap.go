package cli

import (
	"os"
	"runtime/debug"
)

const (
	heapPercent = 1000      // of the live heap, as GOGC, and the first collection is at 40 MiB
	heapLimit   = 512 << 20 // bytes, as GOMEMLIMIT: near it garbage is collected more often
)

// collectLess makes garbage collection rare: a command that reads results makes much garbage, keeps little
// and ends soon. It has no effect if GOGC or GOMEMLIMIT is set.
func collectLess() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(heapPercent)
	debug.SetMemoryLimit(heapLimit)
}
