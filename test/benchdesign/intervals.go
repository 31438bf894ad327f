package main

import (
	"context"
	"fmt"
	"math"
	"os"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/metric"
)

// Blocks of each A/A run, and the share of intervals that may miss zero: 5 %, and the error of 200 intervals.
const (
	aaBlocks  = 5
	mayMiss   = 0.075
	envoyPair = "factors={mesh: [envoy], rate: [500], connections: [8]}"
)

// missed counts the A/A intervals that miss zero, in the reports of short runs.
func missed(ctx context.Context, b *bench) error {
	missing, all := map[string]int{}, map[string]int{}
	runs, lost, seconds := 0, 0, 0.0
	for n := range b.blocks / aaBlocks {
		if b.late() {
			break
		}
		r, lasted, err := b.run(ctx, b.file, fmt.Sprintf("seed=%d", b.seed+uint64(n)), envoyPair, "baseline={mesh: envoy}", "control=true", "order=interleaved",
			"phases={warmup: 200ms, measure: 1s, drain: 500ms}", "validity={rateShortfall: 0.05, lateness: 1s}", fmt.Sprintf("blocks=%d", aaBlocks))
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			lost++
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		runs, seconds = runs+1, seconds+lasted.Seconds()
		for _, f := range r.Floor {
			count(f, missing, all)
		}
		fmt.Fprintf(os.Stderr, "run %d of %d: %.0f s\n", n+1, b.blocks/aaBlocks, lasted.Seconds())
	}
	fmt.Fprintf(b.out, "A pair of Envoys against itself, %d runs of %d blocks, %.0f s each, %d runs lost.\n\n", runs, aaBlocks, seconds/float64(max(1, runs)), lost)
	heads(b.out, "metric", "95 % intervals", "without zero", "share", "required", "met")
	total, off := 0, 0
	for _, name := range metric.Headlines() {
		if all[name] > 0 {
			m, _ := metric.Lookup(name)
			row(b.out, m.Title(), fmt.Sprint(all[name]), fmt.Sprint(missing[name]), share(missing[name], all[name]), "", "")
			total, off = total+all[name], off+missing[name]
		}
	}
	row(b.out, "all", fmt.Sprint(total), fmt.Sprint(off), share(off, total), fmt.Sprintf("≤ %.1f %%", 100*mayMiss), yes(total > 0 && float64(off) <= mayMiss*float64(total)))
	return ctx.Err()
}

// count takes the interval that the verdict rests on.
func count(f analysis.Floor, missing, all map[string]int) {
	m, _ := metric.Lookup(f.Metric)
	i, none := f.Difference, 0.0
	if m.Judged == metric.ByRatio {
		i, none = f.Ratio, 1
	}
	if i == nil || !i.Known() {
		return
	}
	all[f.Metric]++
	if i.Excludes(none) {
		missing[f.Metric]++
	}
}

