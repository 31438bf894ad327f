// Command dropped shows what a rule of published comparisons does: of five runs, the two with the largest maximum of the
// response time are dropped, and the 99 % quantiles of the others are compared.
//
//	tare run examples/findings/dropped-runs.yaml --out runs/dropped-runs
//	go run ./test/dropped runs/dropped-runs
//
// It draws five and five of the trials of one run, again and again: from one treatment, whose true difference is zero, and from
// each treatment and its baseline.
package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
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
	trials, compared := sides(measured)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "difference of p99, ms\ttrials\tall five runs\ttwo of five dropped\t")
	for _, c := range compared {
		a, b := trials[c[0]], trials[c[1]]
		if len(a) < runs || len(b) < runs || c[0] == c[1] && len(a) < 2*runs {
			continue
		}
		fmt.Fprintf(out, "%s − %s\t%d, %d\t%s\t%s\t\n", c[1], c[0], len(a), len(b), words(differences(a, b, c[0] == c[1], 0)), words(differences(a, b, c[0] == c[1], dropped)))
	}
	return out.Flush()
}

// sides returns the valid trials by treatment, where an A/A pair is one treatment, and the pairs to compare, baseline first.
func sides(r *compare.Run) (trials map[string][]trial, compared [][2]string) {
	trials = map[string][]trial{}
	of := map[string]plan.Treatment{}
	for _, t := range r.Plan.Treatments {
		of[t.ID] = t
	}
	for _, t := range r.Trials {
		p99, known := t.Metrics["latency_ms/p99"]
		most, both := t.Metrics["latency_ms/max"]
		if !t.Valid || !known || !both {
			continue
		}
		name := t.Treatment
		if of[name].Control {
			name = of[name].Baseline
		}
		trials[name] = append(trials[name], trial{p99, most})
	}
	for _, name := range slices.Sorted(maps.Keys(trials)) {
		compared = append(compared, [2]string{name, name})
		if b := of[name].Baseline; b != "" {
			compared = append(compared, [2]string{b, name})
		}
	}
	return trials, compared
}

// differences draws runs of b and of a without replacement, and returns the differences of their means. same: a and b are the
// same trials, of which none is on both sides.
func differences(a, b []trial, same bool, drop int) []float64 {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]float64, draws)
	for i := range all {
		first := r.Perm(len(a))
		second := first[runs:]
		if !same {
			second = r.Perm(len(b))
		}
		all[i] = mean(pick(b, second[:runs]), drop) - mean(pick(a, first[:runs]), drop)
	}
	return all
}

func pick(from []trial, which []int) (some []trial) {
	for _, i := range which {
		some = append(some, from[i])
	}
	return some
}

// mean is the mean p99 without the trials that have the largest maxima.
func mean(of []trial, drop int) float64 {
	slices.SortFunc(of, func(a, b trial) int { return int(math.Copysign(1, a.most-b.most)) })
	var p99 []float64
	for _, t := range of[:len(of)-drop] {
		p99 = append(p99, t.p99)
	}
	return stats.Mean(p99)
}

// words has the mean of differences, the range of 95 % of them, and how many are below zero.
func words(d []float64) string {
	below := 0
	for _, x := range d {
		if x < 0 {
			below++
		}
	}
	return fmt.Sprintf("%+.2f (%+.2f to %+.2f), %.0f %% below zero", stats.Mean(d), stats.Quantile(d, 0.025), stats.Quantile(d, 0.975), 100*float64(below)/float64(len(d)))
}
