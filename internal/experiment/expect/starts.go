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
	{"start.app", "ms", most(func(s Start) float64 { return s.First["app"] })},
	{"start.sidecar", "ms", most(func(s Start) float64 { return s.First["sidecar"] })},
	{"start.through", "ms", most(func(s Start) float64 { return s.First["through"] })},
	{"start.outbound", "ms", most(func(s Start) float64 { return s.First["outbound"] })},
	{"stop.app", "ms", most(func(s Start) float64 { return s.Gone["app"] })},
	{"stop.sidecar", "ms", most(func(s Start) float64 { return s.Gone["sidecar"] })},
	{"stop.lost", "", most(func(s Start) float64 { return float64(s.Lost) })},
}

// most returns the largest value of all starts. A part that no start has, such as the sidecar without a mesh, is 0.
func most(part func(Start) float64) func(Trial, []Second, bool) (float64, error) {
	return func(t Trial, _ []Second, whole bool) (float64, error) {
		switch {
		case !whole:
			return 0, errors.New("it is about the starts after the load, not a time of the measure phase")
		case len(t.Starts) == 0:
			return 0, errors.New("the trial has no starts")
		}
		largest := 0.0
		for _, s := range t.Starts {
			largest = max(largest, part(s))
		}
		return largest, nil
	}
}

// NeedsStarts reports whether the condition is about starts.
func (c Condition) NeedsStarts() bool {
	return strings.HasPrefix(c.subject.name, "start.") || strings.HasPrefix(c.subject.name, "stop.")
}
