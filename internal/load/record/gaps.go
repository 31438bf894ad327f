package record

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

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
