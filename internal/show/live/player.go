package live

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// longestGap between two events of a replay. The rest is skipped, such as the time between an
// interrupt and the resumed run.
const longestGap = 10 * time.Second

// Player is the clock of a replay: it runs at a multiple of real time, and stops while paused.
type Player struct {
	mu     sync.Mutex
	speed  float64 // 0: without waiting
	at     time.Time
	since  time.Time // real time at which the clock was at
	paused bool
	woken  chan struct{} // closed by a change
}

// NewPlayer returns a clock of the given speed. 0 does not wait.
func NewPlayer(speed float64) *Player { return &Player{speed: speed, woken: make(chan struct{})} }

// Now is the time of the replay.
func (p *Player) Now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now()
}

func (p *Player) faster(by float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(p.now())
	p.speed = min(max(p.speed*by, 0.125), 1024)
}

func (p *Player) pause(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(p.now())
	p.paused = on
}

func (p *Player) words() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%gx", p.speed)
}

// Play gives the events of a stored run to a view, at the player's speed.
func (p *Player) Play(ctx context.Context, events iter.Seq2[result.Event, error], v result.Sink) error {
	for e, err := range events {
		if err != nil {
			return err
		}
		if err := p.until(ctx, e.Time); err != nil {
			return err
		}
		if err := v.Event(e); err != nil {
			return err
		}
	}
	return nil
}

// until waits until the clock is at t.
func (p *Player) until(ctx context.Context, t time.Time) error {
	for {
		p.mu.Lock()
		now := p.now()
		if p.at.IsZero() || p.speed == 0 || t.Sub(now) > longestGap {
			p.set(t)
			now = t
		}
		left, paused, woken := t.Sub(now), p.paused, p.woken
		real := time.Duration(float64(left) / max(p.speed, 0.001))
		p.mu.Unlock()
		if !paused && left <= 0 {
			return ctx.Err()
		}
		var due <-chan time.Time
		if !paused {
			due = time.After(real)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-due:
		case <-woken:
		}
	}
}

func (p *Player) now() time.Time {
	if p.paused || p.speed == 0 || p.since.IsZero() {
		return p.at
	}
	return p.at.Add(time.Duration(float64(time.Since(p.since)) * p.speed))
}

// set moves the clock.
func (p *Player) set(at time.Time) {
	p.at, p.since = at, time.Now()
	close(p.woken)
	p.woken = make(chan struct{})
}

// Follow gives the events of a run that another process writes to a view, until the run ends.
func Follow(ctx context.Context, d *result.Dir, v result.Sink) error {
	follower := result.Follow(d)
	next := time.NewTicker(redraw)
	defer next.Stop()
	for quiet := 0; ; {
		events, err := follower.Next()
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := v.Event(e); err != nil {
				return err
			}
		}
		ended, err := d.Ended()
		if err != nil {
			return err
		}
		// The last events may be newer than the follower's cut.
		if quiet++; !ended || len(events) > 0 {
			quiet = 0
		}
		if quiet > 1 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next.C:
		}
	}
}
