// Package report writes an [answer.Report] for people and for programs. A
// format is an entry of the table [Formats] returns. To add one, write its file
// and its line.
package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
)

// Format is one way to write a report.
type Format struct {
	Name  string
	Doc   string // one phrase
	Write func(io.Writer, *answer.Report) error
	// WriteRun is Write for a format that shows more of the run than its report, and nil for others.
	WriteRun func(io.Writer, answer.Analysis) error
	// Export writes many files into an existing, empty directory. Then Write is nil.
	// It may read results that the report omits.
	Export func(dir string, a answer.Analysis) error
}

// WriteTo writes the report of a run in a format without Export.
func (f Format) WriteTo(w io.Writer, a answer.Analysis) error {
	if f.WriteRun != nil {
		return f.WriteRun(w, a)
	}
	return f.Write(w, a.Report)
}

// Options of the formats.
type Options struct {
	// All shows every metric, not only the headline ones.
	All bool
	// Metric is a pattern of metrics, see [metric.Matches]: only they are shown. Empty: the headline ones.
	Metric string
	// Width of the terminal in columns. 0 means as wide as the lines are.
	Width int
	// Color: bold headings and results, by ANSI escape sequences.
	Color bool
	// ExitCode of the command, for the answer of JSON.
	ExitCode int
}

// Formats lists every format, in the order of help. The first is the default.
func Formats(o Options) []Format {
	all := []Format{
		{Name: "text", Doc: "a table for the terminal", Write: func(w io.Writer, r *answer.Report) error { return writeText(w, r, o) }},
		{Name: "json", Doc: "everything, schema " + answer.Schema, Write: func(w io.Writer, r *answer.Report) error { return writeReport(w, r, o.ExitCode) }},
		{Name: "markdown", Doc: "the text as GitHub-flavoured Markdown", Write: func(w io.Writer, r *answer.Report) error { return writeMarkdown(w, r, o) }},
		{Name: "decision", Doc: "the gates of tare ab and what differs, in a few lines", Write: func(w io.Writer, r *answer.Report) error { return writeDecision(w, r, o) }},
		{Name: "comment", Doc: "the gates as a comment on a pull request, in Markdown", Write: writeComment},
		{Name: "junit", Doc: "the gates as JUnit XML: a test case each", Write: writeJUnit},
		{Name: "csv", Doc: "tidy: one row per metric and trial", Write: writeCSV},
	}
	for i, f := range all {
		if f.Write != nil && !(f.Name == "text" && o.Color) { // whose lines are without controls before they get a style
			all[i].Write = printable.Safe(f.Name, f.Write)
		}
	}
	if text := all[0].Write; o.All && o.Metric == "" {
		all[0].WriteRun = func(w io.Writer, a answer.Analysis) error {
			if err := text(w, a.Report); err != nil {
				return err
			}
			return writeNamespaces(w, a)
		}
	}
	return all
}

// Form is one way to write a T other than the report of a run: a comparison of runs, a plan.
type Form[T any] struct {
	Name, Doc string // Doc is one phrase
	Write     func(io.Writer, T) error
}

// Safe returns the forms with control characters removed from their output.
func Safe[T any](all ...Form[T]) []Form[T] {
	for i, f := range all {
		all[i].Write = printable.Safe(f.Name, f.Write)
	}
	return all
}

// Names lists the names of forms.
func Names[T any](all []Form[T]) []string {
	return lists.Map(all, func(f Form[T]) string { return f.Name })
}

// Write writes v in the form with a name. The name is one of [Names].
func Write[T any](w io.Writer, v T, all []Form[T], name string) error {
	i := slices.IndexFunc(all, func(f Form[T]) bool { return f.Name == name })
	return all[i].Write(w, v)
}

// writeReport is the JSON format of a report, with its answer and the claims that the other formats have.
func writeReport(w io.Writer, r *answer.Report, exit int) error {
	return writeJSON(w, struct {
		Answer answer.Brief `json:"answer"`
		*answer.Report
		Claims []Claim `json:"claims"`
	}{BriefOf(r, exit), r, Claims(r)})
}

// writeJSON is the JSON format of everything that this package writes.
func writeJSON[T any](w io.Writer, v T) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write as JSON: %w", err)
	}
	return nil
}

// writeCSV writes a row for every known metric of every trial, the invalid ones too: the form that data frames want
// (Wickham, "Tidy data", Journal of Statistical Software 2014). A factor is a column named "factor_" and
// the factor's name. A missing factor and an unknown value are empty.
func writeCSV(w io.Writer, r *answer.Report) error {
	factors := factorNames(r)
	head := []string{"experiment", "trial", "ordinal", "block", "treatment"}
	for _, f := range factors {
		head = append(head, "factor_"+f)
	}
	head = append(head, "control", "valid", "metric", "unit", "value")
	c := csv.NewWriter(w)
	if err := c.Write(head); err != nil {
		return fmt.Errorf("write report as CSV: %w", err)
	}
	for _, t := range r.Trials {
		for _, m := range metric.Known(t.Metrics) {
			row := []string{noFormula(r.Experiment), noFormula(t.ID), strconv.Itoa(t.Ordinal), strconv.Itoa(t.Block), noFormula(t.Treatment)}
			for _, f := range factors {
				level := ""
				if v, ok := t.Factors[f]; ok {
					level = noFormula(Level(v))
				}
				row = append(row, level)
			}
			row = append(row, strconv.FormatBool(t.Control), strconv.FormatBool(t.Valid), m.Name, m.Unit, strconv.FormatFloat(t.Metrics[m.Name], 'g', -1, 64))
			if err := c.Write(row); err != nil {
				return fmt.Errorf("write report as CSV: %w", err)
			}
		}
	}
	c.Flush()
	if err := c.Error(); err != nil {
		return fmt.Errorf("write report as CSV: %w", err)
	}
	return nil
}

// noFormula is a text that no spreadsheet takes for a formula: others name experiments and levels.
func noFormula(text string) string {
	if _, err := strconv.ParseFloat(text, 64); err != nil && text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// factorNames are all factors of the report but the A/A mark, in the order of labels.
func factorNames(r *answer.Report) []string {
	names := map[string]bool{}
	for _, t := range r.Treatments {
		for f := range t.Factors {
			names[f] = true
		}
	}
	delete(names, plan.ControlFactor)
	return slices.SortedFunc(maps.Keys(names), byRank)
}
