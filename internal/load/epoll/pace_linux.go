package epoll

import (
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// How long a worker sleeps, and when it polls instead.

// wakeStep is the step in ns by which the estimate of wake-up lateness moves.
const wakeStep = 250

// wakeShare is the share of a core that polling at the end of shortened sleeps
// may take, however high the rate.
const wakeShare = 0.05

// wakeMost bounds the cut of a sleep by the CPU it may cost at the profile's rate.
func wakeMost(p *load.Profile) int64 {
	if p.Spin < 0 {
		return 0
	}
	return min(int64(load.DefaultSpin), int64(wakeShare*1e9*float64(p.Workers)/p.Rate))
}

// pause is how long the worker may sleep, less the spin window before a send.
func (w *Worker) pause() time.Duration {
	if w.inFlight > 0 && w.reply < w.replyRoom && w.now-w.lastSend < min(2*w.reply, w.replyRoom) {
		return 0
	}
	next := min(w.NextTick, w.NextEdge, w.nextRetry)
	if w.first != nil {
		next = min(next, w.first.deadline)
	}
	if !w.sending() {
		next = min(next, w.drainEnd)
	}
	if w.nextDue != load.Never {
		next = min(next, w.nextDue-max(w.spin, w.wakeLate))
	}
	return time.Duration(max(0, next-w.now))
}

// learnWake follows the 90th percentile of how late sleeps end: up by nine steps
// for a later one, down by one for an earlier. Sleeps are cut short by so much.
// It makes sends punctual to microseconds at little cost, where polling for the
// whole spin window would take a core from the system under test.
func (w *Worker) learnWake(late int64) {
	if late > w.wakeLate {
		w.wakeLate = min(w.wakeLate+9*wakeStep, w.wakeMost)
	} else {
		w.wakeLate = max(w.wakeLate-wakeStep, 0)
	}
}

// replyMost is the longest answer that a worker with a spin window polls for, ns: to
// wake up for one takes some 20 µs on a virtual machine, which would be taken for
// the server's, and matters less where the server takes longer.
const replyMost = int64(300 * time.Microsecond)

// pollShare is the share of a core that polling before sends and for answers may take
// together. A thread that takes all of it at a real-time priority is stopped for tens
// of milliseconds in every second, for the sake of the others.
const pollShare = 0.75

// replyStep is the step in ns by which the estimate of the answers' median moves.
const replyStep = 500

// replyRoom is for how long after a send an answer may be polled for, with a spin
// window before every send.
func replyRoom(p *load.Profile, spin time.Duration) int64 {
	if spin == 0 {
		return 0
	}
	peak := p.Rate
	for _, g := range p.Segments {
		peak = max(peak, g.From, g.To)
	}
	if p.Sine != nil {
		peak += p.Sine.Amplitude
	}
	gap := 1e9 * float64(p.Workers*max(1, p.Parts)) / peak
	return min(replyMost, max(0, int64(pollShare*gap)-int64(spin)))
}

// learnReply follows the median of how long answers take.
func (w *Worker) learnReply(took int64) {
	if took > w.reply {
		w.reply = min(w.reply+replyStep, 2*replyMost)
	} else {
		w.reply = max(w.reply-replyStep, 0)
	}
}
