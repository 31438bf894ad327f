package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// table has a column for each design.
type table struct {
	*bench
	suite     suite
	headlines []comparison
	columns   []column
}

type column struct {
	values map[string][]float64 // by comparison
	means  map[string][]float64 // of the treatment
	wall   []float64            // seconds of a block
	failed int
}

// fill is a part that runs a suite block by block. Failed blocks are counted and left out.
func fill(name string) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		t := newTable(b, suites[name])
		order := rand.New(rand.NewPCG(b.seed, 0))
		for block := range b.blocks {
			began := time.Now()
			for _, i := range order.Perm(len(t.columns)) {
				if err := t.block(ctx, block, i); err != nil {
					t.write()
					return err
				}
			}
			if block+1 < b.blocks && time.Now().Add(time.Since(began)).After(b.until) {
				fmt.Fprintf(os.Stderr, "no time is left after block %d of %d\n", block+1, b.blocks)
				break
			}
		}
		t.write()
		return nil
	}
}

func newTable(b *bench, s suite) *table {
	t := &table{bench: b, suite: s}
	for range s.designs {
		t.columns = append(t.columns, column{values: map[string][]float64{}, means: map[string][]float64{}})
	}
	for _, of := range s.sides {
		for _, name := range metric.Headlines() {
			m, _ := metric.Lookup(name)
			t.headlines = append(t.headlines, comparison{side: of, name: of.name + ": " + m.Title(), metric: name, relative: m.Judged == metric.ByRatio})
		}
	}
	return t
}

// block runs one block of a design. Only an interrupt is an error.
func (t *table) block(ctx context.Context, block, i int) error {
	d, c := t.suite.designs[i], &t.columns[i]
	settings := append([]string{fmt.Sprintf("seed=%d", t.seed+uint64(block))}, append(slices.Clone(t.suite.settings), d.settings...)...)
	r, lasted, err := t.run(ctx, t.file, settings...)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		c.failed++
		fmt.Fprintf(os.Stderr, "block %d, %s: %v\n", block+1, d.name, err)
		return nil
	}
	c.add(t.suite.comparisons, t.headlines, r, lasted)
	fmt.Fprintf(os.Stderr, "block %d of %d, %s: %.1f s\n", block+1, t.blocks, d.name, lasted.Seconds())
	return nil
}

// add takes the block's figure of each comparison. Blocks with an invalid side have none.
func (c *column) add(comparisons, headlines []comparison, r *answer.Report, wall time.Duration) {
	c.wall = append(c.wall, wall.Seconds())
	for _, x := range slices.Concat(comparisons, headlines) {
		a, ok1 := valueOf(r, x.treatment, x.metric)
		b, ok2 := valueOf(r, x.baseline, x.metric)
		if !ok1 || !ok2 {
			continue
		}
		d := a - b
		if x.relative {
			d = math.Log(a / b)
		}
		c.values[x.name], c.means[x.name] = append(c.values[x.name], d), append(c.means[x.name], a)
	}
}

// valueOf is a metric of the only trial of a treatment.
func valueOf(r *answer.Report, treatment, name string) (float64, bool) {
	i := slices.IndexFunc(r.Trials, func(t figures.Trial) bool { return t.Treatment == treatment && t.Valid })
	if i < 0 {
		return 0, false
	}
	v, ok := r.Trials[i].Metrics[name]
	return v, ok
}

// equalTime is the wall time for which half-widths are computed.
const equalTime = 300.0 // s

const confidence = 0.95

// half is the expected half of the interval after equalTime, relative to the treatment's mean.
func (c *column) half(x comparison) float64 {
	blocks := int(equalTime / stats.Mean(c.wall))
	half := stats.HalfWidth(stats.SD(c.values[x.name]), blocks, confidence)
	if !x.relative {
		half /= stats.Mean(c.means[x.name])
	}
	return half
}

func (t *table) write() {
	heads(t.out, "comparison", "design", "blocks", "s a block", "mean", "95 % interval", "SD of a block", "half width in 5 minutes", "of the first design's", "required", "met")
	for _, x := range t.suite.comparisons {
		for i, d := range t.suite.designs {
			t.line(x, i, d.name)
		}
	}
	fmt.Fprintln(t.out)
	for i, d := range t.suite.designs {
		if n := t.columns[i].failed; n > 0 {
			fmt.Fprintf(t.out, "%s: %d blocks failed.\n", d.name, n)
		}
	}
	t.widths()
}

// line is one comparison with one design.
func (t *table) line(x comparison, i int, name string) {
	c := &t.columns[i]
	v := c.values[x.name]
	r := stats.MeanInterval(v, confidence)
	if !r.Known() {
		row(t.out, x.name, name, fmt.Sprint(len(v)), "", "?", "", "", "", "", "", "")
		return
	}
	scale, unit, relative := 1.0, " µs", stats.Mean(c.means[x.name])
	if x.relative {
		scale, unit, relative = 100, " %", 1
	}
	share := c.half(x) / t.columns[0].half(x)
	required, met := "", ""
	if x.share > 0 && i > 0 && (x.design == 0 || x.design == i) {
		required, met = fmt.Sprintf("≤ %.2f", x.share), yes(share <= x.share)
	}
	row(t.out, x.name, name, fmt.Sprint(len(v)), fmt.Sprintf("%.1f", stats.Mean(c.wall)), fmt.Sprintf("%+.1f%s", scale*r.Estimate, unit),
		fmt.Sprintf("%+.1f to %+.1f", scale**r.Low, scale**r.High), fmt.Sprintf("%.1f %%", 100*r.SD/relative), fmt.Sprintf("±%.2f %%", 100*c.half(x)), shareText(share), required, met)
}

// widths compares the headline metrics: none may have a wider interval than with the first design.
func (t *table) widths() {
	if len(t.headlines) == 0 {
		return
	}
	fmt.Fprintf(t.out, "\nHalf width of each headline metric in 5 minutes, of that of %q (required: ≤ 1):\n\n", t.suite.designs[0].name)
	cells := []string{"headline metric"}
	for _, d := range t.suite.designs[1:] {
		cells = append(cells, d.name, "met")
	}
	heads(t.out, cells...)
	for _, x := range t.headlines {
		cells := []string{x.name}
		first := t.columns[0].half(x)
		for i := range t.columns[1:] {
			share := t.columns[i+1].half(x) / first
			if math.IsNaN(share) || math.IsInf(share, 0) { // neither has any spread
				cells = append(cells, "constant", "")
				continue
			}
			cells = append(cells, shareText(share), yes(share <= 1))
		}
		row(t.out, cells...)
	}
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}

// shareText is a share, unknown if the first design has too few blocks.
func shareText(share float64) string {
	if math.IsNaN(share) || math.IsInf(share, 0) {
		return "?"
	}
	return fmt.Sprintf("%.2f", share)
}
