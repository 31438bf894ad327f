package job

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/schedule"
	"github.com/tare-mesh/tare/internal/load/target"
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
		single := schedule.New(&whole, 0, 1)
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

// No connection opens only when one to each origin has failed: another may still be opening.
func TestNoneOpens(t *testing.T) {
	j := Job{Targets: []target.Target{{Origin: 0}, {Origin: 1}, {Origin: 0}}}
	j.Divide([]int{0, 1, 2})
	for i, want := range []bool{false, false, true} {
		if j.Unopened(&j.Targets[2*i%3]); j.NoneOpens() != want {
			t.Errorf("after %d failures: %v, want %v", i+1, j.NoneOpens(), want)
		}
	}
	if j.Opened(); j.NoneOpens() || !j.HasOpened() {
		t.Error("none opens, after one has")
	}
}
