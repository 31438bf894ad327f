package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
)

// Loads that share a schedule in slices send each request of it once, outside the guards, and each
// only in its own slices.
func TestSlicesShareTheSchedule(t *testing.T) {
	t.Parallel()
	const (
		length, guard = 100 * time.Millisecond, 20 * time.Millisecond
		rate, owners  = 500, 3
	)
	table := load.Slices{Length: length, Guard: guard, Owners: load.Owners{2, 1, 0, 0, 1, 2, 1, 0, 2, 0, 2, 1, 0, 1}}
	var reports [owners]load.Report
	run := func(start time.Time) {
		var running sync.WaitGroup
		for own := range owners {
			mine := table
			mine.Own = own
			p := profile(rawServer(t, replying(helloResponse)))
			p.Rate, p.Arrivals, p.Start, p.Slices = rate, load.Constant, start, &mine
			p.Warmup, p.Measure, p.Tail = 2*length, 11*length, 2*length
			running.Go(func() {
				var err error
				if reports[own], err = Run(t.Context(), p, nil); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
	}
	late := func(r load.Report) bool { return strings.Contains(r.Verdict, "after the agreed start") }
	// A busy machine may start a load late, which makes it invalid: the start is agreed earlier then.
	const longest = 16 * time.Second
	lead := 500 * time.Millisecond
	for run(time.Now().Add(lead)); slices.ContainsFunc(reports[:], late) && lead < longest; run(time.Now().Add(lead)) {
		lead *= 2
	}
	seen := map[int]int{}
	for own, r := range reports {
		if late(r) {
			t.Fatalf("load %d, started %v ahead: %s", own, lead, r.Verdict)
		}
		var sum load.SliceCount
		for i := range r.Slices {
			n := &r.Slices[i]
			seen[n.Slice]++
			if table.Owners[n.Slice] != own {
				t.Errorf("load %d has slice %d of load %d", own, n.Slice, table.Owners[n.Slice])
			}
			if want := int64(rate * (length - guard) / time.Second); n.Intended != want {
				t.Errorf("slice %d has %d requests, want %d", n.Slice, n.Intended, want)
			}
			sum.Add(n)
		}
		if want := float64(len(r.Slices)) * (length - guard).Seconds(); fmt.Sprintf("%.6f", r.LoadedSeconds) != fmt.Sprintf("%.6f", want) {
			t.Errorf("load %d was loaded for %v s, want %v", own, r.LoadedSeconds, want)
		}
		if d := difftest.Of("sum.Intended", sum.Intended, r.Intended, "sum.OK", sum.OK, r.Classes[load.OK], "sum.Answered", sum.Answered, r.Requests, "sum.ResponseNS <= 0", sum.ResponseNS <= 0, false); d != "" {
			t.Errorf("%s: the slices of load %d add up to %+v, its report has %d intended, %d requests, %v", d, own, sum, r.Intended, r.Requests, r.Classes)
		}
	}
	for i := 2; i < 13; i++ {
		if seen[i] != 1 {
			t.Errorf("slice %d is in %d reports", i, seen[i])
		}
	}
	if len(seen) != 11 {
		t.Errorf("slices %v, want the slices of the measure window", seen)
	}

}

// A load that starts late within its warm-up joins the others in their slices, and has all requests of its own.
func TestLateStartWithinTheWarmUp(t *testing.T) {
	long(t)
	t.Parallel()
	p := profile(rawServer(t, replying(helloResponse)))
	// A busy machine may start it later still: the warm-up is long, and the start just past.
	p.Rate, p.Warmup, p.Measure, p.Tail = 100, 5*time.Second, time.Second, 0
	p.Start = time.Now().Add(-500 * time.Millisecond).Round(0)
	p.Slices = &load.Slices{Length: 500 * time.Millisecond, Owners: load.Owners{}}
	for i := range 12 {
		p.Slices.Owners = append(p.Slices.Owners, i%2)
	}
	r := mustRun(t, p)
	if strings.Contains(r.Verdict, "agreed start") || !strings.Contains(strings.Join(r.Warnings, " "), "after the agreed start") {
		t.Errorf("verdict %q, warnings %q", r.Verdict, r.Warnings)
	}
	if by := r.Started.Sub(p.Start); by.Abs() > time.Millisecond || r.Intended != 50 || r.Whole.Sent != 300 {
		t.Errorf("begun %v from the agreed start, %d requests of 50 in the window, %d of 300 in all", by, r.Intended, r.Whole.Sent)
	}

}

// A load that starts late no longer has the slices of the others.
func TestLateStartWithSlices(t *testing.T) {
	t.Parallel()
	p := profile(rawServer(t, replying(helloResponse)))
	p.Start, p.Rate, p.Warmup, p.Measure, p.Tail = time.Now().Add(-time.Second), 100, 0, 200*time.Millisecond, 0
	p.Slices = &load.Slices{Length: 100 * time.Millisecond, Owners: load.Owners{0, 1}}
	if r := mustRun(t, p); !strings.HasPrefix(r.Verdict, "invalid") || !strings.Contains(r.Verdict, "after the agreed start") {
		t.Errorf("verdict %q", r.Verdict)
	}
}
