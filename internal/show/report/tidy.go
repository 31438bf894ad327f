package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
)

// tidyRow is one metric of one trial: the form that data frames want (Wickham,
// "Tidy data", Journal of Statistical Software 2014).
type tidyRow struct {
	trial  *figures.Trial
	metric metric.Metric
	value  float64
}

// writeCSV writes a row a metric a trial. A factor is a column named "factor_" and
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
	err := tidy(r, func(x tidyRow) error {
		row := []string{r.Experiment, x.trial.ID, strconv.Itoa(x.trial.Ordinal), strconv.Itoa(x.trial.Block), x.trial.Treatment}
		for _, f := range factors {
			v, ok := x.trial.Factors[f]
			if !ok {
				row = append(row, "")
				continue
			}
			row = append(row, Level(v))
		}
		row = append(row, strconv.FormatBool(x.trial.Control), strconv.FormatBool(x.trial.Valid), x.metric.Name, x.metric.Unit,
			strconv.FormatFloat(x.value, 'g', -1, 64))
		return c.Write(row)
	})
	c.Flush()
	if err == nil {
		err = c.Error()
	}
	if err != nil {
		return fmt.Errorf("write report as CSV: %w", err)
	}
	return nil
}

// tidy calls row for every known metric of every trial, the invalid ones too.
func tidy(r *answer.Report, row func(tidyRow) error) error {
	for i := range r.Trials {
		t := &r.Trials[i]
		for _, m := range metric.Known(t.Metrics) {
			if err := row(tidyRow{t, m, t.Metrics[m.Name]}); err != nil {
				return err
			}
		}
	}
	return nil
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
