package live

import (
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/result"
)

// Watched is the board of a run that another process writes, for pages that draw it.
type Watched struct {
	dir      *result.Dir
	follower *result.Follower
	board    *Board
	answers  answers
	options  Options
}

// NewWatched returns the board of the run in d. analyze is called between trials only.
func NewWatched(d *result.Dir, analyze func(block int) (*answer.Report, error)) *Watched {
	w := &Watched{dir: d, follower: result.Follow(d), board: NewBoard(d.Plan()), options: Options{Plan: d.Plan(), Analyze: analyze}}
	w.board.Apply(d.Opening(0))
	return w
}

// Next brings the board up to date, and reports whether the run has ended.
func (w *Watched) Next() (ended bool, err error) {
	if ended, err = w.dir.Ended(); err != nil {
		return false, err
	}
	events, err := w.follower.Next()
	if err != nil {
		return false, err
	}
	var latest *Headline
	last := -1 // of trials that ended long ago, one report on all of them is enough
	for i, e := range events {
		if e.Kind == result.KindTrial && (i == 0 || events[i-1].Kind != result.KindTrial) {
			last = i
		}
	}
	for i, e := range events {
		if e.Kind != result.KindTrial || i == last {
			if h := w.answers.before(e, w.options); h != nil {
				latest = h
			}
		}
		w.board.Apply(e)
	}
	if ended {
		end := result.Event{Time: time.Now(), Kind: result.KindEnd}
		if h := w.answers.before(end, w.options); h != nil {
			latest = h
		}
		w.board.Apply(end)
	}
	if latest != nil {
		w.board.Answer(latest)
	}
	return ended, nil
}
