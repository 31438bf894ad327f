package importer

import (
	"maps"
	"testing"

	"github.com/tare-mesh/tare/internal/run/generator"
)

// Each kind of outcome is in one class: requests = 2xx + status + slow ones, and errors are none of them.
func TestClassesOfOutcomes(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	for name, test := range map[string]struct {
		of       generator.Outcome
		classes  map[string]int64
		requests int64
		tried    int64
	}{
		"statuses": {generator.Outcome{Statuses: map[string]int64{"200": 1, "204": 2, "2xx": 4, "OK": 8, "SERVING": 16, "2": 32, "2000": 64, "20": 128, "302": 256, "404": 512, "Unknown": 1024}},
			map[string]int64{"2xx": 31, "status": 2016}, 2047, 2047},
		"statuses of requests without an answer": {generator.Outcome{Statuses: map[string]int64{"200": 10, "0": 3, "-1": 4, "-200": 5}}, map[string]int64{"2xx": 10, "conn": 12}, 10, 22},
		"good and bad":                           {generator.Outcome{OK: n(7), NotOK: n(2), Slow: 1, Errors: map[string]int64{"timeout": 1}}, map[string]int64{"2xx": 7, "status": 2, "timeout": 1}, 10, 10},
		"requests, failures among them":          {generator.Outcome{Requests: n(100), Errors: map[string]int64{"read": 3, "deadline": 4}}, map[string]int64{"conn": 3, "timeout": 4}, 93, 100},
		"more failures than requests":            {generator.Outcome{Requests: n(2), Errors: map[string]int64{"read": 3}}, map[string]int64{"conn": 3}, 0, 3},
		"timeouts": {generator.Outcome{Statuses: map[string]int64{"200": 1}, Errors: map[string]int64{"timeout": 1, "Client.Timeout exceeded": 2, "request timed out": 4, "HTTP time-out": 8, "context Deadline exceeded": 16, "reset": 32, "refused": 64}},
			map[string]int64{"2xx": 1, "timeout": 31, "conn": 96}, 1, 128},
	} {
		o := newOutput(format{}, "x")
		o.Seconds = 10
		if err := o.add(test.of, format{}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		maps.DeleteFunc(o.classes, func(_ string, n int64) bool { return n == 0 })
		if !maps.Equal(o.classes, test.classes) || o.requests != test.requests || o.tried != test.tried {
			t.Errorf("%s: %v, %d answered of %d; want %v, %d of %d", name, o.classes, o.requests, o.tried, test.classes, test.requests, test.tried)
		}
	}
}
