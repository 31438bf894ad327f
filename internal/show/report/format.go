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
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
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

// unknown replaces an unknown figure, none a nonexistent one.
const (
	unknown = "?"
	none    = "–"
)

// mostDigits bounds the significant digits of an estimate however narrow its interval is.
const mostDigits = 6

// figure writes an estimate with the half-width of its interval: "142.1 ±2.9".
// A constant figure over all trials has no interval.
func figure(i stats.Interval, scale float64, constant bool) string {
	half, known := i.HalfWidth()
	estimate, half := i.Estimate*scale, half*scale
	d := distinct(estimate, half, known)
	switch {
	case estimate == 0 && !known:
		return "0"
	case constant:
		return fixed(estimate, d)
	case !known:
		return fixed(estimate, d) + " ±" + unknown
	}
	return fixed(estimate, d) + " " + plusMinus(half, d)
}

// plusMinus writes half of an interval: "±2.9".
func plusMinus(half float64, d int) string {
	if s := fixed(half, d); s != fixed(0, d) {
		return "±" + s
	}
	return "±<" + fixed(math.Pow10(-d), d)
}

// bounds writes half of an interval, "±2.9", or its ends, "+139.2 to +145.0", if the estimate is not in the middle. It is
// "" if there is none.
func bounds(i stats.Interval, scale float64, write func(float64, int) string) string {
	half, known := i.HalfWidth()
	if !known {
		return ""
	}
	estimate, half := i.Estimate*scale, half*scale
	if symmetric(i) {
		return plusMinus(half, distinct(estimate, half, true))
	}
	d := apartFrom(0, *i.Low*scale, *i.High*scale, decimals(estimate, half, known))
	return write(*i.Low*scale, d) + " to " + write(*i.High*scale, d)
}

// symmetric reports whether the estimate is in the middle of its interval, but for rounding.
func symmetric(i stats.Interval) bool {
	return math.Abs(2*i.Estimate-*i.Low-*i.High) <= (*i.High-*i.Low)/500
}

// distinct is the number of decimals of an estimate and half of its interval with which the two differ: the
// interval looks as if it contained zero only if it does.
func distinct(estimate, half float64, known bool) int {
	d := decimals(estimate, half, known)
	for estimate = math.Abs(estimate); known && d < 9 && estimate != half && fixed(estimate, d) == fixed(half, d) && fixed(half, d) != fixed(0, d); {
		d++
	}
	return d
}

// difference writes "+142.1" with the digits its interval allows.
func difference(i stats.Interval, scale float64) string {
	half, known := i.HalfWidth()
	if i.Estimate == 0 && !known {
		return "0"
	}
	d := decimals(i.Estimate*scale, half*scale, known)
	if known && symmetric(i) {
		d = distinct(i.Estimate*scale, half*scale, known)
	}
	return signed(i.Estimate*scale, d)
}

// signed is fixed with its sign, except for zero.
func signed(v float64, d int) string {
	s := fixed(v, d)
	switch {
	case strings.Trim(s, "-0.") == "":
		return strings.TrimPrefix(s, "-")
	case v > 0:
		return "+" + s
	}
	return s
}

// ratio writes "3.76x".
func ratio(i stats.Interval) string {
	half, known := i.HalfWidth()
	return nonzero(i.Estimate, decimals(i.Estimate, half, known)) + "x"
}

// ratioBounds writes the interval of a ratio, "3.61 to 3.92". Each end has its own digits. The half-width of a wide interval would round a
// small end to 0, or to 1, which means no difference.
func ratioBounds(i stats.Interval) string {
	half, known := i.HalfWidth()
	if !known {
		return ""
	}
	d := decimals(i.Estimate, half, known)
	end := func(v float64) string { return nonzero(v, apartFrom(1, v, v, d)) }
	return end(*i.Low) + " to " + end(*i.High)
}

// ratioWithin writes a ratio with its interval: "3.76x (3.61 to 3.92)".
func ratioWithin(i stats.Interval) string {
	if between := ratioBounds(i); between != "" {
		return ratio(i) + " (" + between + ")"
	}
	return ratio(i)
}

// apartFrom is the number of decimals, d or more, with which an interval that excludes a value does not end at it.
func apartFrom(value, low, high float64, d int) int {
	end := low
	if high < value {
		end = high
	}
	for low > value || high < value {
		if d >= 9 || fixed(end, d) != fixed(value, d) {
			break
		}
		d++
	}
	return d
}

// decimals is the number that shows two digits of the uncertainty, the usual rule (JCGM 100:2008, 7.2.6), and of an
// estimate without one three digits. Below zero it is the number of zeros: -2 for hundreds.
func decimals(estimate, half float64, known bool) int {
	d := max(0, 2-magnitude(estimate))
	if known && half > 0 {
		d = min(1-magnitude(half), max(0, mostDigits-1-magnitude(estimate)))
	}
	return min(d, 9)
}

// nonzero writes v with d decimals, or with as many as show two of its digits.
func nonzero(v float64, d int) string {
	if d = max(d, 1-magnitude(v)); v == 0 {
		d = 0
	}
	if d > 9 {
		return strconv.FormatFloat(v, 'e', 1, 64)
	}
	return fixed(v, d)
}

// rough writes two digits, for an estimate of noise.
func rough(v float64) string {
	return fixed(v, max(0, 1-magnitude(v)))
}

// apart writes two numbers with two digits, or with as many as show that they differ, up to four.
func apart(v, w float64) (string, string) {
	for digits := 1; ; digits++ {
		a, b := fixed(v, max(wholeDigits(v), digits-magnitude(v))), fixed(w, max(wholeDigits(w), digits-magnitude(w)))
		if a != b || digits == 3 {
			return a, b
		}
	}
}

// wholeDigits is the number of decimals with which the first three digits of a number of thousands are whole: -1 for 1230.
func wholeDigits(v float64) int { return min(0, 2-magnitude(v)) }

// between writes an estimate and the ends of its interval with the digits that the interval allows, and at most a number of
// decimals: "142 MiB (139 to 146)".
func between(estimate, low, high float64, unit string, most int) string {
	d := min(most, decimals(estimate, (high-low)/2, high > low))
	return fmt.Sprintf("%s%s (%s to %s)", fixed(estimate, d), unit, fixed(low, d), fixed(high, d))
}

// magnitude is the decimal exponent of the first digit of v, or 0 for zero.
func magnitude(v float64) int {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return int(math.Floor(math.Log10(math.Abs(v))))
}

// fixed writes v with d decimals, or d zeros if it is negative, and no negative zero.
func fixed(v float64, d int) string {
	if d < 0 {
		step := math.Pow10(-d)
		v, d = math.Round(v/step)*step, 0
	}
	s := strconv.FormatFloat(v, 'f', d, 64)
	if v < 0 {
		if zero := strconv.FormatFloat(0, 'f', d, 64); s == "-"+zero {
			return zero
		}
	}
	return s
}
