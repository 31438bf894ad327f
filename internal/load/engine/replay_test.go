package engine

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

func TestReplay(t *testing.T) {
	t.Parallel()
	p := profile(rawServer(t, replying(helloResponse)))
	p.Warmup, p.Workers, p.Arrivals = 0, 2, load.Replay
	for _, ms := range []int64{100, 200, 250, 300, 900} {
		p.Instants = append(p.Instants, ms*int64(time.Millisecond))
	}
	if r := mustRun(t, p); r.Classes[load.OK] != 4 { // 0.9 s is after the window
		t.Errorf("%v", r.Classes)
	}
}
