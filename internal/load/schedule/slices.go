package schedule

import (
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// sliced yields the requests of one owner's slices. All owners have the same arrivals, so every
// request outside the guards is sent by exactly one of them.
type sliced struct {
	Schedule
	slices *load.Slices
}

// Next implements [Schedule].
func (s *sliced) Next() int64 {
	for end := int64(s.slices.End()); ; {
		at := s.Schedule.Next()
		switch {
		case at >= end:
			return load.Never
		case s.slices.Sends(at):
			return at
		}
	}
}

// sliceEdges are the positions of the ends of slices and of the beginnings of their guards.
func sliceEdges(s *load.Slices, c rateCurve) (edges []float64) {
	for i := range s.Owners {
		end := time.Duration(i+1) * s.Length
		if s.Guard > 0 {
			edges = append(edges, c.cumulated((end - s.Guard).Seconds()))
		}
		edges = append(edges, c.cumulated(end.Seconds()))
	}
	return edges
}
