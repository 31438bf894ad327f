package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/metric"
)

// table has a column for each design.
type table struct {
	suite   suite
	seed    uint64
	started time.Time
	columns []column
}

type column struct {
	values map[string][]float64 // by comparison
	means  map[string][]float64 // of the treatment
	wall   []float64            // seconds of a block
	failed int
}

func newTable(s suite, seed uint64) *table {
	t := &table{suite: s, seed: seed, started: time.Now(), columns: make([]column, len(s.designs))}
	for i := range t.columns {
		t.columns[i] = column{values: map[string][]float64{}, means: map[string][]float64{}}
	}
	return t
}

// add takes the block's figure of each comparison. Blocks with an invalid side have none.
func (c *column) add(comparisons []comparison, r *analysis.Report, wall time.Duration) {
	c.wall = append(c.wall, wall.Seconds())
	for _, x := range comparisons {
		name := metric.Of(metric.CPUPerRequest, x.part)
		value := func(treatment string) (float64, bool) {
			i := slices.IndexFunc(r.Trials, func(t analysis.Trial) bool { return t.Treatment == treatment && t.Valid })
			if i < 0 {
				return 0, false
			}
			v, ok := r.Trials[i].Metrics[name]
			return v, ok
		}
		a, ok1 := value(x.treatment)
		b, ok2 := value(x.baseline)
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

func (t *table) write(out io.Writer) error {
	fmt.Fprintf(out, "suite %s, %s, seed %d\n\n", t.suite.name, t.started.UTC().Format("2006-01-02 15:04 UTC"), t.seed)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "COMPARISON\tDESIGN\tBLOCKS\tS A BLOCK\tMEAN\t95 % INTERVAL\tSD OF A BLOCK\tHALF WIDTH IN 5 MINUTES\tOF THE FIRST DESIGN'S")
	for _, x := range t.suite.comparisons {
		for i, d := range t.suite.designs {
			c := &t.columns[i]
			v := c.values[x.name]
			r := stats.MeanInterval(v, confidence)
			if !r.Known() {
				fmt.Fprintf(w, "%s\t%s\t%d\t\t?\n", x.name, d.name, len(v))
				continue
			}
			scale, unit, relative := 1.0, " µs", stats.Mean(c.means[x.name])
			if x.relative {
				scale, unit, relative = 100, " %", 1
			}
			fmt.Fprintf(w, "%s\t%s\t%d\t%.1f\t%+.1f%s\t%+.1f to %+.1f\t%.1f %%\t±%.2f %%\t%s\n", x.name, d.name, len(v), stats.Mean(c.wall),
				scale*r.Estimate, unit, scale**r.Low, scale**r.High, 100*r.SD/relative, 100*c.half(x), shareWords(c.half(x)/t.columns[0].half(x)))
		}
	}
	for i, d := range t.suite.designs {
		if n := t.columns[i].failed; n > 0 {
			fmt.Fprintf(w, "%s: %d blocks failed\n", d.name, n)
		}
	}
	return w.Flush()
}

// shareWords is a share, unknown if the first design has too few blocks.
func shareWords(share float64) string {
	if math.IsNaN(share) || math.IsInf(share, 0) {
		return "?"
	}
	return fmt.Sprintf("%.2f", share)
}
