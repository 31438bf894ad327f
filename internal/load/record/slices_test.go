package record

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// A request belongs to the slice of its intended start, whenever it ends, and each is counted
// once.
func TestRequestsBelongToTheSliceOfTheirStart(t *testing.T) {
	const ms = int64(time.Millisecond)
	p := profile()
	p.Warmup, p.Measure = 200*time.Millisecond, 300*time.Millisecond
	p.Slices = &load.Slices{Length: 100 * time.Millisecond, Guard: 20 * time.Millisecond, Owners: load.Owners{0, 1, 0, 1, 0}}
	c := NewCollector(&p, nil)
	r := c.Recorder()
	for _, o := range []Outcome{
		{Intended: 10 * ms, End: 11 * ms, Status: 200},                           // warm-up
		{Intended: 210 * ms, Sent: 210 * ms, End: 212 * ms, Status: 200},         // in time
		{Intended: 270 * ms, Sent: 270 * ms, End: 394 * ms, Status: 200},         // in the next slice
		{Intended: 279 * ms, Sent: 279 * ms, End: 395 * ms, Status: 200},         // after the reading at its end
		{Intended: 220 * ms, Sent: 220 * ms, End: 480 * ms, Status: 503},         // in a later slice of its own
		{Intended: 410 * ms, Sent: 410 * ms, End: 512 * ms, Status: 200},         // the last slice
		{Intended: 479 * ms, Sent: -1, End: 900 * ms, Kind: load.FailureNotSent}, // never sent
	} {
		r.Due(o.Intended)
		r.Finish(&o)
	}
	sum := newTotals()
	sum.add(&r.Totals)
	got := sum.slices.own(&p)
	want := []load.SliceCount{
		{Slice: 2, Intended: 4, Answered: 4, OK: 3, Overrun: 2, ResponseNS: (2 + 124 + 116) * ms, LastEnd: 480 * ms},
		{Slice: 4, Intended: 2, Answered: 1, OK: 1, Overrun: 1, ResponseNS: 102 * ms, LastEnd: 512 * ms},
	}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// The answer that came after the window counts, and is not backlog.
	if r.Intended != 6 || r.completed != 5 || r.backlog[1] != 0 {
		t.Errorf("%d intended, %d completed, backlog %v", r.Intended, r.completed, r.backlog)
	}
}
