package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
)

func TestBefore(t *testing.T) {
	interval := func(low, estimate, high float64) *stats.Interval {
		return &stats.Interval{Estimate: estimate, Low: &low, High: &high}
	}
	const cost, rate = "client CPU a request, closed loop, 64 connections, HTTP/1.1, nginx", "requests/s on one core, 64 connections, own server"
	for _, test := range []struct {
		figure string
		now    *stats.Interval
		want   string
	}{
		{cost, interval(0.83, 0.845, 0.86), "0.845, now +0.0 %: not slower"},
		{cost, interval(0.85, 0.87, 0.89), "0.845, now +3.0 %: undecided"},
		{cost, interval(0.88, 0.89, 0.90), "0.845, now +5.3 %: slower"},
		{rate, interval(1.29, 1.40, 1.50), "1.303, now +7.4 %: not slower"},
		{rate, interval(1.20, 1.22, 1.24), "1.303, now -6.4 %: slower"},
		{"median response at 5,000 requests/s: tare", interval(40, 45, 50), "49 µs"},
		{cost, nil, ""},
		{"another", interval(1, 1, 1), ""},
	} {
		if got := (line{figure: test.figure, beside: test.now}).before(); got != test.want {
			t.Errorf("%s: %q, want %q", test.figure, got, test.want)
		}
	}
	if absent(nil) != notBuilt || absent(errors.New("exit status 1")) != failed {
		t.Error("a generator that is not on this machine has failed")
	}
	var out strings.Builder
	write(&out, []line{{figure: cost, beside: interval(0.88, 0.89, 0.90)}})
	must.Contain(t, out.String(), "BEFORE", "slower")
}
