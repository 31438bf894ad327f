// Command dropped shows what a rule of published comparisons does: of five runs, the two with the largest maximum of the
// response time are dropped, and the 99 % quantiles of the others are compared.
//
//	mkdir -p runs/debate && tar -xf docs/pictures/debate.tar.gz -C runs/debate
//	go run ./test/dropped runs/debate
//
// It draws five and five of the runs of one treatment, with replacement, again and again. Both sides are equal: what they differ by
// is what a comparison of five with five runs does not resolve. So few runs show less than all of the spread.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// runs of a side, and how many of them are dropped.
const runs, dropped = 5, 2

const draws = 100_000

// trial has the response times of one trial, ms.
type trial struct{ p99, most float64 }

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, w io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: dropped DIR, a results directory")
	}
	dir, err := result.Open(args[0])
	if err != nil {
		return err
	}
	defer dir.Close()
	measured, err := compare.Read(dir, compare.Options{})
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "treatment\truns\tp99 of runs, ms\tequal sides, 95 %%\t%v ms or more\t%d dropped, 95 %%\t%v ms or more\n", apart, dropped, apart)
	trials := byTreatment(measured)
	for _, t := range measured.Plan.Treatments {
		if of := trials[t.ID]; len(of) >= runs {
			fmt.Fprintf(out, "%s\t%d\t%.1f to %.1f\t%s\t%s\n", t.ID, len(of), least(of), greatest(of), words(differences(of, 0)), words(differences(of, dropped)))
		}
	}
	return out.Flush()
}

// byTreatment returns the valid trials with a known p99 and maximum.
func byTreatment(r *compare.Run) map[string][]trial {
	trials := map[string][]trial{}
	for _, t := range r.Trials {
		p99, known := t.Metrics[metric.Of(metric.Latency, "p99")]
		if !known { // as wrk2 prints it
			p99, known = t.Metrics[metric.Of(metric.Latency, "p98.9")]
		}
		if most, both := t.Metrics[metric.Of(metric.Latency, "max")]; t.Valid && known && both {
			trials[t.Treatment] = append(trials[t.Treatment], trial{p99, most})
		}
	}
	return trials
}

func least(of []trial) float64 {
	return slices.MinFunc(of, func(a, b trial) int { return cmp.Compare(a.p99, b.p99) }).p99
}

func greatest(of []trial) float64 {
	return slices.MaxFunc(of, func(a, b trial) int { return cmp.Compare(a.p99, b.p99) }).p99
}

// differences draws two sides of the same trials, and returns the differences of their means.
func differences(of []trial, drop int) []float64 {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
	side := func() float64 {
		var some []trial
		for range runs {
			some = append(some, of[r.IntN(len(of))])
		}
		return mean(some, drop)
	}
	all := make([]float64, draws)
	for i := range all {
		all[i] = side() - side()
	}
	return all
}

// mean is the mean p99 without the trials that have the largest maxima.
func mean(of []trial, drop int) float64 {
	slices.SortFunc(of, func(a, b trial) int { return cmp.Compare(a.most, b.most) })
	var p99 []float64
	for _, t := range of[:len(of)-drop] {
		p99 = append(p99, t.p99)
	}
	return stats.Mean(p99)
}

// apart is the published difference, ms.
const apart = 2.9

// words has the range of 95 % of the differences, and how many are as large as the published one.
func words(d []float64) string {
	far := 0
	for _, x := range d {
		if math.Abs(x) >= apart {
			far++
		}
	}
	return fmt.Sprintf("±%.1f\t%.0f %%", (stats.Quantile(d, 0.975)-stats.Quantile(d, 0.025))/2, 100*float64(far)/float64(len(d)))
}
