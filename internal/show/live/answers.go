package live

import (
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

// answers decides when the report on the trials so far is made.
type answers struct {
	ended  int            // trials since the last report
	block  int            // of the last trial that ended
	blocks map[string]int // of trials
	cost   time.Duration  // of the last report
	at     time.Time      // of the last report
}

// mostOfTime bounds the time that reports may take: one part in mostOfTime of the run.
const mostOfTime = 50

// before returns the headline at the beginning of a trial after others have ended, and at the end
// of the run. No trial is deployed then, so that the report disturbs none.
func (a *answers) before(e result.Event, o Options) *Headline {
	if o.Analyze == nil {
		return nil
	}
	if a.blocks == nil {
		a.blocks = map[string]int{}
		for _, t := range o.Plan.Trials {
			a.blocks[t.ID] = t.Block
		}
		for _, r := range o.Recorded { // a resumed run has its difference so far at once
			a.ended, a.block = a.ended+1, max(a.block, r.Block)
		}
	}
	switch e.Kind {
	case result.KindDone:
		a.ended++
		a.block = max(a.block, a.blocks[e.Trial])
		return nil
	case result.KindTrial, result.KindEnd:
	default:
		return nil
	}
	if a.ended == 0 || e.Kind != result.KindEnd && time.Since(a.at) < mostOfTime*a.cost {
		return nil
	}
	began := time.Now()
	r, err := o.Analyze(a.block)
	a.ended, a.at, a.cost = 0, time.Now(), time.Since(began)
	if err != nil {
		return nil // tare report has the error
	}
	return HeadlineOf(r)
}
