package session

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// A resumed run ends when it has worked for the time given, with the time of the sessions before. The pause counts for nothing.
func TestDecisionWithinAfterAResume(t *testing.T) {
	for _, c := range []struct {
		pause, within time.Duration
		ends          bool
	}{
		{0, time.Hour, false},
		{0, 12 * time.Minute, true}, // four blocks of three trials, a minute each
		{8 * time.Hour, time.Hour, false},
		{8 * time.Hour, 12 * time.Minute, true},
	} {
		s := answertest.Quickstart()
		s.Treatments, s.Blocks, s.Bare, s.Noise = s.Treatments[:3], 4, true, 0.2
		s.Change = func(r *result.Record) {
			if r.Block > 2 {
				r.Started, r.Ended = r.Started.Add(c.pause), r.Ended.Add(c.pause)
			}
		}
		s.YAML = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: resumed}\ndecide: {gates: ['cpu_us_per_request/app < +12%']}\n"
		dir := s.Write(t, filepath.Join(t.TempDir(), "run"))
		rule := decisionRule(dir, experiment.Decide{Gates: []string{"cpu_us_per_request/app < +12%"}, Within: experiment.Duration(c.within)}, func(string) {})
		stop, err := rule(4)
		if err != nil || stop.Last != c.ends || strings.Contains(stop.Why, "another block would last beyond") != c.ends {
			t.Errorf("%v of pause, within %v: %+v, %v", c.pause, c.within, stop, err)
		}
	}
}

// The fewest blocks that decide a gate run on a slow machine too, up to half of the time more. Later blocks end in time.
func TestTimeForTheFewestBlocks(t *testing.T) {
	for _, c := range []struct {
		block          int
		passed, within time.Duration
		over           bool
	}{
		{3, 72 * time.Second, 90 * time.Second, false}, // the fourth ends after 96 s
		{1, 33 * time.Second, 90 * time.Second, false}, // 132 s
		{1, 34 * time.Second, 90 * time.Second, true},  // 136 s
		{4, 80 * time.Second, 90 * time.Second, true},
		{4, 72 * time.Second, 90 * time.Second, false},
		{9, time.Hour, 0, false},
	} {
		if got := isOver(c.block, c.passed, c.within); got != c.over {
			t.Errorf("block %d after %v of %v: over %v", c.block, c.passed, c.within, got)
		}
	}
}

// A run ends if no trial of a treatment, or of all, started for one reason, but not after one trial, with two reasons, or after a start.
func TestStopUnstartable(t *testing.T) {
	for _, c := range []struct {
		name   string
		blocks int
		all    bool
		reason func(block int) string
		ends   string
	}{
		{"one trial", 1, false, func(int) string { return "exit status 1" }, ""},
		{"one reason", 2, false, func(block int) string { return "port " + strings.Repeat("8", block) + " is taken" }, "none of 2 trials of ID started: port 8 is taken"},
		{"two reasons", 2, false, func(block int) string { return strings.Repeat("other ", block) }, ""},
		{"started once", 3, false, func(block int) string { return map[int]string{1: "exit status 1", 3: "exit status 1"}[block] }, ""},
		{"all of one block", 1, true, func(int) string { return "exit status 1" }, "none of 3 trials started: exit status 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := answertest.Quickstart()
			s.Treatments, s.Blocks, s.Bare = s.Treatments[:3], c.blocks, true
			s.Change = func(r *result.Record) {
				if reason := c.reason(r.Block); (c.all || r.Treatment == s.Treatments[1].ID) && reason != "" {
					r.Error, r.Load, r.Valid = reason, nil, false
				}
			}
			dir := s.Write(t, filepath.Join(t.TempDir(), "run"))
			stop := must.Get(orUnstartable(dir, nil)(c.blocks))(t)
			if want := strings.Replace(c.ends, "ID", s.Treatments[1].ID, 1); stop.Why != want {
				t.Errorf("stopped: %q, want %q", stop.Why, want)
			}
		})
	}
}

// A run with until: valid ends at min blocks without an invalid trial, and reports which block is repeated.
func TestRepetitionOfInvalidBlocks(t *testing.T) {
	for _, c := range []struct {
		blocks, lost int // blocks run, the last of them with an invalid trial
		ends, says   string
	}{
		{3, 0, "no block is to repeat", ""},
		{2, 0, "", ""},
		{3, 1, "", "is invalid (the generator sent late): repeated, at most 2 times"},
		{4, 1, "3 blocks have valid trials only, after 1 repetition", ""},
		{5, 3, "", ""}, // the last block
	} {
		s := answertest.Quickstart()
		s.Treatments, s.Blocks, s.Bare = s.Treatments[:3], c.blocks, true
		first := map[bool]int{true: 1, false: c.blocks - c.lost + 1}[c.ends != ""]
		s.Change = func(r *result.Record) {
			if r.Block >= first && r.Block < first+c.lost && r.Treatment == s.Treatments[0].ID {
				r.Valid, r.Warnings = false, append(r.Warnings, result.Warning{Code: "generator-late", Message: "late", Invalidates: true})
			}
		}
		dir := s.Write(t, filepath.Join(t.TempDir(), "run"))
		var said []string
		rule := stopRule(dir, &experiment.Experiment{Blocks: experiment.Blocks{Min: 3, Max: 5, Until: &experiment.Precision{Valid: true}}}, func(line string) { said = append(said, line) })
		stop, err := rule(c.blocks)
		if all := strings.Join(said, "\n"); err != nil {
			t.Errorf("%d blocks, %d lost: stopped %q, said %q, %v", c.blocks, c.lost, stop.Why, all, err)
		} else if d := difftest.Wrong("stop.Why != c.ends", stop.Why != c.ends, "!strings.Contains(all, c.says)", !strings.Contains(all, c.says), `c.says == "" && all != ""`, c.says == "" && all != ""); d != "" {
			t.Errorf("%s: %d blocks, %d lost: stopped %q, said %q, %v", d, c.blocks, c.lost, stop.Why, all, err)
		}
	}
}
