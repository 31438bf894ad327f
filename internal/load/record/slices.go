package record

import (
	"slices"

	"github.com/tare-mesh/tare/internal/load"
)

// sliceCounts counts requests by slice, and its zero value is of a load without slices and
// counts nothing.
type sliceCounts struct {
	table  *load.Slices
	counts []load.SliceCount // by slice of the table
}

// due counts a request intended at an instant.
func (c *sliceCounts) due(intended int64) {
	if c.table != nil {
		c.counts[c.table.Index(intended)].Intended++
	}
}

// finish counts the outcome of a request.
func (c *sliceCounts) finish(o *Outcome, ok bool) {
	if c.table == nil {
		return
	}
	i := c.table.Index(o.Intended)
	n := &c.counts[i]
	if o.Sent >= 0 {
		n.LastEnd = max(n.LastEnd, o.End)
	}
	if o.Status != 0 {
		n.Answered++
	}
	if ok {
		n.OK++
		n.ResponseNS += o.End - o.Intended
	}
	if o.End >= int64(c.table.Edge(i+2)) {
		n.Overrun++
	}
}

// add adds the counts of another worker of the same load.
func (c *sliceCounts) add(w *sliceCounts) {
	if c.table == nil {
		*c = newSliceCounts(w.table)
	}
	for i := range w.counts {
		c.counts[i].Add(&w.counts[i])
	}
}

func newSliceCounts(table *load.Slices) (c sliceCounts) {
	if table == nil {
		return c
	}
	c.table, c.counts = table, make([]load.SliceCount, len(table.Owners))
	for i := range c.counts {
		c.counts[i].Slice = i
	}
	return c
}

// own returns the counts of the load's slices in the measure window.
func (c *sliceCounts) own(p *load.Profile) (own []load.SliceCount) {
	if c.table == nil {
		return nil
	}
	for i := int(p.Warmup / c.table.Length); i < int((p.Warmup+p.Measure)/c.table.Length); i++ {
		if c.table.Owners[i] == c.table.Own {
			own = append(own, c.counts[i])
		}
	}
	return own
}

// mergeSlices adds the counts of parts of one load, which have the same slices.
func mergeSlices(reports []load.Report) []load.SliceCount {
	if reports[0].Slices == nil {
		return nil
	}
	sum := slices.Clone(reports[0].Slices)
	for _, r := range reports[1:] {
		for i := range min(len(sum), len(r.Slices)) {
			sum[i].Add(&r.Slices[i])
		}
	}
	return sum
}
