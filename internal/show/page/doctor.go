package page

import (
	"fmt"
	"io"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
)

// Check is one check of tare doctor.
type Check struct {
	Name, Verdict, Detail, Hint string
	Good                        bool // passed, or optional
}

// Doctor is the content of the page of tare doctor.
type Doctor struct {
	Name   string // machine, or experiment
	Checks []Check
	Works  bool     // a run can work
	Shows  []string // sentences on the smallest differences of the A/A run
	AA     *Source  // the A/A run, nil for none
	Text   string   // output of the command
	Tare   string
}

// checksContent is the data of a page without figures.
type checksContent struct {
	head
	Checks bool `json:"checks"`
}

// WriteDoctor writes the page of tare doctor: its checks, and the figures of the A/A run.
func WriteDoctor(w io.Writer, x Doctor) error {
	passed := 0
	d := document{Name: "tare doctor: " + x.Name, Tare: x.Tare, Schema: "the checks of tare doctor", Command: "tare doctor", OpenText: x.AA == nil}
	for _, c := range x.Checks {
		if c.Good {
			passed++
		} else {
			d.Warnings = append(d.Warnings, warning{Code: c.Name, Count: c.Verdict, Message: c.Detail, Hint: c.Hint})
		}
		d.Provenance = append(d.Provenance, entry{Name: c.Name, Text: joined(c.Verdict, c.Detail)})
	}
	d.Headline = "Runs work here."
	switch {
	case !x.Works:
		d.Headline = "A run cannot work here."
	case passed < len(x.Checks):
		d.Headline = fmt.Sprintf("Runs work here; %s would make their figures less certain.", printable.Counted(len(x.Checks)-passed, "warning"))
	}
	d.Answer = append([]string{d.Headline}, x.Shows...)
	d.Band = []card{{Good: x.Works, Title: fmt.Sprintf("%d of %s passed", passed, printable.Counted(len(x.Checks), "check")), Text: "the others with causes and fixes", Link: "#warnings"}}
	if passed == len(x.Checks) {
		d.Band[0].Text, d.Band[0].Link = "nothing needs attention", ""
	}
	var content any = checksContent{headOf("doctor"), true}
	if x.AA != nil {
		d.Schema = answer.Schema
		d.Band = append(d.Band, band(*x.AA)...)
		d.Warnings = append(d.Warnings, warnings(x.AA.Report)...)
		for _, e := range provenance(*x.AA) {
			if e.Name != "Results" && e.Name != "Repeat with" { // the results are removed
				d.Provenance = append(d.Provenance, e)
			}
		}
		content = contentOf(*x.AA)
	}
	return d.fill(w, content, func(w io.Writer) error {
		_, err := io.WriteString(w, x.Text)
		return err
	})
}
