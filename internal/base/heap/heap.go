// Package heap lets the heap grow further than usual before garbage is collected.
//
// A command that reads results makes much garbage and keeps little, and ends soon.
// So does the start of the program: the libraries for Kubernetes fill their tables
// before main begins: at Go's own setting garbage is collected three times by then,
// in a quarter of the processor time of the start. Packages are initialised in the order
// of their import paths, after what they import (The Go Programming Language
// Specification, "Program initialization"): this one imports hardly anything, and
// so comes before those libraries.
package heap

import (
	"os"
	"runtime/debug"
)

const (
	percent = 1000      // of the live heap, as GOGC has it; the first time at 40 MiB
	limit   = 512 << 20 // bytes, as GOMEMLIMIT has it: beyond it garbage is collected all the same
)

var _ = CollectLess()

// CollectLess sets when garbage is collected, and reports whether it did: GOGC and
// GOMEMLIMIT of the environment come first. It has been called already where the
// package is imported; main calls it by name so that it is.
func CollectLess() bool {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return false
	}
	debug.SetGCPercent(percent)
	debug.SetMemoryLimit(limit)
	return true
}
