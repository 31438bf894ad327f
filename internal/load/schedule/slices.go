package schedule

import (
	"math"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/load"
)

// sliced is the rate over the time in which one load sends: its own slices, without their guards.
// Positions on its axis count its own requests. A block therefore has rate × time of them,
// however few fall into a slice, and all owners of a row have the same number in it.
type sliced struct {
	rateCurve
	left []sending
}

// sending is one own slice without its guard.
type sending struct {
	begin, end float64 // ns from t0
	due        float64 // cumulated rate at begin
	from, to   float64 // positions of own requests
}

func newSliced(p *load.Profile) *sliced {
	s := &sliced{rateCurve: continuous(p)}
	t, at := p.Slices, 0.0
	for i, owner := range t.Owners {
		begin := time.Duration(i) * t.Length
		if n := len(s.left); begin == p.Warmup {
			// The measure window begins with a whole position, so that its number is exact too.
			if at = whole(at); n > 0 {
				s.left[n-1].to = at
			}
		}
		if owner == t.Own {
			end := begin + t.Length - t.Guard
			due := s.cumulated(begin.Seconds())
			// Rounded, since owners of one row have sums that differ in their last digits.
			to := math.Round(1e10*(at+s.cumulated(end.Seconds())-due)) / 1e10
			s.left = append(s.left, sending{begin: float64(begin), end: float64(end), due: due, from: at, to: to})
			at = to
		}
	}
	return s
}

func (s *sliced) reach(x float64) float64 {
	for len(s.left) > 0 && x >= s.left[0].to-rounding {
		s.left = s.left[1:]
	}
	if len(s.left) == 0 {
		return math.Inf(1)
	}
	in := s.left[0]
	return min(max(s.rateCurve.reach(in.due+x-in.from), in.begin), in.end-1)
}

// edges are the positions of the ends of slices.
func (s *sliced) edges() (edges []float64) {
	return lists.Map(s.left, func(in sending) float64 { return in.to })
}
