package record

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"syscall"
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

// Limits of the generator. Beyond a limit the generator was measured, not the server.
// A note is printed beside the times.
const (
	reachedRate    = 0.995 // of the intended requests
	threadCPULimit = 0.90  // of one core
	gapNote        = 0.10  // distance of sent from intended gaps, in mean gaps
	gapLimit       = 0.50  // likewise: requests sent in pairs instead of one by one

	// Lateness is part of the response time, so it is compared with the median response
	// time. The limits at p99 equal the limits of a trial: it is marked above the larger of 1 ms
	// and 10 % of the median, and its times are withheld above ten times that.
	latenessFloor = 50.0     // µs. A smaller lateness is ignored
	latenessNote  = 0.10     // p99, of the median response time
	latenessHalf  = 0.50     // p50, likewise: the median is then more of the generator than of the server
	latenessGross = 10_000.0 // p99, µs, or the median response time if that is more
)

// judge finds the limits of the generator that were reached, and sets the verdict.
func judge(r *load.Report, t *Totals, cut bool) {
	if r.MeasureEnd.Equal(r.MeasureStart) {
		r.Invalidate("stopped before the measure window began")
		return
	}
	if cut {
		r.Warn("stopped before the measure window was over: it is %v long", r.MeasureEnd.Sub(r.MeasureStart).Round(time.Millisecond))
	}
	if r.Loop == "open" {
		judgeRate(r)
		judgeLateness(r, t)
		judgeGaps(r)
	}
	if r.ThreadCPURatio > threadCPULimit {
		r.Limit("the busiest worker used %.0f %% of a core (limit %.0f %%): use more workers or fewer requests",
			100*r.ThreadCPURatio, 100*threadCPULimit)
	}
	if t.LateRests > 0 {
		r.Note("%d times the load waited 100 ms for more window of HTTP/2, which the server did not return: the wait is part of the times", t.LateRests)
	}
	if t.Unfinished > 0 {
		r.Warn("%d requests were still unanswered at the end of the drain and count as timeouts", t.Unfinished)
	}
}

// judgeRate invalidates the verdict of v1 if too few requests ended. That alone is not a
// limit of the generator: the server or the connections may be the reason.
func judgeRate(r *load.Report) {
	failed := r.Classes[load.Conn] + r.Classes[load.Timeout]
	if done := r.Completed + failed; float64(done) < reachedRate*float64(r.Intended) {
		r.Invalidate("rate missed: %d of %d requests ended in the window (%.1f %%, limit %.1f %%)",
			done, r.Intended, 100*float64(done)/float64(r.Intended), 100*reachedRate)
	}
}

func judgeLateness(r *load.Report, t *Totals) {
	if r.ResponseMS.Count == 0 {
		return // no times to compare with
	}
	own, median := r.OwnLatenessUS, r.ResponseMS.P50*1e3
	note := max(latenessFloor, latenessNote*median)
	switch {
	case own.P50 > max(latenessFloor, latenessHalf*median):
		r.Limit("sent late: the generator delayed half of the requests by %.0f µs or more, and the median response time with that is %.0f µs", own.P50, median)
	case own.P99 > max(latenessGross, median):
		r.Limit("sent late: p99 lateness of the generator's own is %.1f ms (limit %.1f ms, the larger of 10 ms and the median response time)",
			own.P99/1e3, max(latenessGross, median)/1e3)
	case own.P99 > note:
		r.Note("sent late: p99 lateness of the generator's own is %.0f µs, which is part of the response times (median %.0f µs)", own.P99, median)
	}
	if waited := r.LatenessUS.P99 - own.P99; waited > note {
		r.Warn("requests waited for a free connection (p99 of lateness %.0f µs, at most %d at once): the wait is part of the response time; more connections would shorten it",
			r.LatenessUS.P99, t.QueueMax)
	}
}

func judgeGaps(r *load.Report) {
	const text = "arrivals differ from the intended ones: gaps between sends are off by %.0f %% of a mean gap"
	switch {
	case r.GapDistance > gapLimit:
		r.Limit(text+" (limit %.0f %%)", 100*r.GapDistance, 100*gapLimit)
	case r.GapDistance > gapNote:
		r.Note(text, 100*r.GapDistance)
	}
}

// Limits of the checks a run makes of itself.
const (
	halfLimit    = 0.25            // change of the median between the halves of the window
	halfFloorNS  = 50e3            // smaller changes are ignored
	minHalf      = 2 * time.Second // whole seconds in each half, at least
	minGaps      = 100
	stealLimit   = 0.01 // of the machine's CPU time, taken by the hypervisor
	pressureMost = 0.20 // of the time, some task waited for a CPU
)

