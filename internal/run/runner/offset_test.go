package runner

import (
	"strings"
	"testing"
	"time"
)

// With current counters of containers no interval of 0 s is reported.
func TestWarningNamesTheRefreshedCounters(t *testing.T) {
	for refresh, want := range map[time.Duration]string{16 * time.Second: "refresh interval is up to 16s", 0: "counters are current"} {
		if got := refreshText(refresh); !strings.Contains(got, want) {
			t.Errorf("refresh %v: %q", refresh, got)
		}
	}
	text, ok := offset{after: 14 * time.Second, fewest: 2, used: 1e9, unsure: 1e7}.text()
	if !ok || !strings.Contains(text, "14s from the end") || !strings.Contains(text, "1.0 %") {
		t.Errorf("%v %q", ok, text)
	}
	if text, ok := (offset{after: promptly / 2, fewest: 2, used: 1e9}).text(); ok {
		t.Errorf("read at the edges, but warned: %q", text)
	}
}
