package session

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

// A plan with a program has the longest time of loads before warm-ups: one for each round, or for each trial of other orders.
func TestPrewarmTime(t *testing.T) {
	const topology, program = "application: {topology: echo}\n", "application: {command: [sleep, '{port}']}\n"
	for _, c := range []struct {
		application, more string
		want              time.Duration
	}{
		{program, "", 10 * time.Minute},
		{program, "phases: {prewarm: 10s}\n", 50 * time.Second},
		{program, "phases: {prewarm: 0s}\n", 0},
		{program, "order: random\n", 20 * time.Minute},
		{topology, "", 0},
	} {
		text := "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: warm}\n" + c.application +
			"factors: {mesh: [none, envoy], rate: [100], connections: [4]}\nblocks: 5\nbaseline: {mesh: none}\n" + c.more
		s := must.Get(NewProgram("", nil).Decode(t.Context(), "warm.yaml", []byte(text), Options{}))(t)
		if got := s.PrewarmTime(); got != c.want {
			t.Errorf("%s%s: %v, want %v", c.application, c.more, got, c.want)
		}
	}
}
