package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/show/loadpage"
)

// Of a search for the highest rate.
const (
	defaultProbe  = 2 * time.Second
	defaultProbes = 20
	maxProbes     = 1000
	longestProbe  = 30 * time.Second
	searchRange   = 100  // from the upper limit down
	searchAbove   = 1.25 // the rate of a closed loop
	minAnswered   = 0.99 // share of the due requests that are answered within a probe that holds
	maxUndecided  = 3    // probes in a row
	// beyondQuantile is the number of requests of a probe above the quantile of an objective.
	beyondQuantile = 10
)

// checkFindMax refuses what contradicts a search.
func (f *loadFlags) checkFindMax(p *load.Profile) error {
	if f.findMax == "" {
		return nil
	}
	var errs []error
	var err error
	if f.objective, err = parseLoadGates([]string{f.findMax}); err != nil {
		errs = append(errs, fmt.Errorf("--find-max: %w", err))
	}
	for _, flag := range []string{"requests", "ramp", "sine", "bursts", "replay", "gate", "fail-under", "hdr", "drop"} {
		if f.given(flag) {
			errs = append(errs, fmt.Errorf("--find-max and --%s exclude each other", flag))
		}
	}
	if f.output != "text" && f.output != "json" {
		errs = append(errs, fmt.Errorf("--find-max has output text or json, not %s", f.output))
	}
	if f.probes < 1 || f.probes > maxProbes {
		errs = append(errs, fmt.Errorf("--probes %d is not between 1 and %d", f.probes, maxProbes))
	}
	if !f.timed() {
		f.duration.d = defaultProbe
	}
	if !f.given("warmup") {
		p.Warmup = f.duration.d / 4
	}
	return errors.Join(errs...)
}

// capacitySearch is `tare load --find-max`.
type capacitySearch struct{ *CommandLine }

// findMax searches the highest rate at which the objective holds, and prints it. p.Rate is the
// upper limit; 0: that of a closed loop and a quarter.
func (c capacitySearch) findMax(ctx context.Context, p load.Profile, f *loadFlags, run probeFunc) error {
	live := func(format string, args ...any) {
		if console.IsTerminal(c.Err) {
			fmt.Fprintf(c.Err, "\r\x1b[K"+format, args...)
		}
	}
	defer live("")
	found := loadpage.Capacity{Objective: f.findMax, Probes: []loadpage.Probe{}}
	p.Calibrate = 0
	limit := p.Rate
	if limit == 0 {
		live("closed loop, for the upper limit of the search")
		report, err := run(ctx, p)
		if err != nil {
			return err
		}
		if report.Classes[load.OK] == 0 {
			return fmt.Errorf("no request succeeded: %s", causes(report.Result.Failures))
		}
		limit = searchAbove * report.Rate
	}
	search := capacity.New(limit/searchRange, limit, rand.Uint64())
	held, missed, undecided := 0, 0, 0
	for i := 0; i < f.probes && ctx.Err() == nil; i++ {
		p.Rate, p.Seed = search.Next(), uint64(rand.Uint32())
		p.Measure = f.probeLength(p.Rate)
		live("probe %d of %d: %.0f req/s", i+1, f.probes, p.Rate)
		report, err := run(ctx, p)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			break // an interrupted probe
		}
		probe := f.judge(&p, &report)
		found.Probes = append(found.Probes, probe)
		switch {
		case probe.Undecided != "":
			if undecided++; undecided == maxUndecided {
				found.Note = fmt.Sprintf("The search ended after %d undecided probes: %s. Use a quieter machine, --processes, or a lower --rate.", maxUndecided, probe.Undecided)
			}
		case probe.Holds:
			held, undecided = held+1, 0
		default:
			missed, undecided = missed+1, 0
		}
		if found.Note != "" {
			break
		}
		if probe.Undecided == "" {
			search.Observe(p.Rate, probe.Holds)
		}
	}
	if held+missed > 0 {
		found.Low, found.Rate, found.High = search.Interval(0.95)
		switch {
		case missed == 0:
			found.Open = loadpage.OpenAbove
		case held == 0:
			found.Open = loadpage.OpenBelow
		}
	}
	live("")
	if err := c.writeCapacity(&found, f); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case found.Rate == 0 || found.Open == loadpage.OpenBelow:
		return &console.ExitError{Err: fmt.Errorf("no rate was found with %s", f.findMax), Code: console.Gate}
	}
	return nil
}

// probeLength is long enough for the quantiles of the objective.
func (f *loadFlags) probeLength(rate float64) time.Duration {
	length := f.duration.d
	for _, g := range f.objective {
		if q := g.figure.quantile; q > 0 && q < 1 {
			length = max(length, time.Duration(beyondQuantile/(1-q)/rate*float64(time.Second)))
		}
	}
	return min(length, max(longestProbe, f.duration.d))
}

// probeFunc runs one load.
type probeFunc func(context.Context, load.Profile) (load.Report, error)

// judge compares a probe with the objective. A probe with a backlog that grows does not hold,
// whatever the times so far.
func (f *loadFlags) judge(p *load.Profile, r *load.Report) loadpage.Probe {
	probe := loadpage.Probe{Rate: p.Rate, Holds: true, Answered: r.Rate, P50MS: r.ResponseMS.P50, P99MS: r.ResponseMS.P99,
		Seconds: r.MeasureEnd.Sub(r.MeasureStart).Seconds(), Result: r.ResponseMS}
	if r.Result.Success != nil {
		probe.Errors = 1 - *r.Result.Success
	}
	for _, g := range f.objective {
		holds, _, undecided := g.check(r)
		if undecided != "" && !r.Generator.OK && r.Result.Success != nil && r.ResponseMS.Count > 0 {
			probe.Undecided = "the generator was the limit"
		}
		probe.Holds = probe.Holds && holds && undecided == ""
	}
	if growing := float64(r.BacklogEnd - r.BacklogStart); float64(r.Completed) < minAnswered*float64(r.Intended) && growing > math.Sqrt(float64(r.Intended)) {
		probe.Holds = false
	}
	if probe.Holds {
		probe.Undecided = ""
	}
	return probe
}

func (c capacitySearch) writeCapacity(found *loadpage.Capacity, f *loadFlags) error {
	if f.output == "json" {
		return printable.WritingJSON(c.Out, func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(found)
		})
	}
	return loadpage.WriteCapacity(c.Out, found, loadpage.Options{Width: console.Columns(c.Out), Color: console.Color(c.Out)})
}
