//go:build linux

package main

import (
	"math"
	"math/rand/v2"
	"strings"
	"syscall"
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

// An end by a time limit of tare's own is a violation, if the machine gave the run its CPU.
func TestEndByATimeLimit(t *testing.T) {
	const slow = "trial 1 of 3\ntare: kill envoy: process 7 does not end\n"
	for _, test := range []struct {
		stderr             string
		given              time.Duration
		starved, violation int
	}{{slow, 4 * time.Second, 1, 0}, {slow, 6 * time.Second, 0, 1}, {"tare: no space left on device\n", 4 * time.Second, 0, 1}} {
		r := &running{strand: &strand{world: world{work: t.TempDir()}}, outcome: newOutcome(1, 2), dir: "case-2",
			given: &allowance{wall: 10 * time.Second, given: test.given}}
		r.end(1, Attempt{}, 1, "exit status 1", test.stderr, 10*time.Second)
		if len(r.outcome.Ends) != 1 || r.outcome.Starved != test.starved || len(r.outcome.Violations) != test.violation {
			t.Errorf("%q, given %v: %+v", test.stderr, test.given, r.outcome)
		}
	}
}

// An exit that no disturbance explains keeps the reason, at the end of a long output.
func TestUnexplainedEnd(t *testing.T) {
	long := strings.Repeat("trial 1 of 3000\n", 1000) + "tare: open /x: no space left on device\nhint: free some\n"
	for _, test := range []struct {
		attempt  Attempt
		code     int
		ends     int
		violates int
	}{
		{Attempt{}, 0, 0, 0},
		{Attempt{}, 3, 0, 0},
		{Attempt{}, 1, 1, 1},
		{Attempt{Limit: Limit{Of: Descriptors, Size: 8}}, 1, 0, 0},
		{Attempt{Kills: []Kill{{Victim: Proxy}}}, 1, 1, 0},
		{Attempt{Kills: []Kill{{Victim: Tare, Signal: syscall.SIGTERM}}}, 130, 0, 0},
		{Attempt{Kills: []Kill{{Victim: Tare, Signal: syscall.SIGTERM}}}, 1, 1, 0},
	} {
		r := &running{strand: &strand{world: world{work: t.TempDir()}}, outcome: newOutcome(1, 2), dir: "case-2"}
		r.end(3, test.attempt, test.code, "exit status", long, time.Second)
		if len(r.outcome.Ends) != test.ends || len(r.outcome.Violations) != test.violates {
			t.Errorf("%s, exit code %d: %+v", test.attempt.name(), test.code, r.outcome)
		}
		for _, e := range r.outcome.Ends {
			if e.Reason != "tare: open /x: no space left on device" || len(e.Last) != lastLines || e.Available == 0 {
				t.Errorf("%+v", e)
			}
		}
	}
	o := newOutcome(1, 2)
	if o.violate(1, "x", long); !strings.HasSuffix(o.Violations[0].Detail, "hint: free some\n") || len(o.Violations[0].Detail) > maxDetail+10 {
		t.Errorf("%d bytes, %q", len(o.Violations[0].Detail), o.Violations[0].Detail)
	}
}

// A killed version check ends tare. Only a message that names the signal explains it.
func TestKilledVersionCheck(t *testing.T) {
	if p := (process{1, []string{"/x/envoy", "--version"}}); !p.check() || !p.is(Proxy) {
		t.Error(p)
	}
	if p := (process{1, []string{"/x/envoy", "-c", "/y"}}); p.check() {
		t.Error(p)
	}
	for _, test := range []struct {
		signal, stderr string
		ends           int
	}{
		{"SIGTERM", "tare: run /x/envoy --version: killed by SIGTERM\n", 0},
		{"SIGTERM", "tare: run /x/envoy --version: killed by SIGKILL\n", 1},
		{"", "tare: run /x/envoy --version: killed by SIGTERM\n", 1},
	} {
		r := &running{strand: &strand{world: world{work: t.TempDir()}}, outcome: newOutcome(1, 2), dir: "case-2", check: test.signal}
		r.end(1, Attempt{Kills: []Kill{{Victim: Proxy}}}, 1, "exit status 1", test.stderr, time.Second)
		if len(r.outcome.Ends) != test.ends {
			t.Errorf("%+v: %+v", test, r.outcome.Ends)
		}
	}
}

// Too few descriptors for the experiment are a mistake in its file, and nothing else is.
func TestRefusedForDescriptors(t *testing.T) {
	const why = "tare: factors.connections[0]: 6 connections and 32 other files are more than the 11 files that a process may open"
	few := Attempt{Limit: Limit{Of: Descriptors, Size: 11}}
	if !few.refused(2, why) || few.refused(2, "tare: x") || few.refused(1, why) || (Attempt{}).refused(2, why) {
		t.Error("classified otherwise")
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
