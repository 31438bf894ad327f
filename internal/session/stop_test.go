package session

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer/analysis/analysistest"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
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
		s := analysistest.Quickstart()
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
