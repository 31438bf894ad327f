package page

import (
	"fmt"
	"io"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/loadpage"
)

// searchContent is the data of the figure of a search for the highest rate.
type searchContent struct {
	head
	Search capacity.Found `json:"search"`
}

// WriteSearch writes the page of a search for the highest rate of a target.
func WriteSearch(w io.Writer, c *loadpage.Capacity, target, tare string) error {
	outcomes := map[string]int{}
	for _, p := range c.Probes {
		switch {
		case p.Undecided != "":
			outcomes["undecided"]++
		case p.Holds:
			outcomes["holds"]++
		default:
			outcomes["missed"]++
		}
	}
	answer, above, limit := c.Answer(), "their rates are too high", "the generator was the limit"
	if outcomes["undecided"] == 0 {
		limit = "the generator was never the limit"
	}
	if outcomes["missed"] == 0 {
		above = "the highest rate is above every probe"
	}
	d := document{Name: target, Headline: answer, Answer: []string{answer}, Tare: tare, Schema: "one search", Command: "tare load", Band: []card{
		{Good: outcomes["holds"] > 0, Title: fmt.Sprintf("%d of %s held", outcomes["holds"], printable.Counted(len(c.Probes), "probe")), Text: c.Objective},
		{Good: outcomes["missed"] > 0, Title: fmt.Sprintf("%d missed", outcomes["missed"]), Text: above},
		{Good: outcomes["undecided"] == 0, Title: fmt.Sprintf("%d undecided", outcomes["undecided"]), Text: limit},
	}}
	if c.Note != "" {
		d.Warnings = append(d.Warnings, warning{Code: "note", Message: c.Note})
	}
	d.Provenance = []entry{{Name: "Target", Text: target, Code: true}, {Name: "Objective", Text: c.Objective, Code: true}}
	return d.fill(w, searchContent{headOf(metric.Capacity), c.Found}, func(w io.Writer) error {
		return loadpage.WriteCapacity(w, c, loadpage.Options{})
	})
}

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
