package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/show/loadpage"
)

// checksFailed are the kinds of errors of the flags --expect-….
var checksFailed = []struct{ kind, text string }{
	{"wrong status", "had another status than expected"},
	{"wrong body", "had not the body expected"},
	{"not JSON", "were no JSON"},
	{"wrong JSON field", "had not the JSON fields expected"},
}

// neverAccepted are failures that only a gate of errors or success tolerates: they come
// from a wrong address or certificate, not from load.
var neverAccepted = []load.Failure{load.FailureRefused, load.FailureTLS, load.FailureCertificate, load.FailureALPN, load.FailureUpgrade}

// verdict is the command's error: a check or a gate that does not hold, no answer at
// all, or too few successful requests.
func (f *loadFlags) verdict(r *load.Report) error {
	var failed []string
	code := console.Undecided // unless a gate or a check does not hold
	for _, g := range f.gatesOf(r) {
		if !g.Holds {
			failed = append(failed, g.Text)
		}
		if !g.Holds && !g.Undecided {
			code = console.Gate
		}
	}
	for _, c := range checksFailed {
		if n := r.Errors[c.kind]; n > 0 {
			failed, code = append(failed, fmt.Sprintf("%d answers %s", n, c.text)), console.Gate
		}
	}
	if failed == nil {
		return f.answered(r)
	}
	verdict := &console.ExitError{Err: errors.New(strings.Join(failed, "; ")), Code: code}
	if code != console.Undecided {
		return verdict
	}
	return cmp.Or(f.answered(r), error(verdict)) // too few answers may be why a gate is undecided
}

// answered returns an error if no or too few requests were answered with success.
func (f *loadFlags) answered(r *load.Report) error {
	success := r.Result.Success
	switch {
	case r.NoneDue():
		return hint.New("raise --rate or --duration", "no request was due in %v", r.MeasureEnd.Sub(r.MeasureStart).Round(time.Millisecond))
	case success == nil:
		return nil // stopped before the measurement
	case r.Classes[load.OK]+r.Classes[load.Status] == 0:
		err := fmt.Errorf("no request was answered: %s", causes(r.Result.Failures))
		if r.Errors[load.FailureNoDescriptors.String()] > 0 {
			return hint.Wrap(err, "raise the limit of files of a process (ulimit -n), or use fewer connections")
		}
		return err
	case slices.ContainsFunc(f.checkedGates, capacity.Bound.OfFailures):
		return nil
	}
	var refused []load.Cause
	for _, c := range r.Result.Failures {
		for _, k := range neverAccepted {
			if c.Cause == k.String() {
				refused = append(refused, c)
			}
		}
	}
	if refused != nil {
		return fmt.Errorf("%s of %d requests; --gate 'errors < 1%%' would accept fewer than 1 %%", causes(refused), r.Requests)
	}
	return nil
}

// causes lists the causes of failures with their numbers.
func causes(failures []load.Cause) string {
	return strings.Join(printable.Texts(failures, func(c load.Cause) string { return fmt.Sprintf("%s (%d)", c, c.Count) }), ", ")
}

// parseLoadGates reads gates with commas between them.
func parseLoadGates(texts []string) ([]capacity.Bound, error) {
	var gates []capacity.Bound
	for _, text := range texts {
		bounds, err := capacity.ParseBounds(text)
		if err != nil {
			return nil, fmt.Errorf("gate %w", err)
		}
		gates = append(gates, bounds...)
	}
	return gates, nil
}

// gatesOf checks every gate against the report.
func (f *loadFlags) gatesOf(r *load.Report) (checked []loadpage.Gate) {
	figures := r.Figures()
	for _, g := range f.checkedGates {
		var text string
		holds, value, undecided := g.Check(&figures)
		switch {
		case undecided != "":
			text = fmt.Sprintf("gate %q cannot be decided: %s", g.Text, undecided)
		case holds:
			text = fmt.Sprintf("gate %q holds: %s", g.Text, g.Value(value))
		default:
			text = fmt.Sprintf("gate %q does not hold: %s", g.Text, g.Value(value))
		}
		checked = append(checked, loadpage.Gate{Text: text, Holds: holds, Undecided: undecided != ""})
	}
	return checked
}
