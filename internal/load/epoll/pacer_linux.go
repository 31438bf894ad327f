package epoll

import (
	"math"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/schedule"
)

// pacer decides when requests are due and until when they are. Instants are ns from t0.
type pacer struct {
	schedule schedule.Schedule // nil: closed loop
	nextDue  int64             // load.Never: the schedule is over
	sendEnd  int64             // no request is intended at or after it
	quota    int64             // requests to be sent in the measure window
	drain    int64             // how long to wait for answers, ns
	drainEnd int64             // when waiting for answers ends
	started  bool
	stopped  bool // by Stop
}

func newPacer(j *job.Job, number int) pacer {
	p := &j.Profile
	s := pacer{nextDue: load.Never, sendEnd: int64(p.Warmup + p.Measure + p.Tail), quota: j.Quota(number), drain: int64(p.Drain)}
	s.drainEnd = s.sendEnd + s.drain
	if p.Rate > 0 {
		s.schedule = j.Schedule(number)
	}
	return s
}

func (p *pacer) closedLoop() bool { return p.schedule == nil }

// sending reports whether requests may still be intended, after intended of them.
func (p *pacer) sending(now, intended int64) bool {
	return !p.stopped && (!p.started || now < p.sendEnd && intended < p.quota)
}

// advance moves to the schedule's next request, after intended of them.
func (p *pacer) advance(intended int64) {
	p.nextDue = p.schedule.Next()
	if p.nextDue == load.Never && p.quota < math.MaxInt64 {
		p.quota = intended // the schedule has fewer: the time of such a load is hours
	}
	if p.nextDue >= p.sendEnd || p.stopped || intended >= p.quota {
		p.nextDue = load.Never
	}
}

// end ends the schedule now.
func (p *pacer) end(now int64) {
	p.nextDue = load.Never
	p.drainEnd = min(p.drainEnd, now+p.drain)
}
