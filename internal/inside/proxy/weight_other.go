//go:build !linux

package proxy

import "time"

// burn uses a processor for that long. Where there is no clock of the thread it
// is the wall's, and right as long as the processor is not shared.
func burn(d time.Duration) {
	for end := time.Now().Add(max(0, d)); time.Now().Before(end); {
	}
}
