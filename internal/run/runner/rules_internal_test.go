package runner

import (
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
)

// The share of the load in the measure phase is its requests by all requests.
func TestShareOfTheMeasurePhase(t *testing.T) {
	c := &conservation{setup: &setup{run: &run{Config: Config{Experiment: &experiment.Experiment{}}}}, journal: &journal{}}
	c.journal.record.Load = &result.Load{Sent: 40, Whole: &result.Whole{Sent: 100}}
	if got := c.rules().Measured; got != 0.4 {
		t.Errorf("%v of the load, want 0.4", got)
	}
}
