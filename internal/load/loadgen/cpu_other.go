//go:build !unix

package loadgen

import "time"

// processCPU is not known here; the report's CPU figures are zero.
func processCPU() time.Duration { return 0 }
