package job

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/schedule"
)

func TestSpinOnlyWithACoreToSpare(t *testing.T) {
	for _, test := range []struct {
		p    load.Profile
		cpus int
		want time.Duration
	}{
		{load.Profile{Rate: 1, Workers: 1}, 1, 0},
		{load.Profile{Rate: 1, Workers: 1}, 2, 0},
		{load.Profile{Rate: 1, Workers: 1}, 4, load.DefaultSpin},
		{load.Profile{Rate: 1, Workers: 2}, 4, 0},
		{load.Profile{Rate: 0, Workers: 1}, 64, 0},
		{load.Profile{Rate: 1, Workers: 1, CPUs: []int{3}}, 64, 0},
		{load.Profile{Rate: 1, Workers: 1, CPUs: []int{2, 3}}, 64, load.DefaultSpin},
		{load.Profile{Rate: 1, Workers: 1, Spin: time.Microsecond}, 1, time.Microsecond},
		{load.Profile{Rate: 1, Workers: 1, Spin: -1}, 64, 0},
	} {
		if got := spinWindow(&test.p, test.cpus); got != test.want {
			t.Errorf("%+v on %d processors: %v, want %v", test.p, test.cpus, got, test.want)
		}
	}
}

// Three processes share 7 requests/s exactly.
func TestPartsShareTheSchedule(t *testing.T) {
	for _, arrivals := range []string{load.Constant, load.Poisson} {
		whole := load.Profile{Rate: 7, Arrivals: arrivals, Seed: 9, Workers: 2}
		single := schedule.New(&whole, nil, 0, 1)
		var want []int64
		for range 210 {
			want = append(want, single.Next())
		}
		seen := map[int64]int{}
		for part := range 3 {
			p := whole
			p.Part, p.Parts = part, 3
			e := Job{Profile: p}
			for worker := range p.Workers {
				s := e.Schedule(worker)
				for range 35 {
					seen[s.Next()]++
				}
			}
		}
		for _, at := range want {
			if seen[at] == 0 {
				t.Fatalf("%s: nobody sends the request due at %d ns", arrivals, at)
			}
			seen[at]--
		}
	}
}
