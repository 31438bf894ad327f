//go:build linux

package main

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The same seed gives the same experiments and disturbances.
func TestScheduleIsThatOfTheSeed(t *testing.T) {
	of := func(seed uint64) string { return (&settings{seed: seed, strands: 3}).digest() }
	if a, b := of(1), of(1); a != b {
		t.Errorf("seed 1 gives %s and then %s", a, b)
	}
	if of(1) == of(2) {
		t.Error("seeds 1 and 2 give the same schedule")
	}
}

// Every disturbance occurs, and some cases have none.
func TestKindsOfDisturbance(t *testing.T) {
	seen := map[string]int{}
	for n := 1; n <= 400; n++ {
		c := newCase(7, 1, n)
		if len(c.Attempts) == 0 {
			seen["none"]++
		}
		for _, a := range c.Attempts {
			seen[a.name()]++
			for _, k := range a.Kills {
				if seen[string(k.Victim)]++; k.After < 0 || k.After > time.Duration(c.Trials)*perTrial+2*time.Second {
					t.Errorf("case %d: a signal after %v", n, k.After)
				}
			}
			if a.Limit.Of != "" && a.Limit.Size < 8 {
				t.Errorf("case %d: %+v", n, a.Limit)
			}
		}
		if !strings.Contains(c.Experiment, "seed: ") {
			t.Errorf("case %d has no seed", n)
		}
	}
	for _, kind := range []string{"none", string(Results), string(Temporary), string(FileSize), string(Descriptors), "parts", "tare SIGKILL", "tare SIGINT", "tare SIGTERM", "tare SIGHUP",
		string(Proxy), string(Service), string(Load)} {
		if seen[kind] == 0 {
			t.Errorf("no case of %q in %v", kind, seen)
		}
	}
}

// A leak is a slope above zero, noise without one is not.
func TestGrowth(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	samples := func(leak float64) (all []Sample) {
		for i := range 600 {
			n := float64(i) / 3
			all = append(all, Sample{n, usage{RSS: 40 + leak*n/100 + 2*random.Float64(), Descriptors: 12}})
		}
		return all
	}
	rss := func(u usage) float64 { return u.RSS }
	if g, ok := growth(samples(0), rss); !ok || *g.Low > 0 || *g.High < 0 {
		t.Errorf("no leak: %+v", g)
	}
	if g, ok := growth(samples(3), rss); !ok || *g.Low <= 0 || math.Abs(g.Per100-3) > 0.5 {
		t.Errorf("a leak of 3 MiB: %+v", g)
	}
	if g, ok := growth(samples(0), func(u usage) float64 { return u.Descriptors }); !ok || *g.Low != 0 || *g.High != 0 {
		t.Errorf("descriptors: %+v", g)
	}
	if _, ok := growth(nil, rss); ok {
		t.Error("growth of nothing")
	}
}
