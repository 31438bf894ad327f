package main

import (
	"context"
	"fmt"
	"os"

	"github.com/tare-mesh/tare/internal/compare"
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
			row(b.out, m.Title(), fmt.Sprint(all[name]), fmt.Sprint(missing[name]), percentage(missing[name], all[name]), "", "")
			total, off = total+all[name], off+missing[name]
		}
	}
	row(b.out, "all", fmt.Sprint(total), fmt.Sprint(off), percentage(off, total), fmt.Sprintf("≤ %.1f %%", 100*mayMiss), yes(total > 0 && float64(off) <= mayMiss*float64(total)))
	return ctx.Err()
}

// count takes the interval that the verdict rests on.
func count(f compare.Floor, missing, all map[string]int) {
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

func percentage(n, of int) string {
	if of == 0 {
		return "?"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}
