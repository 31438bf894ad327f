package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/test/must"
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
	s := must.Get(runner.Run(t.Context(), cfg))(t)
	if s.Recorded != 2 || s.Stopped != "narrow enough" {
		t.Errorf("summary %+v, want 2 trials and the reason", s)
	}
	if !slices.Equal(asked, []int{1, 2}) {
		t.Errorf("asked after blocks %v, want 1 and 2", asked)
	}
	stopped, err := cfg.Dir.Stopped()
	if err != nil || stopped == nil {
		t.Fatalf("%+v, %v", stopped, err)
	}
	if stopped.At.IsZero() {
		t.Error("the end has no time")
	}
	stopped.Schema, stopped.At = "", time.Time{}
	if want := (result.Stopped{Block: 2, Why: "narrow enough", Last: true}); *stopped != want {
		t.Errorf("%+v, want %+v", *stopped, want)
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

// A run that was killed after a block, before its stop rule was asked, asks it when it is resumed. An interrupt during
// the rule does not make a complete run an interrupted one.
func TestResumedRunAsksTheStopRule(t *testing.T) {
	t.Parallel()
	cfg, _ := fakeRun(t, strings.Replace(fakeText, "blocks: 1", "blocks: 4", 1), &fake{}, "")
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	cfg.Stop = func(int) (result.Stopped, error) {
		kill()
		return result.Stopped{}, nil
	}
	if _, err := runner.Run(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Fatalf("not interrupted: %v", err)
	}
	ctx, kill = context.WithCancel(t.Context())
	defer kill()
	cfg.Stop = func(block int) (result.Stopped, error) {
		kill()
		return result.Stopped{Why: fmt.Sprint("enough after ", block)}, nil
	}
	if s, err := runner.Run(ctx, cfg); err != nil || s.Recorded != 0 || s.Stopped != "enough after 1" {
		t.Errorf("%+v, %v", s, err)
	}

	cfg, _ = fakeRun(t, strings.Replace(fakeText, "blocks: 1", "blocks: 4", 1), &fake{}, "")
	ctx, kill = context.WithCancel(t.Context())
	defer kill()
	cfg.Stop = func(int) (result.Stopped, error) {
		kill()
		return result.Stopped{Why: "enough"}, nil
	}
	if s, err := runner.Run(ctx, cfg); err != nil || s.Stopped != "enough" {
		t.Errorf("interrupted during the rule: %+v, %v", s, err)
	}
}
