package kube

import (
	"context"
	"errors"
	"testing"
	"time"
)

// The refresh interval of the meter is measured. If that fails, the default is assumed and reported.
func TestMeasureRefresh(t *testing.T) {
	for name, c := range map[string]struct {
		measured time.Duration
		err      error
		want     time.Duration
		version  string
	}{
		"refreshed":    {20 * time.Second, nil, 20 * time.Second, "kubelet, refreshed every 20s"},
		"on demand":    {0, nil, 0, "kubelet, read on demand"},
		"not measured": {0, errors.New("connection refused"), 16 * time.Second, "kubelet, refresh interval not measured, 16s assumed"},
	} {
		reports := 0
		p := New(Options{Refresh: 16 * time.Second, NodeRefresh: 16 * time.Second, Meter: "kubelet", Report: func(string) { reports++ },
			MeasureRefresh: func(context.Context) (time.Duration, time.Duration, error) {
				return c.measured, 10 * time.Second, c.err
			}}, nil)
		versions := map[string]string{}
		if err := p.measureRefresh(t.Context(), versions); err != nil || versions["meter"] != c.version || (reports > 0) != (c.err != nil) {
			t.Errorf("%s: %v, %q, %d reports", name, err, versions["meter"], reports)
		}
		nodes := 10 * time.Second
		if c.err != nil {
			nodes = 16 * time.Second
		}
		if p.Refresh() != c.want || p.NodeRefresh() != nodes {
			t.Errorf("%s: %v, want %v; nodes %v, want %v", name, p.Refresh(), c.want, p.NodeRefresh(), nodes)
		}
	}
}
