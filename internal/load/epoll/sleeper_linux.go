package epoll

import (
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/host"
)

// sleeper decides how long a worker sleeps, and when it polls instead. All in ns.
type sleeper struct {
	spin     int64 // the window before a send in which the worker polls
	wakeLate int64 // lateness of the ends of sleeps, see woke
	wakeMost int64 // bound of wakeLate
	reply    int64 // median response time, see answered
	lastSend int64 // instant of the last send
	// replyRoom is how long after a send the worker may poll for answers.
	replyRoom int64
	taken     int64 // involuntary context switches at the last tick
}

func newSleeper(p *load.Profile, spin time.Duration) sleeper {
	s := sleeper{spin: int64(spin)}
	if p.Rate > 0 {
		s.wakeMost, s.replyRoom = wakeMost(p), replyRoom(p, spin)
	}
	return s
}

// polls reports whether an answer is due so soon that sleeping is not worth it.
func (s *sleeper) polls(now int64) bool {
	return s.reply < s.replyRoom && now-s.lastSend < min(2*s.reply, s.replyRoom)
}

// early is how long before a send the worker stops sleeping.
func (s *sleeper) early() int64 { return max(s.spin, s.wakeLate) }

// wakeStep is the step in ns by which the estimate of wake-up lateness moves.
const wakeStep = 250

// wakeShare is the share of a core that polling at the end of shortened sleeps
// may take, however high the rate.
const wakeShare = 0.05

// wakeMost bounds the cut of a sleep by the CPU it may cost at the profile's rate.
func wakeMost(p *load.Profile) int64 {
	return min(int64(load.DefaultSpin), int64(wakeShare*1e9*float64(p.Workers)/p.Rate))
}

// woke tracks the 90th percentile of the wake-up lateness: up by nine steps for a
// later wake-up, down by one for an earlier. Sleeps are shortened by this estimate.
// It makes sends punctual to microseconds at little cost. Polling for the whole spin
// window would take a core from the system under test.
func (s *sleeper) woke(late int64) {
	if late > s.wakeLate {
		s.wakeLate = min(s.wakeLate+9*wakeStep, s.wakeMost)
	} else {
		s.wakeLate = max(s.wakeLate-wakeStep, 0)
	}
}

// replyMost is the longest response time, in ns, for which a worker with a spin
// window polls. A wake-up takes some 20 µs on a virtual machine and would count as
// the server's time. For slower responses it matters less.
const replyMost = int64(300 * time.Microsecond)

// pollShare is the share of a core that polling before sends and for responses may
// take together. The kernel throttles a real-time thread that takes the whole core:
// it stops for tens of milliseconds in every second.
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
	gap := 1e9 * float64(p.Workers*max(1, p.Parts)) / peak
	return min(replyMost, max(0, int64(pollShare*gap)-int64(spin)))
}

// answered follows the median of how long answers take.
func (s *sleeper) answered(took int64) {
	if took > s.reply {
		s.reply = min(s.reply+replyStep, 2*replyMost)
	} else {
		s.reply = max(s.reply-replyStep, 0)
	}
}

// stolenSpin is how many times a second a spinning worker may be taken off its
// processor before it concludes that the core is not free, and stops spinning.
const stolenSpin = 100

// adaptSpin stops spinning if another process needs the core.
func (s *sleeper) adaptSpin() {
	taken := host.Preempted()
	if s.spin > 0 && taken-s.taken > stolenSpin {
		s.spin = 0
	}
	s.taken = taken
}
