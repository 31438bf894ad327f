//go:build !unix

package host

import "time"

// ProcessCPU is not known here, so the report's CPU figures are zero.
func ProcessCPU() time.Duration { return 0 }
