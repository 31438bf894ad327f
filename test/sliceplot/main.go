// Sliceplot draws the slices of an interleaved run as SVG: one block in time, and all blocks with the
// spread of their slices. The methodology page shows its pictures.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

func main() {
	if err := draw(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sliceplot:", err)
		os.Exit(1)
	}
}

func draw(args []string) error {
	f := flag.NewFlagSet("sliceplot", flag.ContinueOnError)
	out := f.String("o", ".", "directory of the pictures")
	block := f.Int("block", 0, "block of the first picture; 0: the one in the middle")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return errors.New("name one results directory of an interleaved run")
	}
	trials, err := read(f.Arg(0))
	if err != nil {
		return err
	}
	if len(trials) == 0 {
		return fmt.Errorf("%s has no trial with slices", f.Arg(0))
	}
	if *block == 0 {
		*block = trials[len(trials)/2].block
	}
	correlations(trials)
	for name, picture := range map[string]func() string{
		"slices.svg": func() string { return oneBlock(trials, *block) },
		"blocks.svg": func() string { return allBlocks(trials) },
	} {
		if err := os.WriteFile(filepath.Join(*out, name), []byte(picture()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// correlations prints how far slices of a row move together: treatments share the machine, and nothing else.
func correlations(all []trial) {
	names := treatments(all)
	for i, a := range names {
		for _, b := range names[i+1:] {
			var x, y []float64
			for _, s := range all {
				for _, t := range all {
					if s.block != t.block || s.treatment != a || t.treatment != b {
						continue
					}
					n := min(len(s.cost), len(t.cost))
					ms, mt := stats.Mean(s.cost[:n]), stats.Mean(t.cost[:n])
					for k := range n {
						x, y = append(x, s.cost[k]-ms), append(y, t.cost[k]-mt)
					}
				}
			}
			sum := 0.0
			for k := range x {
				sum += x[k] * y[k]
			}
			fmt.Printf("correlation of slices of a row, %s and %s: %.2f (%d rows)\n", a, b, sum/float64(len(x)-1)/stats.SD(x)/stats.SD(y), len(x))
		}
	}
}

// trial has the CPU per request of its own slices, µs.
type trial struct {
	treatment string
	block     int
	at        []float64 // s, from the begin of the block's first slice
	cost      []float64
}

// planes are those of the total without the load generator.
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
