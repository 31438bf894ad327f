// Package heap sets how far the heap grows before garbage is collected.
package heap

import (
	"os"
	"runtime/debug"
)

const (
	percent = 1000      // of the live heap, as GOGC, and the first collection is at 40 MiB
	limit   = 512 << 20 // bytes, as GOMEMLIMIT: near it garbage is collected more often
)

// CollectLess makes garbage collection rare: a command that reads results makes much garbage, keeps little
// and ends soon. Main calls it first. It has no effect, and returns false, if GOGC or GOMEMLIMIT is set.
func CollectLess() bool {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return false
	}
	debug.SetGCPercent(percent)
	debug.SetMemoryLimit(limit)
	return true
}
