package runner

import (
	"context"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// fraction is the part of the rate that one trial of a round has with order together.
type fraction struct {
	start   time.Time // of the schedule of all
	own     int       // the member
	members int       // planned
}

// apply makes p the load of one member. All members together have the rate of p. Their schedules are not the
// same, because requests of all at the same instants would queue for the processors.
func (f *fraction) apply(p *load.Profile) {
	each := time.Duration(float64(time.Second) / p.Rate) // between requests of all members
	p.Start = f.start.Add(time.Duration(f.own) * each)
	p.Rate /= float64(f.members)
	p.Seed += uint64(f.own)
}

// warmUpAtOnce starts the loads of all members and waits until the measure phase.
func (rd *round) warmUpAtOnce(ctx context.Context) {
	members := rd.alive()
	start := rd.prepareLoads(ctx, members)
	for i, t := range members {
		t.load.fraction = &fraction{start: start, own: i, members: rd.planned()}
		if t.outcome == nil {
			t.outcome = t.load.begin(ctx)
		}
	}
	rd.each(rd.alive(), func(_ int, t *trial) { t.outcome = t.awaitMeasure(ctx) })
}
