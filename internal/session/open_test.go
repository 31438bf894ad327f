package session

import (
	"os"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

// The second run of a second has a directory of its own.
func TestNewRun(t *testing.T) {
	t.Chdir(t.TempDir())
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, want := range []string{"runs/x-20260301T120000Z", "runs/x-20260301T120000Z-2", "runs/x-20260301T120000Z-3"} {
		if got := newDir("x", now); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		must.OK(t, os.MkdirAll(want, 0o700))
	}
}
