package runner

import (
	"context"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// fraction is the part of the rate that one trial of a round has with order together.
type fraction struct {
	start   time.Time     // of the schedule of all, which loads that are held get when they are ready
	after   time.Duration // from that start to its own
	own     int           // the member
	members int           // planned
}

// apply makes p the load of one member. All members together have the rate of p. Their schedules are not the
// same, because requests of all at the same instants would queue for the processors.
func (f *fraction) apply(p *load.Profile) {
	f.after = time.Duration(float64(f.own) * float64(time.Second) / p.Rate)
	p.Start = f.start.Add(f.after)
	p.Rate /= float64(f.members)
	p.Seed += uint64(f.own)
}

// warmUpAtOnce starts the loads of all members and waits until the measure phase.
func (rd *round) warmUpAtOnce(ctx context.Context) {
	members := rd.alive()
	start := time.Now().Add(rd.prepareLoads(ctx, members))
	for i, t := range members {
		t.load.fraction = &fraction{start: start, own: i, members: rd.planned()}
	}
	rd.launch(ctx, rd.held())
	if rd.held() {
		start = rd.startWhenReady(time.Now())
	}
	rd.each(rd.alive(), func(_ int, t *trial) {
		if t.outcome = t.load.release(start.Add(t.load.fraction.after)); t.outcome == nil {
			t.outcome = t.awaitMeasure(ctx)
		}
	})
}

// startWhenReady is the start of loads that are all ready now.
func (rd *round) startWhenReady(now time.Time) (start time.Time) {
	members := rd.alive()
	for _, t := range members {
		if at := startAfter(now, t.load.profile.Warmup, len(members)); at.After(start) {
			start = at
		}
	}
	return start
}
