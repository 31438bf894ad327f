package expect

import (
	"errors"
	"strings"
)

// Start is one stop and start of a pod. Times are in milliseconds, by part.
type Start struct {
	First map[string]float64 // from exec to the first answer
	Gone  map[string]float64 // from SIGTERM to the end of the process
	Lost  int                // requests
}

// startSubjects are of all starts of a trial: the longest time, or the most requests.
var startSubjects = []subject{
	{"start.app", "ms", longest(func(s Start) (float64, bool) { v, known := s.First["app"]; return v, known })},
	{"start.sidecar", "ms", longest(func(s Start) (float64, bool) { v, known := s.First["sidecar"]; return v, known })},
	{"start.through", "ms", longest(func(s Start) (float64, bool) { v, known := s.First["through"]; return v, known })},
	{"start.outbound", "ms", longest(func(s Start) (float64, bool) { v, known := s.First["outbound"]; return v, known })},
	{"stop.app", "ms", longest(func(s Start) (float64, bool) { v, known := s.Gone["app"]; return v, known })},
	{"stop.sidecar", "ms", longest(func(s Start) (float64, bool) { v, known := s.Gone["sidecar"]; return v, known })},
	{"stop.lost", "", longest(func(s Start) (float64, bool) { return float64(s.Lost), true })},
}

// longest returns the largest value of all starts. A part that no start has, such as the sidecar without a mesh, is 0.
func longest(of func(Start) (float64, bool)) func(Trial, []Second, bool) (float64, error) {
	return func(t Trial, _ []Second, whole bool) (float64, error) {
		switch {
		case !whole:
			return 0, errors.New("it is about the starts after the load, not a time of the measure phase")
		case len(t.Starts) == 0:
			return 0, errors.New("the trial has no starts")
		}
		most := 0.0
		for _, s := range t.Starts {
			if v, known := of(s); known {
				most = max(most, v)
			}
		}
		return most, nil
	}
}

// NeedsStarts reports whether the condition is about starts.
func (c Condition) NeedsStarts() bool {
	return strings.HasPrefix(c.subject.name, "start.") || strings.HasPrefix(c.subject.name, "stop.")
}
