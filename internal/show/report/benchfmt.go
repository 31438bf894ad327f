package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
)

// writeBenchfmt writes the format of Go's benchmarks, a line a valid trial, for
// benchstat and other readers. A treatment is a benchmark with its factors as
// name=level. A metric is a unit with the metric's name. The number of iterations is
// arbitrary: tare has no such number, and benchstat does not use it.
func writeBenchfmt(w io.Writer, r *answer.Report) error {
	b := bufio.NewWriter(w)
	for _, c := range [][2]string{
		{"goos", r.Setup.OS}, {"cpu", r.Setup.CPUModel}, {"kernel", r.Setup.Kernel}, {"experiment", r.Experiment}, {"tare", r.Setup.Tare},
	} {
		if c[1] != "" {
			fmt.Fprintf(b, "%s: %s\n", c[0], oneLine(c[1]))
		}
	}
	for _, m := range r.Metrics() {
		if better := m.Better.String(); m.Better != metric.Neither {
			fmt.Fprintf(b, "Unit %s better=%s\n", benchUnit(m.Name), better)
		}
	}
	fmt.Fprintln(b)
	factors := factorNames(r)
	for i := range r.Trials {
		t := &r.Trials[i]
		if !t.Valid {
			continue
		}
		writeBenchLine(b, t, factors)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write report as benchmarks: %w", err)
	}
	return nil
}

func writeBenchLine(b *bufio.Writer, t *figures.Trial, factors []string) {
	name := []string{"BenchmarkTare"}
	for _, f := range factors {
		if v, ok := t.Factors[f]; ok {
			name = append(name, benchToken(f)+"="+benchToken(Level(v)))
		}
	}
	if t.Control {
		name = append(name, plan.ControlFactor+"=true")
	}
	fmt.Fprintf(b, "%s 1", strings.Join(name, "/"))
	for _, m := range metric.Known(t.Metrics) {
		fmt.Fprintf(b, " %s %s", strconv.FormatFloat(t.Metrics[m.Name], 'g', -1, 64), benchUnit(m.Name))
	}
	fmt.Fprintln(b)
}

// benchToken is s without what has a meaning in a benchmark's name. A name that
// ends in -digits would be taken for one with a GOMAXPROCS.
func benchToken(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) || slices.Contains([]rune("/=-"), r) {
			return '_'
		}
		return r
	}, s)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// benchUnit is a metric's name as a unit, which has no spaces. Names of requests have.
func benchUnit(name string) string { return strings.Join(strings.Fields(name), "_") }
