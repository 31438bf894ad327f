package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// slicesDir has the pictures of the methodology, by the names that drawSlices returns.
const slicesDir = "docs/explanation/pictures"

// drawSlices returns pictures of the slices of an interleaved run: the block in the middle in time, and all blocks with
// the spread of their slices.
func drawSlices(dir string) (map[string][]byte, error) {
	trials, err := read(dir)
	if err != nil {
		return nil, err
	}
	if len(trials) == 0 {
		return nil, fmt.Errorf("%s has no trial with slices", dir)
	}
	return map[string][]byte{
		"slices.svg": []byte(oneBlock(trials, trials[len(trials)/2].block)),
		"blocks.svg": []byte(allBlocks(trials)),
	}, nil
}

// trial has the CPU per request of its own slices, µs.
type trial struct {
	treatment string
	block     int
	at        []float64 // s, from the begin of the block's first slice
	cost      []float64
}

// planes are the planes of the total, without the load generator.
var planes = []metric.Plane{metric.App, metric.Data, metric.Control}

// read reads the valid trials with slices, in the order of the plan.
func read(dir string) ([]trial, error) {
	d, err := result.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	records, err := d.Records()
	if err != nil {
		return nil, err
	}
	var all []trial
	for _, r := range records {
		if !r.Valid || r.Load == nil || r.Load.Slices == nil {
			continue
		}
		rows, err := result.ReadSlices(d.TrialFile(r.ID, result.SlicesFile))
		if err != nil {
			return nil, err
		}
		t := trial{treatment: r.Treatment, block: r.Block}
		for i, s := range rows {
			if !s.Own || s.Answered == 0 {
				continue
			}
			used := int64(0)
			for _, p := range planes {
				used += s.CPU[p]
				if i+1 < len(rows) && !rows[i+1].Own { // late answers
					used += rows[i+1].CPU[p]
				}
			}
			t.at = append(t.at, (s.Begin+s.End).Seconds()/2-rows[0].Begin.Seconds())
			t.cost = append(t.cost, float64(used)/float64(s.Answered)/1e3)
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b trial) int { return a.block - b.block })
	return all, nil
}

// treatments are the names in the order of their mean cost, the largest first.
func treatments(all []trial) (names []string) {
	mean := map[string]float64{}
	for _, t := range all {
		if !slices.Contains(names, t.treatment) {
			names = append(names, t.treatment)
		}
		mean[t.treatment] += stats.Mean(t.cost)
	}
	slices.SortFunc(names, func(a, b string) int { return int(math.Copysign(1, mean[b]-mean[a])) })
	return names
}

// oneBlock draws the cost of each slice of a block over time: what moves the machine moves neighbours.
func oneBlock(all []trial, block int) string {
	c := newChart("CPU per request in each slice of one block, µs", "seconds")
	for i, name := range treatments(all) {
		for _, t := range all {
			if t.block == block && t.treatment == name {
				c.line(i, name, t.at, t.cost)
			}
		}
	}
	return c.svg()
}

// allBlocks draws each block's mean, with two standard errors of its slices: what exceeds them is between
// deployments.
func allBlocks(all []trial) string {
	c := newChart("CPU per request of each block, µs; bars: two standard errors of its slices", "block")
	for i, name := range treatments(all) {
		var x, y, e []float64
		for _, t := range all {
			if t.treatment == name && len(t.cost) > 1 {
				x, y = append(x, float64(t.block)+0.12*float64(i)), append(y, stats.Mean(t.cost))
				e = append(e, 2*stats.SD(t.cost)/math.Sqrt(float64(len(t.cost))))
			}
		}
		c.bars(i, name, x, y, e)
	}
	return c.svg()
}
