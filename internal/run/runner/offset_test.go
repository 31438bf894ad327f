package runner

import (
	"strings"
	"testing"
	"time"
)

// A node's own counters are refreshed at times of their own where containers' are read whenever they are asked for:
// there is then no refresh to tell, and none of zero seconds.
func TestPacedCountersSayWhichAreRefreshed(t *testing.T) {
	for _, c := range []struct {
		refresh    time.Duration
		has, hasNo string
	}{
		{16 * time.Second, "refreshed every 16s at least", "when they are asked for"},
		{0, "read when they are asked for, but not all of a node's own", "every 0s"},
	} {
		w, ok := offset{after: 14 * time.Second, fewest: 2, used: 1e9, unsure: 1e7}.warning(c.refresh)
		if !ok || !strings.Contains(w.Message, c.has) || strings.Contains(w.Message, c.hasNo) {
			t.Errorf("refresh %v: %v %q", c.refresh, ok, w.Message)
		}
	}
	if w, ok := (offset{after: promptly / 2, fewest: 2, used: 1e9}).warning(0); ok {
		t.Errorf("read at the edges, and warned: %q", w.Message)
	}
}
