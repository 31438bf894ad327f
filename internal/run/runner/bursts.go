package runner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
)

// A program that does its work in bursts, such as a flush every five seconds, has a whole number of them in a measure
// phase. Its blocks begin at the same time after its start, so the burst that is missing, or one too many, is the same
// in all of them, and no interval contains it.
const (
	// burstShare is the share of the cost that one burst may have without a warning.
	burstShare = 0.03
	// A burst uses at least burstUse times as many cores as usual, and differs by burstDeviations median deviations from it.
	burstUse, burstDeviations = 1.5, 5
	// minUses are the parts of the measure phase that show what is usual.
	minUses = 5
)

// use is the CPU of the compared tasks in a part of the measure phase.
type use struct {
	ns   int64
	at   time.Duration // from the start of the phase, of its begin
	time time.Duration
}

func (u use) cores() float64 { return float64(u.ns) / float64(max(1, u.time)) }

// burstsSeen are the bursts of CPU in a measure phase.
type burstsSeen struct {
	count         int
	largest, cost int64 // ns
	over          time.Duration
	period        time.Duration // time between two bursts, 0 if there is none
}

// bursts finds the bursts in the slices of others: the work of own slices varies with their requests. Work that is
// deferred for a fixed time follows each own slice, and is not a burst: most of it is in the slices of others.
func (m *sliceMember) bursts(cost int64) *burstsSeen {
	inside, outside := m.durations()
	b := burstsIn(m.usesOfOthers(true), cost, inside+outside)
	own := 0
	for _, row := range m.rows {
		if row.Own {
			own++
		}
	}
	if 3*b.count > own {
		b.count = 0
	}
	return b
}

// fewBursts warns of bursts of which one more or fewer changes the cost.
func fewBursts(s seen) string {
	b := s.bursts
	if b == nil || b.count == 0 || float64(b.largest) <= burstShare*float64(b.cost) {
		return ""
	}
	return fmt.Sprintf("%s of up to %v of CPU in %v: one more or fewer changes the cost by %.1f %% (limit %.0f %%)", printable.Counted(b.count, "burst"),
		time.Duration(b.largest).Round(100*time.Microsecond), b.over.Round(100*time.Millisecond), 100*float64(b.largest)/float64(b.cost), 100*burstShare)
}

// burstsIn finds the bursts in successive parts of the measure phase.
func burstsIn(uses []use, cost int64, over time.Duration) *burstsSeen {
	b := &burstsSeen{cost: cost, over: over}
	if len(uses) < minUses {
		return b
	}
	usual, deviation := medianDeviation(uses)
	limit := max(burstUse*usual, usual+burstDeviations*deviation)
	type burst struct {
		ns int64
		at time.Duration
	}
	var all []burst
	within, ended := false, time.Duration(0)
	for _, u := range uses {
		high := u.cores() > limit
		// A burst goes on over an own slice, which is about as long.
		if above := u.ns - int64(usual*float64(u.time)); high && within && u.at-ended < 2*u.time {
			all[len(all)-1].ns += above
		} else if high {
			all = append(all, burst{above, u.at})
		}
		within, ended = high, u.at+u.time
	}
	if len(all) == 0 {
		return b
	}
	b.largest = slices.MaxFunc(all, func(x, y burst) int { return cmp.Compare(x.ns, y.ns) }).ns
	var gaps []time.Duration
	last := uses[0].at
	for _, one := range all {
		if one.ns >= b.largest/4 {
			b.count++
			gaps = append(gaps, one.at-last)
			last = one.at
		}
	}
	b.period = typicalGap(gaps, uses[len(uses)-1].at-last)
	return b
}

// typicalGap is the time between two bursts: the median of the gaps between them, the first of which is that before the
// first burst. The period of a single burst is at least the time beside it without another, and taken as twice that.
func typicalGap(gaps []time.Duration, after time.Duration) time.Duration {
	if len(gaps) == 1 {
		return 2 * max(gaps[0], after)
	}
	between := slices.Sorted(slices.Values(gaps[1:]))
	return between[len(between)/2]
}

// medianDeviation returns the median use in cores, and the median of the deviations from it.
func medianDeviation(uses []use) (usual, deviation float64) {
	all := make([]float64, len(uses))
	for i, u := range uses {
		all[i] = u.cores()
	}
	slices.Sort(all)
	usual = all[len(all)/2]
	for i, cores := range all {
		all[i] = math.Abs(cores - usual)
	}
	slices.Sort(all)
	return usual, all[len(all)/2]
}
