package runner

import (
	"reflect"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
)

// What two processes count between two readings is added up, in buckets that are not cumulative. If a process ended or started
// between them, the times are unknown.
func TestTimesBetween(t *testing.T) {
	of := func(instance string, count int64, seconds float64, within ...int64) mesh.CountedTime {
		return mesh.CountedTime{Stage: "push", Instance: instance, Count: count, Seconds: seconds, Within: map[float64]int64{0.1: within[0], 1: within[1]}}
	}
	begin := []mesh.CountedTime{of("a", 10, 1, 10, 10), of("b", 5, 4, 1, 5)}
	end := []mesh.CountedTime{of("a", 14, 2, 11, 13), of("b", 7, 4.5, 3, 7), {Stage: "queue", Instance: "a"}}
	if got := timesBetween(append(begin, mesh.CountedTime{Stage: "queue", Instance: "a"}), end); !reflect.DeepEqual(got, []result.ControlTime{
		{Stage: "push", Count: 6, Seconds: 1.5, Buckets: []result.TimeBucket{{UpTo: 0.1, Count: 3}, {UpTo: 1, Count: 2}}}, // one of a is longer than a second
	}) {
		t.Errorf("%+v", got)
	}
	for name, readings := range map[string][2][]mesh.CountedTime{
		"a process ended": {begin, end[:1]}, "a process started": {begin[:1], end[:2]}, "the first reading failed": {nil, end},
	} {
		if got := timesBetween(readings[0], readings[1]); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
