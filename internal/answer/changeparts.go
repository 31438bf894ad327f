package answer

import (
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/stats"
)

// ChangeParts is where the time of a kind of change went with a treatment, in ms: means of trials. Control plane and proxies
// count the parts themselves, of every fifth change. They are a diagnosis beside the measured time.
type ChangeParts struct {
	Treatment    string         `json:"treatment"`
	Kind         string         `json:"kind"`
	Changes      int            `json:"changes"`            // changes of the means
	LeftOut      int            `json:"left_out,omitempty"` // changes left out: their parts are longer than the whole, or in no order
	Parts        []ChangePart   `json:"parts,omitempty"`
	Whole        stats.Interval `json:"whole_ms"`      // of the same changes, as probes showed it
	ResolutionMS float64        `json:"resolution_ms"` // how much longer the whole and the last part may be
}

// ChangePart is a part of the time of a change.
type ChangePart struct {
	Name string         `json:"name"`
	MS   stats.Interval `json:"ms"`
}

// addChangeParts adds what the parts of the mesh count of changes.
func (r *Report) addChangeParts(confidence float64) {
	for i := range r.Treatments {
		order, kinds := grouped(r.Trials, r.Treatments[i].ID, func(t figures.Trial) []figures.ChangeParts { return t.ChangeParts }, func(p figures.ChangeParts) string { return p.Kind })
		for _, kind := range order {
			p := partsOver(kinds[kind], confidence)
			p.Treatment, p.Kind = r.Treatments[i].ID, kind
			r.ChangeParts = append(r.ChangeParts, p)
		}
	}
}

// partsOver takes the mean over the trials that know the most parts.
func partsOver(all []figures.ChangeParts, confidence float64) (p ChangeParts) {
	most := 0
	for _, one := range all {
		p.LeftOut += one.LeftOut
		most = max(most, len(one.Parts))
	}
	var whole []float64
	parts := make([][]float64, most)
	for _, one := range all {
		if most == 0 || len(one.Parts) < most {
			continue
		}
		p.Changes += one.Changes
		p.ResolutionMS += one.ResolutionMS
		whole = append(whole, one.WholeMS)
		for i, part := range one.Parts {
			parts[i] = append(parts[i], part.MS)
			if len(whole) == 1 {
				p.Parts = append(p.Parts, ChangePart{Name: part.Name})
			}
		}
	}
	if len(whole) == 0 {
		return p
	}
	p.ResolutionMS /= float64(len(whole))
	p.Whole = stats.MeanInterval(whole, confidence).Interval
	for i := range p.Parts {
		p.Parts[i].MS = stats.MeanInterval(parts[i], confidence).Interval
	}
	return p
}
