package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/report"
)

// planCurve prints rates and blocks for a curve, with the bands that they give, and the commands.
func (c precisionPlanner) planCurve(file string, o ExperimentOptions, s *session.Study, d detectOptions) error {
	if d.within <= 0 {
		return hint.Usage(errors.New("--for curve needs the time of the run"), "write --within 10m")
	}
	from, to, n := ratesOf(s)
	if n < 2 {
		return hint.Usage(errors.New("a curve needs its lowest and its highest rate"), "write --set 'factors.rate=[100, 2000]'")
	}
	deviations, source := predict.Assumed, "assumed; --from RUN takes those of an earlier run"
	if len(d.from) > 0 {
		var err error
		if deviations, err = deviationsOf(d.from[0]); err != nil {
			return err
		}
		source = "as in " + d.from[0]
	}
	perRate := s.Plan.TrialTime * time.Duration(len(s.Plan.Treatments)) / time.Duration(n)
	design, ok := predict.BestDesign(from, to, deviations, func(rates int) int { return int(d.within / (perRate * time.Duration(rates))) }, s.Experiment.Confidence)
	if !ok {
		return hint.Usage(fmt.Errorf("%v is too short for a curve: a block of 4 rates takes %v, and 3 are needed", experiment.Duration(d.within), experiment.Duration((4*perRate).Round(time.Second))), "allow more with --within, or shorten phases.measure")
	}
	rates := printable.Texts(design.Rates, func(rate float64) string { return report.Level(rate) })
	took := perRate * time.Duration(len(design.Rates)*design.Blocks)
	fmt.Fprintf(c.Out, "A curve from %s to %s requests/s: %d rates in %s, %v.\n", rates[0], rates[len(rates)-1], len(rates), printable.Counted(design.Blocks, "block"), experiment.Duration(took.Round(time.Second)))
	fmt.Fprintf(c.Out, "At the least certain rate the average CPU has ±%s and one more deployment ±%s, if deployments differ by %s\nand trials of one by %s (%s).\n\n",
		percents(design.Mean), percents(design.Another), percents(deviations.Deployment), percents(deviations.Trial), source)
	fmt.Fprintf(c.Out, "  tare run %s%s --set 'factors.rate=[%s]' --set blocks=%d --out runs/curve\n  tare size --from runs/curve --rate N\n",
		printable.Line(printable.ShellWord(file)), o.flags("factors.rate=", "blocks="), strings.Join(rates, ", "), design.Blocks)
	return nil
}

// flags are the flags of the plan, as a shell takes them, without settings that begin with a prefix.
func (o ExperimentOptions) flags(without ...string) (text string) {
	for _, file := range o.Meshes {
		text += " --mesh " + printable.ShellWord(file)
	}
	for _, set := range o.Set {
		if !slices.ContainsFunc(without, func(prefix string) bool { return strings.HasPrefix(set, prefix) }) {
			text += " --set " + printable.ShellWord(set)
		}
	}
	return printable.Line(text)
}

// ratesOf returns the ends of the rates of a plan, and how many there are.
func ratesOf(s *session.Study) (from, to float64, n int) {
	seen := map[float64]bool{}
	for _, t := range s.Plan.Treatments {
		rate, numeric := t.Factors[experiment.RateFactor].(float64)
		if !numeric || seen[rate] {
			continue
		}
		seen[rate] = true
		if n++; n == 1 {
			from, to = rate, rate
		}
		from, to = min(from, rate), max(to, rate)
	}
	return from, to, n
}

func deviationsOf(dir string) (predict.Deviations, error) {
	d, err := result.Open(dir)
	if err != nil {
		return predict.Deviations{}, err
	}
	defer d.Close()
	run, err := compare.Read(d, compare.Options{})
	if err != nil {
		return predict.Deviations{}, err
	}
	found, err := predict.DeviationsOf(run)
	if err != nil {
		return found, fmt.Errorf("%s: %w", dir, err)
	}
	return found, nil
}
