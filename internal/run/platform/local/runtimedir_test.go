package local

import (
	"os"
	"sync"
	"testing"
)

// A sweep of another run never removes a directory that was just made: between the creation of its lock file and
// the lock, the sweep can have the lock first.
func TestSweepSparesNewRuntimeDirs(t *testing.T) {
	parent := t.TempDir()
	done := make(chan struct{})
	var sweeps, makers sync.WaitGroup
	for range 2 {
		sweeps.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := sweepIn(parent); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 4 {
		makers.Go(func() {
			for range 300 {
				dir, err := makeRuntimeDir(parent)
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(dir.file("token"), nil, 0o600); err != nil {
					t.Error(err)
				}
				if err := dir.remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	makers.Wait()
	close(done)
	sweeps.Wait()
}
