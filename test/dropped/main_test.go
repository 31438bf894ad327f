package main

import (
	"bytes"
	"math"
	"os/exec"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
)

// Of five runs those with the largest maxima are dropped, whatever their p99.
func TestMeanDrops(t *testing.T) {
	five := []trial{{p99: 1, most: 50}, {p99: 2, most: 10}, {p99: 3, most: 20}, {p99: 4, most: 40}, {p99: 8, most: 30}}
	if all, kept := mean(five, 0), mean(five, 2); all != 3.6 || math.Abs(kept-13.0/3) > 1e-9 {
		t.Errorf("%v and %v, want 3.6 and 4.33", all, kept)
	}
}

// Two sides of equal runs differ by nothing on average. The spread of a difference of two means of five is that of the runs by the root
// of two fifths. The rule leaves three runs of five, so that it grows where the maxima are independent of the p99.
func TestDifferences(t *testing.T) {
	var of []trial
	for i := range 20 {
		of = append(of, trial{p99: float64(i*7%20) / 10, most: float64(i * 13 % 20)})
	}
	all, kept := differences(of, 0), differences(of, dropped)
	const sd = 0.5766 // of 0, 0.1, … 1.9
	if got, want := stats.SD(all), sd*math.Sqrt(2.0/runs); math.Abs(stats.Mean(all)) > 0.01 || math.Abs(got/want-1) > 0.01 {
		t.Errorf("mean %v, spread %v, want 0 and %v", stats.Mean(all), got, want)
	}
	if math.Abs(stats.Mean(kept)) > 0.01 || stats.SD(kept) < 1.1*stats.SD(all) {
		t.Errorf("with the rule: mean %v, spread %v", stats.Mean(kept), stats.SD(kept))
	}
	if got := words([]float64{-4, -1, 0, 1, 3}); got != "±3.2\t40 %" {
		t.Error(got)
	}
}

// The recorded runs of the debate have a row for each mesh and rate.
func TestRecordedRuns(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xf", "../../docs/pictures/debate.tar.gz", "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var b bytes.Buffer
	must.OK(t, run([]string{dir}, &b))
	if rows := strings.Count(b.String(), "-rate"); rows != 10 || !strings.Contains(b.String(), "linkerd-rate240") {
		t.Errorf("%d rows:\n%s", rows, b.String())
	}
	if err := run(nil, &b); err == nil {
		t.Error("no directory, no error")
	}
}
