package runner_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/runner"
)

// A run ends early if Stop returns a reason. A resumed run finds that reason.
func TestStopsWhenItKnowsEnough(t *testing.T) {
	t.Parallel()
	cfg, events := fakeRun(t, strings.Replace(fakeText, "blocks: 1", "blocks: 4", 1), &fake{}, "")
	var asked []int
	cfg.Stop = func(block int) (result.Stopped, error) {
		asked = append(asked, block)
		if block == 1 {
			return result.Stopped{}, errors.New("the disk is gone")
		}
		return result.Stopped{Why: "narrow enough", Last: true}, nil
	}
	s, err := runner.Run(t.Context(), cfg)
	if err != nil || s.Recorded != 2 || s.Stopped != "narrow enough" || len(asked) != 2 {
		t.Fatalf("%+v, %v, asked %v", s, err, asked)
	}
	stopped, err := cfg.Dir.Stopped()
	if err != nil || stopped == nil || stopped.Block != 2 || stopped.Why != "narrow enough" || !stopped.Last || stopped.At.IsZero() {
		t.Fatalf("%+v, %v", stopped, err)
	}
	var messages []string
	for _, e := range events.list() {
		messages = append(messages, e.Message)
	}
	for _, want := range []string{"because the check for an early end failed: the disk is gone", "stopped after block 2: narrow enough"} {
		if !strings.Contains(strings.Join(messages, "\n"), want) {
			t.Errorf("no %q in %q", want, messages)
		}
	}
	if s, err := runner.Run(t.Context(), cfg); err != nil || s.Recorded != 0 {
		t.Errorf("run again: %+v, %v", s, err)
	}
}
