package page

import (
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/result"
)

// searched is the search of one trial, where the experiment has a rate with max.
type searched struct {
	Trial     string         `json:"trial"`
	Treatment string         `json:"treatment"`
	Found     capacity.Found `json:"found"`
}

// mostSearches bounds the searches that a page draws: the first ones.
const mostSearches = 200

func searchesOf(d *result.Dir) (all []searched) {
	for _, t := range d.Plan().Trials {
		r, _, err := d.Record(t)
		if err == nil && r.Load != nil && r.Load.Capacity != nil && len(all) < mostSearches {
			all = append(all, searched{t.ID, t.Treatment, *r.Load.Capacity})
		}
	}
	return all
}
