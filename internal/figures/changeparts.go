package figures

import (
	"strings"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// ChangeParts is where the time of a kind of change went in one trial: means in ms over the changes whose parts are known.
// Control plane and proxies count them themselves. They are a diagnosis, and part of no metric.
type ChangeParts struct {
	Kind    string       `json:"kind"`
	Changes int          `json:"changes"`  // changes of the means
	LeftOut int          `json:"left_out"` // changes left out: their parts are longer than the whole, or in no order
	Parts   []ChangePart `json:"parts"`
	// WholeMS is the time of the change that was observed, and ResolutionMS how much longer it may have been.
	WholeMS      float64 `json:"whole_ms"`
	ResolutionMS float64 `json:"resolution_ms"`
}

// ChangePart is a part of the time of a change.
type ChangePart struct {
	Name string  `json:"name"` // of [changePartNames], several joined by " + " if the instant between them is unknown
	MS   float64 `json:"ms"`
}

// changePartNames are the parts of the time of a change, in their order. The last one ends with the effect that probes showed.
var changePartNames = [4]string{"to the control plane", "control plane", "proxies", "workers"}

// PartJoin joins the names of parts that are known together only.
const PartJoin = " + "

// clockTolerance is how much later than its effect a proxy may count a configuration, in ms: it counts whole ms.
const clockTolerance = 1.0

// changeParts returns the parts of the changes of a trial, by kind.
func changeParts(r *result.Record) (all []ChangeParts) {
	for _, kind := range metric.ChangeNames(nil) {
		of := ChangeParts{Kind: kind}
		var best [3]bool // which instants are known of the changes in the means
		for i := range r.Changes {
			c := &r.Changes[i]
			span := c.Time()
			if c.Kind != kind || c.Parts == nil || span == nil || span.BeforeMS == nil {
				continue
			}
			at := [3]*float64{c.Parts.ReceivedMS, c.Parts.PushedMS, c.Parts.TakenMS}
			known := [3]bool{at[0] != nil, at[1] != nil, at[2] != nil}
			switch {
			case contradicted(at, *span.BeforeMS):
				of.LeftOut++
				continue
			case count(known) < count(best):
				continue
			case known != best:
				of = ChangeParts{Kind: kind, LeftOut: of.LeftOut}
				best = known
			}
			of.add(at, span.AfterMS, latestOf(span)-span.AfterMS)
		}
		if of.Changes+of.LeftOut > 0 {
			all = append(all, of)
		}
	}
	return all
}

func count(known [3]bool) (n int) {
	for _, is := range known {
		if is {
			n++
		}
	}
	return n
}

// contradicted reports whether instants are in no order, or after the end of the change.
func contradicted(at [3]*float64, end float64) bool {
	last := 0.0
	for _, ms := range at {
		if ms == nil {
			continue
		}
		if *ms < last-clockTolerance {
			return true
		}
		last = max(last, *ms)
	}
	return last > end+clockTolerance
}

// add adds a change to the means.
func (p *ChangeParts) add(at [3]*float64, whole, resolution float64) {
	p.Changes++
	mean := func(of *float64, v float64) { *of += (v - *of) / float64(p.Changes) }
	mean(&p.WholeMS, whole)
	mean(&p.ResolutionMS, resolution)
	var names []string
	from, n := 0.0, 0
	for i, name := range changePartNames {
		names = append(names, name)
		to := whole
		if i < len(at) {
			if at[i] == nil {
				continue
			}
			to = *at[i]
		}
		if n == len(p.Parts) {
			p.Parts = append(p.Parts, ChangePart{Name: strings.Join(names, PartJoin)})
		}
		mean(&p.Parts[n].MS, to-from)
		names, from, n = nil, to, n+1
	}
}
