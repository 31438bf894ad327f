package loadgen

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Limits of the checks a run makes of itself.
const (
	gapLimit     = 0.10 // distance of sent from intended gaps, in mean gaps
	halfLimit    = 0.25 // change of the median between the halves of the window
	halfFloorNS  = 50e3 // smaller changes are nobody's concern
	minHalf      = 2    // whole seconds in each half, below which halves say nothing
	minGaps      = 100
	stealLimit   = 0.01 // of the machine's CPU time, taken by the hypervisor
	pressureMost = 0.20 // of the time, some task waited for a CPU
)

// gaps compares when requests were sent with when they were intended: if the
// gaps between sends have the intended distribution, the arrivals were the ones
// asked for. Only requests that found a free connection count; what waited for
// one was sent when the server, not the generator, was ready.
type gaps struct {
	sent, intended         *hdrhistogram.Histogram
	lastSent, lastIntended int64 // negative: the request before does not count
}

func newGaps() gaps { return gaps{sent: newLive(), intended: newLive(), lastSent: -1} }

// add takes the next request of the schedule.
func (g *gaps) add(sent, intended int64) {
	if g.lastSent >= 0 {
		put(g.sent, sent-g.lastSent)
		put(g.intended, intended-g.lastIntended)
	}
	g.lastSent, g.lastIntended = sent, intended
}

// skip takes note that the next request waited.
func (g *gaps) skip() { g.lastSent = -1 }

// distance is the Wasserstein distance between the two distributions (the area
// between their cumulated forms) in mean gaps: 0 for the same, about 1 where
// regular arrivals have become bursts. Unlike the Kolmogorov-Smirnov distance it
// is small for a small jitter about equal gaps.
func (g *gaps) distance() float64 {
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

// judgeHalves warns where the median response time changed within the window.
func judgeHalves(r *Report, seconds map[int]*logSecond, warmup, measure time.Duration) {
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
		r.warn("not steady: the median response time was %.3f ms in the first half of the window and %.3f ms in the second; a longer warm-up, or look at what changed",
			a/1e6, b/1e6)
	}
}

// judgeHost warns of a machine that others kept from working.
func judgeHost(r *Report) {
	if r.Host.StealRatio > stealLimit {
		r.warn("the hypervisor took %.1f %% of the machine's CPU time in the window (limit %.0f %%)", 100*r.Host.StealRatio, 100*stealLimit)
	}
	if r.Host.CPUPressure > pressureMost {
		r.warn("tasks waited for a CPU during %.0f %% of the window (limit %.0f %%): the machine is too busy", 100*r.Host.CPUPressure, 100*pressureMost)
	}
}

// hostWatch reads the machine at the edges of the measure window.
type hostWatch struct {
	start, end hostReading
	done       chan struct{}
}

// watchHost begins to watch for a window that starts at the given time. The end
// is read when it is over or stop is closed.
func watchHost(start time.Time, measure time.Duration, stop <-chan struct{}) *hostWatch {
	h := &hostWatch{done: make(chan struct{})}
	go func() {
		defer close(h.done)
		for _, edge := range []struct {
			at      time.Time
			reading *hostReading
		}{{start, &h.start}, {start.Add(measure), &h.end}} {
			timer := time.NewTimer(time.Until(edge.at))
			select {
			case <-timer.C:
			case <-stop:
				timer.Stop()
			}
			*edge.reading = readHost()
		}
	}()
	return h
}

// ratios waits for the readings, and relates them to a window of the given length.
func (h *hostWatch) ratios(wall time.Duration) Host {
	<-h.done
	var r Host
	if all := h.end.all - h.start.all; all > 0 {
		r.StealRatio = (h.end.steal - h.start.steal) / all
	}
	if wall > 0 {
		r.CPUPressure = min(1, (h.end.pressure-h.start.pressure)/wall.Seconds())
	}
	return r
}
