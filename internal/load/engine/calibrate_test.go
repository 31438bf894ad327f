package engine

import (
	"net"
	"strings"
	"testing"
	"time"
)

func TestDifferentHalvesAreReported(t *testing.T) {
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
	for attempt := 1; attempt < 5 && r.FloorMS.P50 > r.ResponseMS.P50/2; attempt++ { // one undisturbed attempt is enough
		r = mustRun(t, p)
	}
	if r.FloorMS.Count != 6 || r.FloorMS.P50 <= 0 || r.FloorMS.P50 > r.ResponseMS.P50/2 {
		t.Errorf("floor %+v, response %+v", r.FloorMS, r.ResponseMS)
	}
}
