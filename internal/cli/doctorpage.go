package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/cli/health"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/page"
)

// examination gathers what tare doctor finds, for its page. Nil means no page.
type examination struct {
	page.Doctor
	html bytes.Buffer
	made bool // html has the page, with the figures of the A/A run
}

func (x *examination) checked(rows []health.Row) {
	if x == nil {
		return
	}
	x.Works = !slices.ContainsFunc(rows, func(r health.Row) bool { return r.Verdict == health.Fail })
	for _, r := range rows {
		x.Checks = append(x.Checks, page.Check{Name: r.Name, Verdict: r.Verdict.String(), Detail: r.Detail, Hint: r.Hint, Good: r.Verdict == health.OK || r.Verdict == health.Absent})
	}
}

// examiner examines a machine and what an experiment needs.
type examiner struct{ *CommandLine }

// withPage runs the checks, and writes their page to a file, also if a run cannot work. Without a file it only runs them.
func (c examiner) withPage(file outfile.File, s *session.Study, examine func(*examination) error) error {
	if file == "" {
		return examine(nil)
	}
	name, err := os.Hostname()
	if err != nil {
		name = "this machine"
	}
	if s != nil {
		name = s.Experiment.Metadata.Name + " on " + name
	}
	x := &examination{Doctor: page.Doctor{Name: name, Tare: console.Version()}}
	var text bytes.Buffer
	out := c.Out
	c.Out = io.MultiWriter(out, &text)
	found := examine(x)
	c.Out = out
	if len(x.Checks) == 0 {
		return found // interrupted, or not begun
	}
	if !x.made {
		x.Text = text.String()
		if err := page.WriteDoctor(&x.html, x.Doctor); err != nil {
			return errors.Join(found, err)
		}
	}
	if err := outfile.WriteFile(string(file), x.html.Bytes(), 0o644); err != nil {
		return errors.Join(found, err)
	}
	fmt.Fprintf(c.Err, "\nPage: %s\n", file)
	return found
}

// against makes the page while the results of the A/A run exist.
func (x *examination) against(aa page.Source, shows []string, text string) error {
	if x == nil {
		return nil
	}
	x.AA, x.Shows, x.Text, x.made = &aa, shows, text, true
	return page.WriteDoctor(&x.html, x.Doctor)
}
