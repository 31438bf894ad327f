package runner

import (
	"strings"
	"testing"
	"time"
)

// With current counters of containers a node's own may still be refreshed at an interval. No interval of 0 s is reported.
func TestWarningNamesTheRefreshedCounters(t *testing.T) {
	for _, c := range []struct {
		refresh    time.Duration
		has, hasNo string
	}{
		{16 * time.Second, "refresh interval is up to 16s", "are current"},
		{0, "containers' counters are current, but not all counters of a node's own", "interval is up to 0s"},
	} {
		w, ok := offset{after: 14 * time.Second, fewest: 2, used: 1e9, unsure: 1e7}.warning(c.refresh)
		if !ok || !strings.Contains(w.Message, c.has) || strings.Contains(w.Message, c.hasNo) {
			t.Errorf("refresh %v: %v %q", c.refresh, ok, w.Message)
		}
	}
	if w, ok := (offset{after: promptly / 2, fewest: 2, used: 1e9}).warning(0); ok {
		t.Errorf("read at the edges, but warned: %q", w.Message)
	}
}
