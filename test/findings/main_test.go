package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer/answertest"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/stats"
)

// The tables in the pages are those of the recorded runs.
func TestPagesHaveTheRuns(t *testing.T) {
	for name, want := range must.Get(tables("../../docs/findings"))(t) {
		if got := must.Get(os.ReadFile(name))(t); !bytes.Equal(got, want) {
			t.Errorf("%s: run go run ./test/findings", name)
		}
	}
}

// A run is added with its gate, a second one is compared with it, and all else of a page stays.
func TestAddRuns(t *testing.T) {
	pages := t.TempDir()
	page := filepath.Join(pages, "quickstart.md")
	must.OK(t, os.WriteFile(page, []byte("# Before\n\n<!-- runs quickstart: cpu_us_per_request/data -->\nearlier\n<!-- end -->\n\nAfter\n"), 0o600))
	s := answertest.Quickstart()
	s.YAML = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: quickstart}\ndecide: {gates: ['cpu_us_per_request/data{mesh=envoy} < +1us']}\n"
	dir := filepath.Join(t.TempDir(), "run")
	must.OK(t, s.Write(t, dir).Close())
	if err := run(pages, dir, ""); err == nil || !strings.Contains(err.Error(), "-load") {
		t.Errorf("without a load average: %v", err)
	}
	must.OK(t, run(pages, dir, "0.25"))
	got := string(must.Get(os.ReadFile(page))(t))
	for _, want := range []string{"# Before\n\n<!-- runs quickstart: cpu_us_per_request/data -->\n\n| treatment | cpu_us_per_request/data, µs |", "| does not hold |", ", 0.25 |", "One run so far", "<!-- end -->\n\nAfter\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "earlier") {
		t.Error("the table of before is still there")
	}
	must.OK(t, run(pages, dir, "0.5"))
	if got = string(must.Get(os.ReadFile(page))(t)); !strings.Contains(got, "The intervals of 2 runs overlap.") || strings.Count(got, "| does not hold |") != 2 {
		t.Errorf("two runs:\n%s", got)
	}
	again := string(must.Get(os.ReadFile(page))(t))
	must.OK(t, run(pages, "", ""))
	if got = string(must.Get(os.ReadFile(page))(t)); got != again {
		t.Error("the same runs write another page")
	}
}

// Runs whose intervals lie apart are named.
func TestRunsApart(t *testing.T) {
	one := func(low, high float64) measurement {
		var m measurement
		m.Gates = []gate{{Gate: "rate > -1%"}}
		m.Gates[0].Change = interval((low+high)/2, low, high)
		return m
	}
	if got := agreement([]measurement{one(1, 2), one(1.5, 3), one(2.5, 4)}); !strings.Contains(got, "3 runs do not overlap: `rate > -1%`") {
		t.Error(got)
	}
	if got := within(*interval(146.2, 140.4, 152.1), true); got != "+146.2 ±5.8" {
		t.Error(got)
	}
	if got := within(*interval(1.5, 1, 4), false); got != "1.5 (1.0 to 4.0)" {
		t.Error(got)
	}
}

func interval(estimate, low, high float64) *stats.Interval {
	return &stats.Interval{Estimate: estimate, Low: &low, High: &high}
}
