package result

import "github.com/tare-mesh/tare/internal/result/balance"

// conserved: the requests of the whole load, the flows and the equations agree, and no valid
// trial has an equation that does not hold.
func (c *contradictions) conserved(r *Record) {
	if w := r.Load.Whole; w != nil {
		switch {
		case w.Sent < 0 || w.Unanswered < 0 || w.Failed < 0 || w.Unanswered+w.Failed > w.Sent:
			c.addf("load.whole has %d requests, of these %d without an answer and %d with an error", w.Sent, w.Unanswered, w.Failed)
		case r.Load.conserves() && w.Sent < r.Load.Sent:
			c.addf("load.whole.sent is %d, and load.sent, a part of it, is %d", w.Sent, r.Load.Sent)
		}
	}
	if r.Balance == nil {
		return
	}
	for _, f := range r.Balance.Flows {
		if w := r.Whole(); w != nil && f.Service == balance.LoadName && f.Point == balance.Sent && f.Unit == balance.Requests && f.Count != w.Sent {
			c.addf("balance.flows has %d requests of the load, and load.whole.sent is %d", f.Count, w.Sent)
		}
	}
	for _, e := range r.Balance.Equations {
		switch {
		case e.OK != e.Holds():
			c.addf("balance: %s: %d expected, %d counted, ok is %v", e.Where, e.Expected, e.Counted, e.OK)
		case !e.OK && r.Valid:
			c.addf("it is valid, and balance has: %s", e)
		}
	}
}
