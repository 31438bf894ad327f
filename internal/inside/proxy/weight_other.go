//go:build !linux

package proxy

import "time"

// burn uses a CPU for d. Without a thread CPU clock it uses the wall clock,
// which is exact only while the CPU is not shared.
func burn(d time.Duration) {
	for end := time.Now().Add(max(0, d)); time.Now().Before(end); {
	}
}
