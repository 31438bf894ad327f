package runner

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// The measure phase begins at a random time after the start of the deployments and of their load. Otherwise periodic work,
// such as a flush every five seconds, is at the same place of all blocks: a flush more or less is then an error of the
// mean, and no variance between blocks shows it.

// maxPeriod bounds the period of bursts for which the warm-up is made longer.
const maxPeriod = 15 * time.Second

// placing is the random time before a measure phase.
type placing struct {
	planned time.Duration // warm-up of the plan
	least   time.Duration
	over    time.Duration // the time is uniform from least to least+over
	drawn   time.Duration
}

// phaseWait is the random time before readings without requests, up to a known period of bursts. Timers begin with their process, so
// readings at a fixed time after the start have the same bursts in all blocks, or none in any.
func phaseWait(seed uint64, period time.Duration) time.Duration {
	source := rand.New(rand.NewPCG(seed, 0x7068_6173))
	return time.Duration(source.Float64() * float64(period))
}

// place sets the warm-up of an interleaved round, in rows of one slice for each member, and the wait before it. Counters
// with a refresh interval have a random time of their own.
func (rd *round) place(members []*trial) (rows int, wait time.Duration) {
	planned := rd.run.plan.Slices
	row := time.Duration(len(members)) * planned.Length
	if planned.Warmup == 0 || rd.run.Meter.Follower() == nil && members[0].sampler.refreshed() {
		return planned.Warmup, 0
	}
	p := place(members[0].setup.of.Seed, time.Duration(planned.Warmup)*row, rd.run.period)
	rd.run.lengthen((p.delay() + rd.run.quietTime() + rd.run.period/2) / time.Duration(len(members)))
	for _, t := range members {
		t.journal.record.Placing = p.recorded()
	}
	rows, wait = p.split(row)
	return min(rows, load.MaxSlices/len(members)-planned.Measure), wait
}

// place sets the warm-up of a trial that runs alone, in whole seconds, and waits before it.
func (t *trial) place(ctx context.Context) error {
	planned := time.Duration(t.setup.Experiment.Phases.Warmup)
	if planned < 2*time.Second || t.sampler.refreshed() || t.setup.generator.Abilities().Foreign() {
		return nil
	}
	p := place(t.setup.of.Seed, planned, t.setup.period)
	t.setup.lengthen(p.delay())
	t.journal.record.Placing = p.recorded()
	seconds, wait := p.split(time.Second)
	t.load.warmup = time.Duration(seconds) * time.Second
	return await(ctx, time.Now().Add(wait))
}

// place draws the time before a measure phase, from half to one and a half of the planned warm-up: the mean is the plan's.
// Where bursts have a known period, the warm-up has at least one of it, and the time varies by a whole number of them.
func place(seed uint64, planned, period time.Duration) placing {
	p := placing{planned: planned, least: max(planned/2, period), over: planned}
	if period > 0 {
		p.over = max(1, planned/period) * period
	}
	source := rand.New(rand.NewPCG(seed, 0x706c_6163))
	p.drawn = p.least + time.Duration(source.Float64()*float64(p.over))
	return p
}

// split divides the time into a warm-up of whole units, at least one, and a wait without load before it.
func (p placing) split(unit time.Duration) (units int, wait time.Duration) {
	units = max(1, int(p.drawn/unit))
	return units, max(0, p.drawn-time.Duration(units)*unit)
}

func (p placing) recorded() *result.Placing {
	return &result.Placing{PlannedSeconds: p.planned.Seconds(), LeastSeconds: p.least.Seconds(), RangeSeconds: p.over.Seconds(), Seconds: p.drawn.Seconds()}
}

// learn takes over the period of a treatment's bursts for the blocks that follow, if at least two and half of its trials
// have them: a single burst may be of the machine.
func (r *run) learn(of *result.Record) {
	if of.Error != "" {
		return
	}
	r.prewarmer.learn(of)
	r.quiet[of.Treatment] = r.quiet[of.Treatment].next(of)
	seen := append(r.bursts[of.Treatment], of.BurstSeconds)
	r.bursts[of.Treatment] = seen
	with := slices.DeleteFunc(slices.Sorted(slices.Values(seen)), func(seconds float64) bool { return seconds == 0 })
	if n := len(with); n >= 2 && 2*n >= len(seen) {
		r.period = max(r.period, time.Duration(min(with[n/2], maxPeriod.Seconds())*float64(time.Second)))
	}
}

// lengthen corrects the expected time of a trial where bursts make the warm-up longer than the plan's.
func (r *run) lengthen(by time.Duration) {
	if by <= r.delay {
		return
	}
	r.TrialTime += by - r.delay
	r.delay = by
	r.send(result.Event{Kind: result.KindTimes, Run: r.opening()})
}

// delay is the mean time beyond the plan.
func (p placing) delay() time.Duration { return p.least + p.over/2 - p.planned }
