package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// Many workers send nearly as many times the requests of one: in a simulation, each is a server with a fixed time
// per request, and skips the requests of the others at drawCost each (BenchmarkWorkerOfMany).
func TestWorkersScale(t *testing.T) {
	const perRequest, drawCost = 6 * time.Microsecond, 25 * time.Nanosecond
	for _, arrivals := range []string{load.Constant, load.Poisson, load.Uniform} {
		for _, n := range []int{1, 4, 16} {
			linear := float64(n) * float64(time.Second) / float64(perRequest)
			p := &load.Profile{Rate: 0.93 * linear, Arrivals: arrivals, Measure: time.Second, Seed: 7}
			sent := 0
			for i := range n {
				s, free := New(p, i, n), int64(0)
				for at := s.Next(); at < int64(time.Second); at = s.Next() {
					free = max(at, free) + int64(perRequest) + int64(n-1)*int64(drawCost)
					if free <= int64(time.Second) {
						sent++
					}
				}
			}
			if share := float64(sent) / linear; share < 0.9 {
				t.Errorf("%s, %d workers: %.3f of linear", arrivals, n, share)
			}
		}
	}
}

// BenchmarkWorkerOfMany measures the next request of one worker, which also draws the other workers' requests.
func BenchmarkWorkerOfMany(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := New(&load.Profile{Rate: 1e6, Arrivals: load.Poisson, Measure: 24 * time.Hour, Seed: 7}, 0, n)
			for b.Loop() {
				s.Next()
			}
		})
	}
}
