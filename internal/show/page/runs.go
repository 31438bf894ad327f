package page

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/show/report"
)

// runsContent is the data of the figure of many runs of one experiment.
type runsContent struct {
	head
	Runs runs `json:"runs"`
}

type runs struct {
	Confidence float64              `json:"confidence"`
	Metrics    []report.MetricWords `json:"metrics"`
	Treatments []runsTreatment      `json:"treatments"`
	List       []oneRun             `json:"list"`
}

type runsTreatment struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// oneRun is a run with its differences, in the metrics' own units.
type oneRun struct {
	Name        string          `json:"name"` // of the directory
	Began       time.Time       `json:"began"`
	Differences []runDifference `json:"differences"`
}

type runDifference struct {
	Metric    string   `json:"metric"`
	Treatment string   `json:"treatment"`
	Control   bool     `json:"control,omitempty"`
	Estimate  float64  `json:"estimate"`
	Low       *float64 `json:"low,omitempty"`
	High      *float64 `json:"high,omitempty"`
	Text      string   `json:"text"` // as reports print it
	Verdict   string   `json:"verdict"`
}

// RunsData are the data of the figure of many runs as JSON, for the scripts.
func RunsData(all []Source) ([]byte, error) {
	all, err := sortedRuns(all)
	if err != nil {
		return nil, err
	}
	return dataOf(runsContent{headOf(all[0].Report.Experiment), runsOf(all)})
}

// WriteRuns writes the page of many runs of one experiment.
func WriteRuns(w io.Writer, all []Source) error {
	all, err := sortedRuns(all)
	if err != nil {
		return err
	}
	c := runsContent{headOf(all[0].Report.Experiment), runsOf(all)}
	first, last := all[0], all[len(all)-1]
	d := document{Name: first.Report.Experiment, Description: strings.Join(strings.Fields(first.Report.Description), " "), Tare: last.Report.Setup.Tare, Schema: answer.Schema}
	used, planned := 0, 0
	machines := map[string]bool{}
	for i, s := range all {
		n := s.Report.Count
		used, planned = used+n.Used, planned+n.Planned
		machines[joined(s.Report.Setup.CPUModel, s.Report.Setup.Kernel)] = true
		text := fmt.Sprintf("%s, %d of %s used", c.Runs.List[i].Began.Format("2 January 2006 15:04 MST"), n.Used, printable.Counted(n.Planned, "trial"))
		d.Answer = append(d.Answer, c.Runs.List[i].Name+": "+append(report.Answer(s.Report), report.Unanswered(s.Report))[0])
		d.Provenance = append(d.Provenance, entry{Name: c.Runs.List[i].Name, Text: text})
	}
	d.Headline, d.Warnings = d.Answer[0], c.Runs.warnings(all)
	d.Band = []card{
		{Good: true, Title: printable.Counted(len(all), "run"), Text: days(c.Runs.List[0].Began, c.Runs.List[len(all)-1].Began)},
		{Good: used == planned, Title: fmt.Sprintf("%d of %s used", used, printable.Counted(planned, "trial")), Text: "of all runs"},
		{Good: len(machines) == 1, Title: printable.Counted(len(machines), "machine"), Text: "by processor and kernel"},
		warningCard(len(d.Warnings)),
	}
	return d.fill(w, c, func(w io.Writer) error {
		for i, s := range all {
			if _, err := fmt.Fprintf(w, "%s\n\n", c.Runs.List[i].Name); err != nil {
				return err
			}
			if err := report.WriteText(w, s.Report, report.Options{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// sortedRuns are runs of one experiment in order of time.
func sortedRuns(all []Source) ([]Source, error) {
	if len(all) == 0 {
		return nil, errors.New("no runs")
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Source) int { return a.Dir.Environment().Time.Compare(b.Dir.Environment().Time) })
	for _, s := range all[1:] {
		if s.Report.Experiment != all[0].Report.Experiment {
			return nil, hint.New("give runs of one experiment, or compare two: tare compare BASE NEW", "the runs are of different experiments: %s is of %q, %s of %q",
				all[0].Dir.Path(), all[0].Report.Experiment, s.Dir.Path(), s.Report.Experiment)
		}
	}
	return all, nil
}

func runsOf(all []Source) runs {
	var c runs
	shown, known := metric.Shown(), map[string]report.MetricWords{}
	for _, s := range all {
		words := report.WordsOf(s.Report)
		c.Confidence = s.Report.Confidence
		of := oneRun{Name: filepath.Base(s.Dir.Path()), Began: s.Dir.Environment().Time.UTC(), Differences: []runDifference{}}
		for _, m := range words.Metrics {
			known[m.Name] = m
		}
		for i, x := range s.Report.Comparisons {
			if x.Difference == nil || !slices.Contains(shown, x.Metric) {
				continue
			}
			w := words.Comparisons[i]
			of.Differences = append(of.Differences, runDifference{x.Metric, x.Treatment, x.Control, x.Difference.Estimate, x.Difference.Low, x.Difference.High,
				w.Both(), w.Verdict})
			if !x.Control && !slices.ContainsFunc(c.Treatments, func(t runsTreatment) bool { return t.ID == x.Treatment }) {
				c.Treatments = append(c.Treatments, runsTreatment{x.Treatment, words.Names[x.Treatment]})
			}
		}
		c.List = append(c.List, of)
	}
	for _, name := range shown { // the headline first
		if m, ok := known[name]; ok {
			c.Metrics = append(c.Metrics, m)
		}
	}
	return c
}

// warnings returns the warnings of the runs, one of each code with the first run that has it.
func (c runs) warnings(of []Source) (all []warning) {
	for i, s := range of {
		for _, x := range warnings(s.Report) {
			if !slices.ContainsFunc(all, func(w warning) bool { return w.Code == x.Code }) {
				x.Count = c.List[i].Name
				all = append(all, x)
			}
		}
	}
	return all
}
