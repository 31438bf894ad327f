package runner_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/runner"
)

// A search finds the highest rate before the counters of the trial are read: its requests are in no
// figure of the measure phase, and requests are conserved.
func TestRealSearch(t *testing.T) {
	if testing.Short() {
		t.Skip("searches for seconds")
	}
	text := strings.Replace(realText, "rate: [300]", `rate: [{max: "errors < 10%, mean < 1s", share: 20%, probes: 5, probe: 500ms}]`, 1)
	cfg, _, summary, records := undisturbed(t, text)
	if summary.Recorded != 2 || summary.Failed != 0 {
		t.Fatalf("%+v", summary)
	}
	for _, r := range records {
		for _, w := range r.Warnings {
			t.Logf("%s: %s: %s", r.Treatment, w.Code, w.Message)
			if w.Code == "requests-not-conserved" || w.Code == "capacity-unknown" {
				t.Errorf("%s: %s", r.Treatment, w.Message)
			}
		}
		if r.Load == nil || r.Load.Capacity == nil || r.Balance == nil {
			t.Fatalf("%s: %+v", r.Treatment, r)
		}
		c := r.Load.Capacity
		if len(c.Probes) != 5 || !(c.Low <= c.Rate && c.Rate <= c.High) || c.Objective != "errors < 10%, mean < 1s" {
			t.Errorf("%s: %+v", r.Treatment, c)
		}
		if share := r.Load.AskedRate / c.Rate; share < 0.1999 || share > 0.2001 {
			t.Errorf("%s: measured at %v of %v", r.Treatment, r.Load.AskedRate, c.Rate)
		}
		var names []string
		for _, p := range r.Phases {
			if names = append(names, p.Name); p.Name == "search" && p.End.Sub(p.Start) < 5*500*time.Millisecond {
				t.Errorf("%s: the search took %v", r.Treatment, p.End.Sub(p.Start))
			}
		}
		if got := strings.Join(names, " "); got != "deploy verify settle search warm-up measure drain" {
			t.Errorf("phases %s", got)
		}
	}
	if _, err := result.Open(cfg.Dir.Path()); err != nil {
		t.Error(err)
	}
}

// An objective that no rate keeps makes the trial invalid, with the reason.
func TestSearchWithoutRate(t *testing.T) {
	if testing.Short() {
		t.Skip("searches for seconds")
	}
	text := strings.Replace(realText, "rate: [300]", `rate: [{max: "mean < 1us", probes: 5, probe: 500ms}]`, 1)
	cfg, _ := real(t, strings.Replace(text, "[none, envoy]", "[none]", 1))
	summary, err := runner.Run(context.Background(), cfg)
	if err != nil || summary.Invalid != 1 {
		t.Fatalf("%+v, %v", summary, err)
	}
	records, err := cfg.Dir.Records()
	if err != nil || len(records) != 1 {
		t.Fatal(records, err)
	}
	if r := records[0]; len(r.Warnings) == 0 || r.Warnings[0].Code != "capacity-unknown" || !strings.Contains(r.Warnings[0].Message, "no rate meets mean < 1us") {
		t.Errorf("%+v", r.Warnings)
	}
}
