package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
)

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
