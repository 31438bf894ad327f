package session

import (
	"time"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result"
)

// Replayed is a recorded run whose gates were decided again.
type Replayed struct {
	Dir       string             `json:"dir"`
	Block     int                `json:"block"`          // of the look that decided, or of the last one
	Last      bool               `json:"last,omitempty"` // no look follows
	Decisions []compare.Decision `json:"decisions"`
}

// Replay looks at the gates of one run until they are decided. within is the time to end at.
// 0 means the run's own end.
func Replay(dir string, o compare.Options, within time.Duration) (Replayed, error) {
	r := Replayed{Dir: dir}
	d, err := result.Open(dir)
	if err != nil {
		return r, err
	}
	defer d.Close()
	looks, err := compare.NewLooks(d, o)
	if err != nil {
		return r, err
	}
	for block := min(1, looks.To()); block <= looks.To(); block++ {
		l := look{looks: looks, block: block, timeIsOver: isOver(block, looks.Elapsed(block), within) || looks.EndsAt(block)}
		stop, err := l.decide()
		if err != nil {
			return r, err
		}
		r.Block, r.Last, r.Decisions = block, stop.Last, l.decisions
		if stop.Why != "" {
			break
		}
	}
	return r, nil
}
