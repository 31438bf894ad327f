package serve

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result"
)

// row is a run in the list.
type row struct {
	run
	summary
	Link, LiveLink string
	Complete       bool // the summary is made
	Ended          bool
	Good           bool   // every trial is used, and every gate holds
	State          string // in one word
	Verdict        string
	History        string // points of a sparkline, empty with fewer than two runs
	HistoryWords   string
}

// listing is the input of the list's page.
type listing struct {
	Rows             []row
	All              int
	Pending          int
	Meshes, Machines []string
	Query            filter
}

// filter is a search of the reader.
type filter struct{ Text, Mesh, Machine string }

func filterOf(q url.Values) filter {
	return filter{strings.TrimSpace(q.Get("q")), q.Get("mesh"), q.Get("machine")}
}

func (f filter) keeps(r row) bool {
	if f.Mesh != "" && !slices.Contains(r.Meshes, f.Mesh) || f.Machine != "" && r.Machine != f.Machine {
		return false
	}
	text := strings.ToLower(strings.Join([]string{r.ID, r.Experiment, r.Machine, r.Answer, strings.Join(r.Meshes, " ")}, " "))
	for word := range strings.FieldsSeq(strings.ToLower(f.Text)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	runs, err := s.index.runs()
	if err != nil {
		return err
	}
	l := listing{All: len(runs), Query: filterOf(r.URL.Query())}
	meshes, machines := map[string]bool{}, map[string]bool{}
	var rows []row
	for _, of := range runs {
		x := s.row(of)
		if !x.Complete {
			l.Pending++
		}
		for _, m := range x.Meshes {
			meshes[m] = true
		}
		machines[x.Machine] = true
		rows = append(rows, x)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return b.Began.Compare(a.Began) }) // the newest first
	histories(rows)
	for _, x := range rows {
		if l.Query.keeps(x) {
			l.Rows = append(l.Rows, x)
		}
	}
	delete(machines, "")
	l.Meshes, l.Machines = slices.Sorted(maps.Keys(meshes)), slices.Sorted(maps.Keys(machines))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	return layouts.ExecuteTemplate(w, "list.html", l)
}

// States of a run. Finished is one with every trial of its plan.
const (
	running     = "running"
	interrupted = "interrupted"
	finished    = "finished"
)

func (s *Server) row(of run) row {
	sum, complete, ended := s.summaries.summaryOf(of)
	link := (&url.URL{Path: of.ID}).EscapedPath()
	x := row{run: of, summary: sum, Link: "/run/" + link, LiveLink: "/live/" + link, Complete: complete, Ended: ended}
	switch x.State = finished; {
	case !ended && result.Writing(of.root.Root, of.name):
		x.State = running
	case !ended, sum.Missing > 0:
		x.State = interrupted
	}
	switch {
	case sum.Error != "":
		x.State = "unreadable"
		x.Verdict = "cannot be read: " + sum.Error
	case !ended:
		x.Verdict = map[string]string{running: "more trials follow", interrupted: "tare run --resume continues it"}[x.State]
	case !complete:
		x.Verdict = "…"
	case sum.Used == sum.Planned:
		x.Good, x.Verdict = sum.Decided == "" || sum.Decided == compare.Holds, "all "+printable.Counted(sum.Planned, "trial")+" valid"
	default:
		x.Verdict = fmt.Sprintf("%d of %s used", sum.Used, printable.Counted(sum.Planned, "trial"))
	}
	if x.Complete && x.Ended && sum.Gates != "" {
		x.Verdict = sum.Gates + "; " + x.Verdict
	}
	if x.Complete && x.Ended && sum.Warnings > 0 {
		x.Verdict += ", " + printable.Counted(sum.Warnings, "warning")
	}
	return x
}

const (
	sparkWidth, sparkHeight = 96.0, 20.0
	mostHistory             = 30 // runs in a sparkline
)

// histories adds to each row the headline of the runs of the same experiment on the same machine, up to
// this run. rows are sorted, newest first.
func histories(rows []row) {
	type series struct{ experiment, machine, metric string }
	soFar := map[series][]float64{}
	for i := len(rows) - 1; i >= 0; i-- {
		x := &rows[i]
		if x.Headline == nil {
			continue
		}
		of := series{x.Experiment, x.Machine, x.Metric}
		soFar[of] = append(soFar[of], *x.Headline)
		if values := soFar[of]; len(values) > 1 {
			values = values[max(0, len(values)-mostHistory):]
			x.History = sparkline(values)
			x.HistoryWords = fmt.Sprintf("%s, %s: %.4g to %.4g %s", x.Metric, printable.Counted(len(values), "run"), values[0], values[len(values)-1], x.Unit)
		}
	}
}

// sparkline are the points of a polyline, from zero at the bottom where all are positive.
func sparkline(values []float64) string {
	low, high := min(0, slices.Min(values)), max(0, slices.Max(values))
	if high == low {
		high = low + 1
	}
	var points []string
	for i, v := range values {
		points = append(points, fmt.Sprintf("%.1f,%.1f", 1+float64(i)/float64(len(values)-1)*(sparkWidth-2), 1+(high-v)/(high-low)*(sparkHeight-2)))
	}
	return strings.Join(points, " ")
}
