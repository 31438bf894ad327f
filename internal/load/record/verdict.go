package record

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/load"
)

// skewLimit is the difference of clocks, or its uncertainty, that is
// worth a warning, µs: or a tenth of the median response time, if that is more.
const skewLimit = 1000.0

// judgeClocks compares the clocks of all parts, where each has been measured.
func judgeClocks(r *load.Report, parts []load.Report) {
	var least, most, bound float64
	for i := range parts {
		c := parts[i].Clock
		if c == nil {
			return
		}
		if i == 0 {
			least, most = c.AheadUS, c.AheadUS
		}
		least, most, bound = min(least, c.AheadUS), max(most, c.AheadUS), max(bound, c.BoundUS)
	}
	r.Clock = nil
	r.ClockSkewUS, r.ClockBoundUS = most-least, 2*bound
	limit := max(skewLimit, 0.1*r.ResponseMS.P50*1e3)
	if r.ClockSkewUS > limit {
		r.Warn("the clocks of the parts differ by %.0f µs (± %.0f µs, limit %.0f µs): each part's start is corrected for its own clock", r.ClockSkewUS, r.ClockBoundUS, limit)
	}
	if r.ClockBoundUS > limit {
		r.Warn("the clocks of the parts could be compared only to ± %.0f µs (limit %.0f µs): the parts may have started so far apart", r.ClockBoundUS, limit)
	}
}

// Limits beyond which the generator, not the server, was measured.
const (
	reachedRate    = 0.995 // of the intended requests
	latenessFloor  = 50.0  // µs, p99
	latenessShare  = 0.10  // of the median response time
	threadCPULimit = 0.90  // of one core
)

// judge sets the verdict: whether the generator was the limit, and which one.
func judge(r *load.Report, t *Totals, cut bool) {
	if r.MeasureEnd.Equal(r.MeasureStart) {
		r.Invalidate("stopped before the measure window began")
		return
	}
	if cut {
		r.Warn("stopped before the measure window was over: it is %v long", r.MeasureEnd.Sub(r.MeasureStart).Round(time.Millisecond))
	}
	if r.Loop == "open" {
		judgeOpen(r, t)
	}
	if r.ThreadCPURatio > threadCPULimit {
		r.Invalidate("the busiest worker used %.0f %% of a core (limit %.0f %%): use more workers or fewer requests",
			100*r.ThreadCPURatio, 100*threadCPULimit)
	}
	if t.Unfinished > 0 {
		r.Warn("%d requests were still unanswered at the end of the drain and count as time-outs", t.Unfinished)
	}
}

func judgeOpen(r *load.Report, t *Totals) {
	failed := r.Classes[load.Conn] + r.Classes[load.Timeout]
	if done := r.Completed + failed; float64(done) < reachedRate*float64(r.Intended) {
		r.Invalidate("rate missed: %d of %d requests ended in the window (%.1f %%, limit %.1f %%), %d were dropped",
			done, r.Intended, 100*float64(done)/float64(r.Intended), 100*reachedRate, r.Dropped)
	}
	if limit := max(latenessFloor, latenessShare*r.ResponseMS.P50*1e3); r.OwnLatenessUS.P99 > limit {
		r.Invalidate("sent late: p99 lateness of the generator's own is %.0f µs (limit %.0f µs, the larger of 50 µs and 10 %% of the median response time)",
			r.OwnLatenessUS.P99, limit)
	}
	if r.GapDistance > gapLimit {
		r.Invalidate("arrivals not as asked: the gaps between sends are %.0f %% of a mean gap away from the intended ones (limit %.0f %%)",
			100*r.GapDistance, 100*gapLimit)
	}
	if waited := r.LatenessUS.P99 - r.OwnLatenessUS.P99; waited > max(latenessFloor, latenessShare*r.ResponseMS.P50*1e3) {
		r.Warn("requests waited for a free connection (p99 of lateness %.0f µs, at most %d at once): the wait is part of the response time; more connections would shorten it",
			r.LatenessUS.P99, t.QueueMax)
	}
}

// Limits of the checks a run makes of itself.
const (
	gapLimit     = 0.10 // distance of sent from intended gaps, in mean gaps
	halfLimit    = 0.25 // change of the median between the halves of the window
	halfFloorNS  = 50e3 // smaller changes are ignored
	minHalf      = 2    // whole seconds in each half, at least
	minGaps      = 100
	stealLimit   = 0.01 // of the machine's CPU time, taken by the hypervisor
	pressureMost = 0.20 // of the time, some task waited for a CPU
)

// judgeHalves warns where the median response time changed within the window.
func judgeHalves(r *load.Report, seconds map[int]*logSecond, warmup, measure time.Duration) {
	first, last := int((warmup+time.Second-1)/time.Second), int((warmup+measure)/time.Second)
	if last-first < 2*minHalf {
		return
	}
	var halves [2]*hdrhistogram.Histogram
	for i := range halves {
		halves[i] = newHistogram()
		half := (last - first) / 2
		for s := first + i*(last-first-half); s < first+half+i*(last-first-half); s++ {
			if l := seconds[s]; l != nil && l.response[classOK] != nil {
				l.response[classOK].MergeInto(halves[i])
			}
		}
	}
	a, b := float64(halves[0].ValueAtPercentile(50)), float64(halves[1].ValueAtPercentile(50))
	if a > 0 && b > 0 && math.Abs(b-a) > max(halfFloorNS, halfLimit*min(a, b)) {
		r.Warn("not steady: the median response time was %.3f ms in the first half of the window and %.3f ms in the second; a longer warm-up, or look at what changed",
			a/1e6, b/1e6)
	}
}

// judgeHost warns of a machine that others kept from working.
func judgeHost(r *load.Report) {
	if r.Host.StealRatio > stealLimit {
		r.Warn("the hypervisor took %.1f %% of the machine's CPU time in the window (limit %.0f %%)", 100*r.Host.StealRatio, 100*stealLimit)
	}
	if r.Host.CPUPressure > pressureMost {
		r.Warn("tasks waited for a CPU during %.0f %% of the window (limit %.0f %%): the machine is too busy", 100*r.Host.CPUPressure, 100*pressureMost)
	}
}
