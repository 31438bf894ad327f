package verify

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// A process that a reload started has no reading at the beginning. One that was there at the beginning must have it.
func TestTasksThatBegin(t *testing.T) {
	begin := time.Unix(1700000000, 0)
	sample := func(second float64, ids ...string) *result.Sample {
		s := &result.Sample{Tasks: map[string]result.Reading{}}
		for _, id := range ids {
			s.Tasks[id] = result.Reading{At: begin.Add(time.Duration(second * 1e9)), CPU: int64(1e6 * (1 + second))}
		}
		return s
	}
	looks := []*result.Sample{sample(-1, "app", "old"), sample(0.01, "app", "old"), sample(1, "app", "new"), sample(2, "app", "new")}
	for name, c := range map[string]struct {
		id   string
		cpu  int64
		want int
	}{
		"began later":             {"new", 0, 2},
		"with CPU before":         {"new", 1, -1},
		"there at the beginning":  {"app", 0, -1},
		"there, and ended":        {"old", 0, -1},
		"of which no sample knew": {"other", 0, -1},
	} {
		if got := beganIn(looks, c.id, result.Reading{At: begin, CPU: c.cpu}); got != c.want {
			t.Errorf("%s: sample %d, want %d", name, got, c.want)
		}
	}
}
