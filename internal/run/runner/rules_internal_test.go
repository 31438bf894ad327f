package runner

import (
	"math"
	"strings"
	"testing"
	"time"

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

// Of 450 requests at 150/s that take 5 ms, 0.75 are under way at a time: three standard deviations of a difference of two are 3.67. Of
// 20,000 half a percent may lack.
func TestMayLack(t *testing.T) {
	limits := experiment.Validity{RateShortfall: 0.005}
	for intended, want := range map[int64]float64{450: 3.674, 20000: 100} {
		if got := MayLack(intended, 150, 5*time.Millisecond, limits); math.Abs(got-want) > 0.001 {
			t.Errorf("%v of %d, want %v", got, intended, want)
		}
	}
}

// A hint to pin CPUs is a command: tare weigh has no file and no flag for it.
func TestPinningIsACommand(t *testing.T) {
	for _, c := range checks {
		if strings.Contains(c.hint, "platform.cpus") && !strings.Contains(c.hint, `tare run FILE --set 'platform.cpus={load: "0"}'`) {
			t.Errorf("%s: %s", c.code, c.hint)
		}
	}
}
