package schedule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// starts are all requests of p's schedule before an instant, over a number of workers.
func starts(p load.Profile, workers int, before time.Duration) (all []int64) {
	for i := range workers {
		for s := New(&p, i, workers); ; {
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

// Each owner has rate × time requests in a measure window, to one request, all in its own slices outside
// the guards. With a common seed all owners have the same number, also in each row.
func TestNumberOfRequestsInSlices(t *testing.T) {
	const rows, warm = 25, 7
	for _, rate := range []float64{16, 45, 50, 150, 250, 1000} {
		for _, length := range []time.Duration{10, 100, 137, 1000} {
			length *= time.Millisecond
			for _, guard := range []time.Duration{0, length / 10, length / 3} {
				for _, arrivals := range []string{load.Constant, load.Uniform, load.Poisson} {
					for members := 2; members <= 6; members++ {
						rng := rand.New(rand.NewPCG(uint64(members), 2))
						var owners load.Owners
						for range warm + rows {
							owners = append(owners, rng.Perm(members)...)
						}
						row := time.Duration(members) * length
						want, first := rate*rows*(length-guard).Seconds(), []int(nil)
						for own := range members {
							p := load.Profile{Rate: rate, Arrivals: arrivals, Seed: 5, Warmup: warm * row, Measure: rows * row,
								Slices: &load.Slices{Length: length, Guard: guard, Owners: owners, Own: own}}
							n, byRow := 0, make([]int, warm+rows)
							for _, at := range starts(p, 1+own%3, load.Never) {
								at := time.Duration(at)
								if owners[at/length] != own || at%length >= length-guard {
									t.Fatalf("owner %d sends at %v: slices of %v, guard %v", own, at, length, guard)
								}
								if byRow[at/row]++; at >= p.Warmup {
									n++
								}
							}
							if math.Abs(float64(n)-want) >= 1 {
								t.Errorf("%v/s %s, slices of %v, guard %v: owner %d of %d has %d requests, want %v", rate, arrivals, length, guard, own, members, n, want)
							}
							if own == 0 {
								first = byRow
							} else if !slices.Equal(byRow, first) {
								t.Errorf("%v/s %s, slices of %v, guard %v: owner %d has other numbers by row than owner 0", rate, arrivals, length, guard, own)
							}
						}
					}
				}
			}
		}
	}
}

// Slices of any owners, in any order, have the rate too.
func TestAnyTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 60 {
		length := time.Duration(1+rng.IntN(300)) * time.Millisecond
		table := load.Slices{Length: length, Guard: time.Duration(rng.Int64N(int64(length))), Owners: make(load.Owners, 1+rng.IntN(50))}
		for i := range table.Owners {
			table.Owners[i] = rng.IntN(5)
		}
		p := load.Profile{Rate: 1 + 2000*rng.Float64(), Seed: rng.Uint64N(1 << 53), Slices: &table,
			Arrivals: []string{load.Constant, load.Poisson, load.Uniform}[n%3]}
		want := p.Rate * table.Loaded(0, table.End()).Seconds()
		if got := starts(p, 1+n%3, load.Never); math.Abs(float64(len(got))-want) >= 1 {
			t.Errorf("table %+v: %d requests, want %v", table, len(got), want)
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

// Seconds are not edges of slices that are longer, or that do not divide them.
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