func share(n, of int) string {
	if of == 0 {
		return "?"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// Limits of the quickstart: seconds, and half of the data plane's interval on a quiet and on a busy machine.
const (
	quickSeconds = 75.0
	quickQuiet   = 0.02
	quickBusy    = 0.035
)

// quickstart runs the example as it is.
func quickstart(ctx context.Context, b *bench) error {
	heads(b.out, "run", "load average before", "seconds", "trials used", "data plane", "half of its interval", "unadjusted", "≤ 75 s", "≤ 2 % (quiet)", "≤ 3.5 % (busy)")
	for n := range b.blocks {
		if b.late() {
			break
		}
		before := loadAverage()
		r, lasted, err := b.run(ctx, "examples/quickstart.yaml")
		if err != nil {
			return err
		}
		cells := []string{fmt.Sprint(n + 1), before, fmt.Sprintf("%.1f", lasted.Seconds()), fmt.Sprintf("%d of %d", r.Count.Used, r.Count.Planned)}
		c, _ := r.Find("envoy", dataCPU)
		half := math.NaN()
		if c.Difference != nil {
			if h, ok := c.Difference.HalfWidth(); ok {
				half = h / c.Difference.Estimate
				cells = append(cells, fmt.Sprintf("%+.1f µs", c.Difference.Estimate), fmt.Sprintf("±%.1f %%", 100*half))
			}
		}
		if math.IsNaN(half) {
			cells = append(cells, "?", "?")
		}
		unadjusted := ""
		if c.Speed != nil {
			if h, ok := c.Speed.Unadjusted.HalfWidth(); ok {
				unadjusted = fmt.Sprintf("±%.1f %%", 100*h/c.Difference.Estimate)
			}
		}
		cells = append(cells, unadjusted)
		row(b.out, append(cells, yes(lasted.Seconds() <= quickSeconds), yes(half <= quickQuiet), yes(half <= quickBusy))...)
	}
	return nil
}

// The procedure of the Great Sidecar Debate: all runs of a mesh, then those of the next one; five runs each; means.
// Its runs of 300 s are shortened: longer ones do not help against noise between runs.
const (
	debateRuns    = 5
	debateMeshes  = "factors={mesh: [envoy, envoy-plaintext], rate: [1000], connections: [16]}"
	debateMeasure = 20 // s
)

// debate compares the smallest difference that the debate's procedure and interleaved blocks show in the same time.
func debate(ctx context.Context, b *bench) error {
	heads(b.out, "sequence", "design", "minutes", "n of each mesh", "ratio of the data planes", "smallest difference shown with 80 % power", "in one minute of wall time")
	for n := range b.blocks {
		if b.late() {
			break
		}
		seed := fmt.Sprintf("seed=%d", b.seed+uint64(n))
		r, lasted, err := b.run(ctx, b.file, seed, debateMeshes, "baseline={mesh: envoy}", "order=once", fmt.Sprintf("blocks=%d", debateRuns),
			fmt.Sprintf("phases={warmup: 2s, measure: %ds, drain: 1s}", debateMeasure))
		if err != nil {
			return err
		}
		b.smallest(n+1, "one mesh after the other", r, lasted.Minutes())
		seconds := lasted.Seconds()
		blocks := max(aaBlocks, int(seconds/interleavedBlock))
		if r, lasted, err = b.run(ctx, b.file, seed, debateMeshes, "baseline={mesh: envoy}", "order=interleaved", fmt.Sprintf("blocks=%d", blocks), shortBlocks); err != nil {
			return err
		}
		b.smallest(n+1, "interleaved", r, lasted.Minutes())
	}
	fmt.Fprintf(b.out, "\nTwo pairs of Envoy, with and without TLS, 1000 requests/s. Runs of the first design last %d s instead of 300 s, and each has a deployment of its own. "+
		"The last column is the smallest difference × √minutes. The interval of the first design has no variation between sequences: compare the ratios.\n", debateMeasure)
	return nil
}

// interleavedBlock is about the time of an interleaved block of two treatments, s.
const interleavedBlock = 9.0

// smallest writes what the comparison of the data planes would show, as a share.
func (b *bench) smallest(sequence int, design string, r *analysis.Report, minutes float64) {
	c, ok := r.Find("envoy-plaintext", dataCPU)
	if !ok || c.Ratio == nil {
		row(b.out, fmt.Sprint(sequence), design, fmt.Sprintf("%.1f", minutes), "0", "?", "?", "?")
		return
	}
	var logs [2][]float64
	for _, t := range r.Trials {
		if v := t.Metrics[dataCPU]; t.Valid && v > 0 {
			i := 0
			if t.Treatment == c.Treatment {
				i = 1
			}
			logs[i] = append(logs[i], math.Log(v))
		}
	}
	least, known := stats.WelchDetectable(logs[1], logs[0], 1-confidence, stats.Power)
	if r.Method == analysis.Paired {
		least, known = pairedSmallest(r, c)
	}
	smallest, minute := "?", "?"
	if known {
		smallest, minute = fmt.Sprintf("%.2f %%", 100*math.Expm1(least)), fmt.Sprintf("%.2f %%", 100*math.Expm1(least)*math.Sqrt(minutes))
	}
	ratio := fmt.Sprintf("%.3f", c.Ratio.Estimate)
	if c.Ratio.Known() {
		ratio += fmt.Sprintf(" [%.3f, %.3f]", *c.Ratio.Low, *c.Ratio.High)
	}
	row(b.out, fmt.Sprint(sequence), design, fmt.Sprintf("%.1f", minutes), fmt.Sprint(c.N), ratio, smallest, minute)
}

// pairedSmallest is the smallest logarithm of a ratio that pairs of blocks show.
func pairedSmallest(r *analysis.Report, c analysis.Comparison) (float64, bool) {
	by := map[int]map[string]float64{}
	for _, t := range r.Trials {
		if v := t.Metrics[dataCPU]; t.Valid && v > 0 {
			if by[t.Block] == nil {
				by[t.Block] = map[string]float64{}
			}
			by[t.Block][t.Treatment] = v
		}
	}
	var logs []float64
	for _, block := range by {
		if len(block) == 2 {
			logs = append(logs, math.Log(block[c.Treatment]/block[c.Baseline]))
		}
	}
	return stats.MinDetectable(stats.SD(logs), len(logs), 1-confidence, stats.Power)
}
