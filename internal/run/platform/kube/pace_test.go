package kube

import (
	"context"
	"errors"
	"testing"
	"time"
)

// How often the meter is refreshed is measured; where that cannot be, what is usual is taken, and said.
func TestPaceIsMeasured(t *testing.T) {
	for name, c := range map[string]struct {
		measured time.Duration
		err      error
		want     time.Duration
		says     string
	}{
		"refreshed":    {20 * time.Second, nil, 20 * time.Second, "kubelet, refreshed every 20s"},
		"when asked":   {0, nil, 0, "kubelet, read whenever it is asked"},
		"not measured": {0, errors.New("connection refused"), 16 * time.Second, "kubelet, taken to be refreshed every 16s"},
	} {
		told := 0
		p := New(Options{Refresh: 16 * time.Second, Meter: "kubelet", Report: func(string) { told++ },
			Pace: func(context.Context) (time.Duration, error) { return c.measured, c.err }}, nil)
		versions := map[string]string{}
		if err := p.pace(t.Context(), versions); err != nil || versions["meter"] != c.says || (told > 0) != (c.err != nil) {
			t.Errorf("%s: %v, %q, told %d times", name, err, versions["meter"], told)
		}
		d := deployment{platform: p}
		if d.Refresh() != c.want {
			t.Errorf("%s: %v, want %v", name, d.Refresh(), c.want)
		}
	}
}
