package generator

import (
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// unsurePerStream requests may be sent beyond the reported ones, on each stream of each
// connection: fortio tests connections before the load, and most generators abort the
// requests in flight at the end.
const unsurePerStream = 2

// runCounts returns the requests of the whole run, or nil if the output does not contain them.
func (o *Outcome) runCounts(t traits, p load.Profile) *result.Whole {
	w := &result.Whole{Unsure: unsurePerStream * int64(p.Connections*max(1, p.Streams))}
	switch {
	case o.Records != nil:
		w.Sent = int64(len(o.Records))
		for _, r := range o.Records {
			switch {
			case r.Code == 0:
				w.Unanswered++
			case r.Code >= 400:
				w.Failed++
			}
		}
		if o.Partial { // those without an answer are missing
			w.Unsure += max(0, int64(p.Rate*t.duration(p).Seconds())-w.Sent)
		}
		return w
	case o.AllRequests != nil:
		w.Sent = *o.AllRequests
	case o.Requests != nil:
		w.Sent = *o.Requests
	case o.Statuses != nil:
		for _, n := range o.Statuses {
			w.Sent += n
		}
	default:
		return nil
	}
	for code, n := range o.Statuses {
		if classOfStatus(code) != load.OK {
			w.Failed += n
		}
	}
	if o.NotOK != nil {
		w.Failed += *o.NotOK
	}
	for _, n := range o.Errors { // in the count of some generators only
		w.Unanswered += n
		w.Unsure += n
	}
	w.Unanswered -= o.Slow
	return w
}
