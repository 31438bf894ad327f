package record

import (
	"testing"
	"time"
)

// The CPU of the process lasts until the last of its workers has ended, however early the first one does.
func TestProcessCPU(t *testing.T) {
	const ms = time.Millisecond
	totals := func(begin, end time.Duration) *Totals { return &Totals{process: [2]time.Duration{begin, end}} }
	for _, test := range []struct {
		workers []*Totals
		want    time.Duration
	}{
		{nil, 0},
		{[]*Totals{totals(20*ms, 50*ms)}, 30 * ms},
		{[]*Totals{totals(20*ms, 20*ms), totals(21*ms, 90*ms), totals(20*ms, 60*ms)}, 70 * ms},
	} {
		if got := processCPU(test.workers); got != test.want {
			t.Errorf("%v, want %v", got, test.want)
		}
	}
}