// judgeHalves warns where the median response time changed within the window.
func judgeHalves(r *load.Report, log map[time.Duration]*logInterval, warmup, measure time.Duration) {
	first, last := (warmup + time.Second - 1).Truncate(time.Second), (warmup + measure).Truncate(time.Second)
	if last-first < 2*minHalf {
		return
	}
	half := ((last - first) / 2).Truncate(time.Second)
	var halves [2]*hdrhistogram.Histogram
	for i, begin := range []time.Duration{first, last - half} {
		halves[i] = newHistogram()
		for from, l := range log {
			if from >= begin && l.to <= begin+half && l.response[classOK] != nil {
				l.response[classOK].MergeInto(halves[i])
			}
		}
	}
	a, b := float64(halves[0].ValueAtPercentile(50)), float64(halves[1].ValueAtPercentile(50))
	if a > 0 && b > 0 && math.Abs(b-a) > max(halfFloorNS, halfLimit*min(a, b)) {
		r.Warn("not steady: the median response time was %.3f ms in the first half of the window and %.3f ms in the second; use a longer warm-up, or find the cause",
			a/1e6, b/1e6)
	}
}

// judgeHost warns of a machine that others kept from working.
func judgeHost(r *load.Report) {
	if r.Host.StealRatio > stealLimit {
		r.Note("the hypervisor took %.1f %% of the machine's CPU time in the window (limit %.0f %%)", 100*r.Host.StealRatio, 100*stealLimit)
	}
	if r.Host.CPUPressure > pressureMost {
		r.Note("tasks waited for a CPU during %.0f %% of the window (limit %.0f %%): the machine is too busy", 100*r.Host.CPUPressure, 100*pressureMost)
	}
}

// judgeConnections warns where fewer connections were open than the profile has. It names
// the server if that closed the missing ones.
func judgeConnections(r *load.Report, p *load.Profile) {
	want := int64(p.Connections)
	if r.ExtraBytes > 0 {
		r.Warn("on %d connections the server sent bytes after the end of a response%s: no request counts as failed by that", r.ExtraBytes,
			map[bool]string{true: " to HEAD, which has no body"}[p.Method == http.MethodHead])
	}
	switch {
	case r.ConnectErrors[load.FailureNoDescriptors.String()] > 0: // whatever the server did
		r.Warn("%d of %d connections were open when the load began, as this machine ran out of file descriptors%s: %s",
			r.Connected, want, filesLimit(), Tally(r.ConnectErrors, r.Reasons))
	case p.NoKeepAlive:
	case r.GoAways > 0 && r.ClosedUnused > 0 && r.Held < want:
		why := ""
		if reason := r.Reasons[load.FailureGoAway.String()]; reason != "" {
			why = ", " + reason
		}
		r.Warn("the server ended %d connections by GOAWAY%s: %d of them before their first response", r.GoAways, why, min(r.GoAways, r.ClosedUnused))
	case r.ClosedUnused > 0 && r.Held < want && r.Completed > 0:
		r.Warn("the server holds only %d of %d connections: it closed %d before their first response; use fewer connections, or raise its limit",
			r.Held, want, r.ClosedUnused)
	case r.Connected < want:
		r.Warn("%d of %d connections were open when the load began: %s", r.Connected, want, cmp.Or(Tally(r.ConnectErrors, r.Reasons), "no more could be opened in time"))
	}
}

// filesLimit names the limit of this process, the load's, in brackets.
func filesLimit() string {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return ""
	}
	return fmt.Sprintf(" (limit of a process: %d; raise it with ulimit -n, or use fewer connections)", limit.Cur)
}

// Gaps compares the actual with the intended send times. If the gaps between sends
// have the intended distribution, the arrivals are as configured. Only requests that
// found a free connection count. The send time of the others depends on the server,
// not on the generator.
type Gaps struct {
	sent, intended         *hdrhistogram.Histogram
	lastSent, lastIntended int64 // negative: the request before does not count
}

func newGaps() Gaps { return Gaps{sent: newLive(), intended: newLive(), lastSent: -1} }

// Add takes the next request of the schedule.
func (g *Gaps) Add(sent, intended int64) {
	if g.lastSent >= 0 {
		put(g.sent, sent-g.lastSent)
		put(g.intended, intended-g.lastIntended)
	}
	g.lastSent, g.lastIntended = sent, intended
}

// Skip records that the next request waited.
func (g *Gaps) Skip() { g.lastSent = -1 }

// distance is the Wasserstein distance between the two distributions (the area
// between their cumulated forms) in mean gaps: 0 for the same, about 1 where
// regular arrivals have become bursts. Unlike the Kolmogorov-Smirnov distance it
// is small for a small jitter about equal gaps.
func (g *Gaps) distance() float64 {
	n, mean := g.intended.TotalCount(), g.intended.Mean()
	if n < minGaps || mean == 0 {
		return 0
	}
	a, b := g.sent.Distribution(), g.intended.Distribution()
	var area, cumulated float64
	for i := range min(len(a), len(b)) {
		cumulated += float64(a[i].Count-b[i].Count) / float64(n)
		area += math.Abs(cumulated) * float64(a[i].To-a[i].From+1)
	}
	return area / mean
}
