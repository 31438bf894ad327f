package loadgen

import (
	"net"
	"strings"
	"testing"
	"time"
)

func TestGapDistance(t *testing.T) {
	gapsOf := func(p Profile, late func(k int) int64) float64 {
		g := newGaps()
		for k, at := range all(p, 1, 5000) {
			g.add(at+late(k), at)
		}
		return g.distance()
	}
	for _, arrivals := range []string{Constant, Poisson} {
		p := Profile{Rate: 1000, Arrivals: arrivals, Seed: 1}
		if d := gapsOf(p, func(int) int64 { return 20_000 }); d > 0.01 {
			t.Errorf("%s, all 20 µs late: distance %v", arrivals, d)
		}
		if d := gapsOf(p, func(k int) int64 { return int64(k%3) * 5_000 }); d > 0.02 {
			t.Errorf("%s, up to 10 µs late: distance %v", arrivals, d)
		}
		// Sends gathered into one burst every ten milliseconds.
		bursts := newGaps()
		for _, at := range all(p, 1, 5000) {
			bursts.add((at/10e6+1)*10e6, at)
		}
		if d := bursts.distance(); d < 0.5 {
			t.Errorf("%s in bursts: distance %v", arrivals, d)
		}
	}
}

func TestHalvesThatDifferAreTold(t *testing.T) {
	long(t)
	began := time.Now()
	p := profile(rawServer(t, answering(func(c net.Conn, _ int) bool {
		if time.Since(began) > 2*time.Second {
			time.Sleep(10 * time.Millisecond)
		}
		_, err := c.Write([]byte(helloResponse))
		return err == nil
	})))
	p.Rate, p.Warmup, p.Measure = 100, 0, 4*time.Second
	r := mustRun(t, p)
	if !strings.Contains(strings.Join(r.Warnings, "\n"), "not steady") {
		t.Errorf("no warning: %q", r.Warnings)
	}
}

func TestCalibration(t *testing.T) {
	t.Parallel()
	p := profile(rawServer(t, answering(func(c net.Conn, _ int) bool {
		time.Sleep(200 * time.Millisecond) // more than a busy machine makes of the floor
		_, err := c.Write([]byte(helloResponse))
		return err == nil
	})))
	p.Rate, p.Calibrate = 20, 300*time.Millisecond
	r := mustRun(t, p)
	if r.FloorMS.Count != 6 || r.FloorMS.P50 <= 0 || r.FloorMS.P50 > r.ResponseMS.P50/2 {
		t.Errorf("floor %+v, response %+v", r.FloorMS, r.ResponseMS)
	}
}
