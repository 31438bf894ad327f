package cli

import (
	"os"
	"runtime/debug"
)

const (
	heapPercent = 1000      // of the live heap, as GOGC, and the first collection is at 40 MiB
	heapLimit   = 384 << 20 // bytes, as GOMEMLIMIT: near it garbage is collected more often
)

// collectLess makes garbage collection rare: a command that reads results makes much garbage, keeps little
// and ends soon. Each decoded histogram makes 42 KiB of garbage, and garbage made during a collection counts as
// live: a report of 2,000 trials keeps 26 MiB and comes to the limit. GOGC or GOMEMLIMIT disable this.
func collectLess() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(heapPercent)
	debug.SetMemoryLimit(heapLimit)
}
