package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// starts are all requests of p's schedule before an instant, over a number of workers.
func starts(p load.Profile, workers int, before time.Duration) (all []int64) {
	for i := range workers {
		for s := New(&p, nil, i, workers); ; {
			at := s.Next()
			if at >= int64(before) {
				break
			}
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return all
}

// Each request of the common schedule has exactly one owner, or lies in a guard, for any table,
// any arrivals and any number of workers.
func TestOwnersAndGuardsAreTheWholeSchedule(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 60 {
		owners, length := 1+rng.IntN(5), time.Duration(1+rng.IntN(300))*time.Millisecond
		table := load.Slices{Length: length, Guard: time.Duration(rng.Int64N(int64(length))), Owners: make([]int, 1+rng.IntN(50))}
		if n%7 == 0 {
			table.Guard = 0
		}
		for i := range table.Owners {
			table.Owners[i] = rng.IntN(owners)
		}
		p := load.Profile{Rate: 1 + 2000*rng.Float64(), Seed: rng.Uint64N(1 << 53),
			Arrivals: []string{load.Constant, load.Poisson, load.Uniform}[n%3]}
		whole := starts(p, 1, table.End())
		var parts []int64
		for own := range owners {
			mine := table
			mine.Own = own
			p.Slices = &mine
			for _, at := range starts(p, 1+n%3, load.Never) {
				i := int(at / int64(length))
				if table.Owners[i] != own {
					t.Fatalf("owner %d sends at %d, in a slice of owner %d", own, at, table.Owners[i])
				}
				if into := time.Duration(at) - time.Duration(i)*length; into >= length-table.Guard {
					t.Fatalf("request %v into a slice of %v with a guard of %v", into, length, table.Guard)
				}
				parts = append(parts, at)
			}
		}
		for _, at := range whole {
			if time.Duration(at)%length >= length-table.Guard {
				parts = append(parts, at)
			}
		}
		slices.Sort(parts)
		if !slices.Equal(whole, parts) {
			t.Fatalf("table %+v: %d requests in the schedule, %d by owners and guards", table, len(whole), len(parts))
		}
	}
}

// The sending time of all owners and the guards are the window.
func TestLoadedTime(t *testing.T) {
	table := load.Slices{Length: 100 * time.Millisecond, Guard: 10 * time.Millisecond, Owners: []int{0, 1, 0, 1, 1, 0, 2}}
	var got []string
	for own := range 3 {
		table.Own = own
		got = append(got, fmt.Sprint(table.Loaded(200*time.Millisecond, 700*time.Millisecond)))
	}
	if want := []string{"180ms", "180ms", "90ms"}; !slices.Equal(got, want) {
		t.Errorf("loaded for %v, want %v", got, want)
	}
}

// Seconds are no edges of slices that are longer, or that do not divide them.
func TestLoadedTimeOfSeconds(t *testing.T) {
	for length, want := range map[time.Duration]string{
		2 * time.Second:        "[0s 0s 1s 990ms]",
		300 * time.Millisecond: "[390ms 480ms 580ms 390ms]",
		100 * time.Millisecond: "[450ms 450ms 450ms 450ms]",
	} {
		table := load.Slices{Length: length, Guard: 10 * time.Millisecond, Own: 1}
		for i := range 40 {
			table.Owners = append(table.Owners, i%2)
		}
		var got []time.Duration
		for second := range 4 {
			from := time.Duration(second) * time.Second
			got = append(got, table.Loaded(from, from+time.Second))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("slices of %v are loaded for %v, want %s", length, got, want)
		}
	}
}

// Every slice has the same number of requests.
func TestSlicesHaveTheSameNumberOfRequests(t *testing.T) {
	for own := range 2 {
		p := load.Profile{Rate: 1000, Arrivals: load.Poisson, Seed: 5, Warmup: 200 * time.Millisecond, Measure: time.Second,
			Slices: &load.Slices{Length: 100 * time.Millisecond, Guard: 10 * time.Millisecond, Owners: load.Owners{0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1}, Own: own}}
		counts := map[int64]int{}
		for _, at := range starts(p, 1, load.Never) {
			counts[at/1e8]++
		}
		for slice, n := range counts {
			if n != 90 {
				t.Errorf("slice %d has %d requests, want 90", slice, n)
			}
		}
		if len(counts) != 6 {
			t.Errorf("%d slices", len(counts))
		}
	}
}
