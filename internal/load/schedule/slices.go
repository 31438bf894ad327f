package schedule

import "github.com/tare-mesh/tare/internal/load"

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
