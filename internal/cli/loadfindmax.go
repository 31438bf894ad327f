package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/show/loadpage"
)

// Of a search for the highest rate.
const (
	defaultProbe = 2 * time.Second
	probes       = 20
)

// checkFindMax refuses what contradicts a search.
func (f *loadFlags) checkFindMax(p *load.Profile) error {
	if f.findMax == "" {
		return nil
	}
	var errs []error
	if _, err := capacity.ParseBounds(f.findMax); err != nil {
		errs = append(errs, fmt.Errorf("--find-max: %w", err))
	}
	for _, flag := range []string{"requests", "ramp", "gate"} {
		if f.changed(flag) {
			errs = append(errs, fmt.Errorf("--find-max and --%s exclude each other", flag))
		}
	}
	if f.output != "text" && f.output != "json" {
		errs = append(errs, fmt.Errorf("--find-max has output text or json, not %s", f.output))
	}
	if !f.timed() {
		f.duration.d = defaultProbe
	}
	if !f.changed("warmup") {
		p.Warmup = f.duration.d / 4
	}
	return errors.Join(errs...)
}

// capacitySearch is `tare load --find-max`.
type capacitySearch struct{ *CommandLine }

type probeFunc func(context.Context, load.Profile) (load.Report, error)

// findMax searches the highest rate at which the objective holds, and prints it. p.Rate is the
// upper limit. 0 means 1.25 times the rate of a closed loop.
func (c capacitySearch) findMax(ctx context.Context, p load.Profile, f *loadFlags, run probeFunc) error {
	live := func(format string, args ...any) {
		if console.IsTerminal(c.Err) {
			fmt.Fprint(c.Err, "\r\x1b[K"+ansi.Truncate(fmt.Sprintf(format, args...), cmp.Or(console.Width(c.Err), defaultWidth)-1, "…"))
		}
	}
	defer live("")
	var times []load.Quantiles                // of each probe
	seeds := rand.New(rand.NewPCG(p.Seed, 0)) // so that one seed repeats the search
	one := func(ctx context.Context, rate float64, length time.Duration) (capacity.Figures, error) {
		p := p
		p.Rate, p.Measure = rate, length
		if rate == 0 {
			live("closed loop, for the upper limit of the search")
		} else {
			left := time.Duration(probes-len(times)) * (length + p.Warmup)
			live("probe %d of %d: %.0f req/s  %v left", len(times)+1, probes, rate, left.Round(time.Second))
			p.Seed = uint64(seeds.Uint32())
		}
		r, err := run(ctx, p)
		switch {
		case err != nil:
			return capacity.Figures{}, err
		case rate != 0:
			times = append(times, r.ResponseMS)
		case r.Classes[load.OK] == 0 && ctx.Err() == nil:
			return capacity.Figures{}, fmt.Errorf("no request succeeded: %s", causes(r.Result.Failures))
		}
		return r.Figures(), nil
	}
	found, err := capacity.Find(ctx, capacity.Options{Objective: f.findMax, Limit: p.Rate, Probes: probes, Length: f.duration.d, Seed: p.Seed}, one)
	live("")
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w after %s of %d, too few for a rate", context.Canceled, printable.Counted(len(times), "probe"), probes)
	}
	if err != nil {
		return err
	}
	if found.Note != "" {
		found.Note += " Use a quieter machine, more --workers, or a lower --rate."
	}
	var ended error
	switch {
	case ctx.Err() != nil:
		ended = context.Cause(ctx)
	case found.Rate == 0:
		ended = &console.ExitError{Err: fmt.Errorf("no rate could be decided: the server was not tested"), Code: console.Undecided}
	case found.Open == capacity.OpenBelow:
		ended = &console.ExitError{Err: fmt.Errorf("no rate meets %s", f.findMax), Code: console.Gate}
	}
	return cmp.Or(c.writeCapacity(loadpage.CapacityOf(found, times), p.Targets, f, console.Code(ended)), ended)
}

// defaultWidth is the assumed width of a terminal that does not report it, in columns.
const defaultWidth = 80

func (c capacitySearch) writeCapacity(found *loadpage.Capacity, targets []string, f *loadFlags, exit int) error {
	if f.output == "json" {
		b := found.Brief(exit)
		b.Subject = withoutQueries(targets)
		return answered(c.Out, b, found)
	}
	return loadpage.WriteCapacity(c.Out, found, loadpage.Options{Width: console.Columns(c.Out), Color: console.Color(c.Out)})
}

// withoutQueries are the URLs for a page that may be sent to others: a query or a user may be a secret.
func withoutQueries(targets []string) string {
	var all []string
	for _, t := range targets {
		u, err := url.Parse(t)
		if err != nil {
			continue
		}
		u.RawQuery, u.Fragment, u.User = "", "", nil
		all = append(all, u.String())
	}
	return printable.Listed(all, mostTargets)
}

// mostTargets are named in the page of a search.
const mostTargets = 5
