package page

import (
	"testing"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// Restarts without a mesh have no times. The page draws no figure of any kind if their list is absent.
func TestChangesWithoutTimes(t *testing.T) {
	records := []result.Record{{Valid: true, Treatment: "none", Changes: []result.Change{{Kind: metric.ProxyRestarted}, {Kind: metric.ProxyRestarted}}}}
	if c := changesWith(records, "none", metric.ProxyRestarted); c.Changes != 2 || c.Times == nil || len(c.Times) > 0 {
		t.Errorf("%d changes with times %#v, want 2 and an empty list", c.Changes, c.Times)
	}
}
