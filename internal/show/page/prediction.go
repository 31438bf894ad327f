package page

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/show/report"
)

// Prediction is the content of the page of tare size and tare forecast.
type Prediction struct {
	Name   string
	Parts  []Part
	Curves []Curve
	Steps  []report.NextRun
	Facts  []report.Fact // provenance
	Text   func(io.Writer) error

	Tare, Schema, Command string
}

// Part is a titled list of facts, such as one proxy with its requests, limits and price, and a table or nil.
type Part struct {
	Title string
	Facts []report.Fact
	Table *report.TextTable
}

// mostFacts are the first facts of a part, its costs, that its sentence has.
const mostFacts = 3

// sentence is the part in short.
func (p Part) sentence() string {
	facts := p.Facts[:min(len(p.Facts), mostFacts)]
	return p.Title + ": " + strings.Join(lists.Map(facts, func(f report.Fact) string { return f.Name + " " + f.Text }), "; ") + "."
}

// Curve is the figure of a cost over one axis.
type Curve struct {
	Title  string       `json:"title"`
	X      string       `json:"x"` // name of the axis, with its unit
	Y      string       `json:"y"` // name of the cost, with its unit
	Points [][2]float64 `json:"points"`
	Line   []Band       `json:"line"`
	Wanted []Band       `json:"wanted,omitempty"` // the places that were asked for
	About  string       `json:"about"`            // the reason of its form

	Unlinked bool `json:"unlinked,omitempty"` // it is not in the contents of the page
}

// Band is a cost at a place: the mean with its interval, and the interval of one more deployment.
type Band struct {
	Name     string  `json:"name,omitempty"` // of a wanted place, if there are several
	X        float64 `json:"x"`
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	NewLow   float64 `json:"newLow"`
	NewHigh  float64 `json:"newHigh"`
}

// predictionContent is the data of its figures.
type predictionContent struct {
	head
	Curves []Curve `json:"curves"`
}

// WritePrediction writes the page of a prediction.
func WritePrediction(w io.Writer, p Prediction) error {
	sentences := lists.Map(p.Parts, Part.sentence)
	d := document{Name: p.Name, Headline: sentences[0], Answer: sentences, Parts: p.Parts, Steps: p.Steps, Tare: p.Tare, Schema: p.Schema, Command: p.Command, OpenText: len(p.Curves) == 0}
	for _, f := range p.Facts {
		d.Provenance = append(d.Provenance, entry{Name: f.Name, Text: f.Text})
	}
	return d.fill(w, predictionContent{headOf(p.Name), p.Curves}, p.Text)
}

// mostLinked is the largest number of curves in the contents. With more, only curves of CPU are there.
const mostLinked = 6

// WriteForecasts writes the page of tare forecast.
func WriteForecasts(w io.Writer, f report.Forecasts, tare string) error {
	p := Prediction{
		Name: "tare forecast", Tare: tare, Schema: f.Schema, Command: "tare forecast", Steps: f.Next,
		Text: func(w io.Writer) error { return report.ForecastsForms()[0].Write(w, f) },
	}
	for _, x := range f.Forecasts {
		part := Part{Title: report.ForecastFor(f, x), Facts: report.ForecastFacts(f, x)}
		if table := report.ForecastServices(x); len(table.Rows) > 0 {
			part.Table = &table
		}
		p.Parts = append(p.Parts, part)
		for _, u := range x.Curves {
			drawn := usedCurve(u)
			drawn.Unlinked = len(x.Curves) > mostLinked && u.Kind != predict.CPU
			if len(f.Forecasts) > 1 {
				drawn.Title = x.Mesh + ", " + drawn.Title
			}
			p.Curves = append(p.Curves, drawn)
		}
		if x.Refused != "" {
			continue
		}
		p.Facts = append(p.Facts, report.Fact{Name: "Results of " + x.Mesh, Text: strings.Join(x.From, ", ")})
	}
	return WritePrediction(w, p)
}

// usedCurve draws a curve at the sizes of messages of its busiest place, with the services on it.
func usedCurve(u predict.Used) Curve {
	unit, scale := "CPU, millicores", 1000.0
	switch u.Kind {
	case predict.Memory:
		unit, scale = "Memory, MiB", 1
	case predict.Latency:
		unit, scale = "Share of the median response, ms", 1
	}
	busiest := u.Places[0]
	for _, p := range u.Places {
		if p.Rate > busiest.Rate {
			busiest = p
		}
	}
	drawn := drawnCurve(u.Curve, busiest.At, unit, scale)
	drawn.Title = u.Of + ", " + u.Protocol
	for i, axis := range u.Curve.Axes[1:] {
		if axis.Levels > 1 {
			drawn.Title += fmt.Sprintf(", %s %s", axis.Name, report.LevelWords(axis.Name, busiest.At[i+1]))
		}
	}
	for _, p := range u.Places {
		b := bandOf(p.At[0], p.Band, scale)
		b.Name = p.Service
		if u.Curve.Axes[0].Name == experiment.RateFactor && p.Rate > 0 && p.Rate < p.At[0] {
			b.Name += fmt.Sprintf(", whose %.3g requests per second are below the curve", p.Rate)
		}
		drawn.Wanted = append(drawn.Wanted, b)
	}
	return drawn
}

// WriteSizes writes the page of tare size.
func WriteSizes(w io.Writer, s report.Sizes, tare string) error {
	p := Prediction{
		Name: "tare size", Tare: tare, Schema: s.Schema, Command: "tare size",
		Facts: []report.Fact{{Name: "Results", Text: s.From}}, Steps: s.Next,
		Text: func(w io.Writer) error { return report.SizesForms()[0].Write(w, s) },
	}
	for _, size := range s.Sizes {
		p.Parts = append(p.Parts, Part{Title: report.SizedFor(s, size), Facts: report.SizeFacts(s, size)})
		if len(size.Place) == 0 {
			continue // the mean has no axis
		}
		name := report.SizedName(s, size)
		p.Curves = append(p.Curves, curveOf(size, size.Curve, name, "CPU, millicores", 1000), curveOf(size, size.MemoryCurve, name, "Memory, MiB", 1))
	}
	return WritePrediction(w, p)
}

// intervals of a drawn curve.
const intervals = 40

// curveOf draws a curve over its first axis, at the wanted levels of the others.
func curveOf(size report.Sized, c *predict.Curve, title, unit string, scale float64) Curve {
	drawn := drawnCurve(c, size.Place, unit, scale)
	drawn.Title = title
	if b, err := c.At(size.Place...); err == nil {
		drawn.Wanted = []Band{bandOf(size.Place[0], b, scale)}
	}
	return drawn
}

func bandOf(x float64, b predict.Band, scale float64) Band {
	return Band{X: x, Estimate: b.Estimate * scale, Low: b.Low * scale, High: b.High * scale, NewLow: b.NewLow * scale, NewHigh: b.NewHigh * scale}
}

// drawnCurve draws a curve over its first axis, at the levels of the others at a place.
func drawnCurve(c *predict.Curve, place []float64, unit string, scale float64) Curve {
	axis := c.Axes[0]
	drawn := Curve{X: axis.Name, Y: unit, About: c.Reason}
	if axis.Name == experiment.RateFactor {
		drawn.X = "requests per second through one proxy"
	}
	var others []string
	for _, other := range c.Axes[1:] {
		if other.Levels > 1 {
			others = append(others, other.Name)
		}
	}
	if others != nil {
		drawn.About += ". Marks are at all measured levels of " + printable.And(others)
	}
	place = slices.Clone(place)
	for i := range intervals + 1 {
		share := float64(i) / intervals
		x := axis.From + (axis.To-axis.From)*share
		if axis.From > 0 {
			x = min(axis.To, axis.From*math.Pow(axis.To/axis.From, share))
		}
		place[0] = x
		if b, err := c.At(place...); err == nil {
			drawn.Line = append(drawn.Line, bandOf(x, b, scale))
		}
	}
	for _, p := range c.Points {
		drawn.Points = append(drawn.Points, [2]float64{p.At[0], p.Cost * scale})
	}
	return drawn
}

// acrossContent is the data of the figures of two runs.
type acrossContent struct {
	head
	Across *compare.Across `json:"across"`
	Words  report.Words    `json:"words"`
}

// AcrossData are the data of the figure of two runs compared as JSON, for the scripts.
func AcrossData(a *compare.Across) ([]byte, error) {
	return dataOf(acrossContentOf(a.New.Experiment, a))
}

// WriteAcross writes the page of two runs compared.
func WriteAcross(w io.Writer, a *compare.Across) error {
	base := filepath.Base(a.Base.Dir)
	bases := []compare.Side{a.Base}
	if len(a.BaseRuns) > 0 {
		base, bases = printable.Counted(len(a.BaseRuns), "run"), a.BaseRuns
	}
	name := fmt.Sprintf("%s: %s against %s", a.New.Experiment, filepath.Base(a.New.Dir), base)
	answer := report.AcrossAnswer(a)
	d := document{Name: name, Headline: answer[0], Answer: answer, Band: acrossBand(a), Schema: compare.AcrossSchema, Tare: a.New.Setup.Tare, Command: "tare compare"}
	for _, w := range a.Warnings {
		d.Warnings = append(d.Warnings, warning{Code: w.Code, Message: w.Message, Hint: w.Hint})
	}
	for i, side := range append(bases[:len(bases):len(bases)], a.New) {
		name := "Base"
		if i == len(bases) {
			name = "New"
		}
		d.Provenance = append(d.Provenance, entry{Name: name, Text: side.Dir, Code: true}, entry{Name: "", Text: machineOf(side.Setup)})
	}
	for _, x := range append(a.Obstacles[:len(a.Obstacles):len(a.Obstacles)], a.Distinctions...) {
		d.Provenance = append(d.Provenance, entry{Name: "Differs", Text: x.String()})
	}
	return d.fill(w, acrossContentOf(name, a), func(w io.Writer) error {
		return report.AcrossForms(report.Options{All: true})[0].Write(w, a)
	})
}

func acrossContentOf(name string, a *compare.Across) acrossContent {
	return acrossContent{headOf(name), a, report.AcrossWords(a)}
}

func machineOf(s compare.Setup) string {
	parts := []string{s.CPUModel}
	if s.CPUs > 0 {
		parts = append(parts, printable.Counted(s.CPUs, "CPU"))
	}
	if s.FirstStart != nil {
		parts = append(parts, s.FirstStart.UTC().Format("2 January 2006 15:04 MST"))
	}
	return joined(append(parts, strings.TrimSpace(s.OS+" "+s.Kernel), strings.TrimSpace("tare "+s.Tare))...)
}

func acrossBand(a *compare.Across) []card {
	var cards []card
	base, name := a.Base.Count, "the base run"
	if len(a.BaseRuns) > 0 {
		base, name = compare.Count{}, printable.Counted(len(a.BaseRuns), "base run")
		for _, r := range a.BaseRuns {
			base.Used, base.Planned, base.Blocks = base.Used+r.Count.Used, base.Planned+r.Count.Planned, base.Blocks+r.Count.Blocks
		}
	}
	for _, side := range []struct {
		name string
		n    compare.Count
	}{{name, base}, {"the new run", a.New.Count}} {
		cards = append(cards, card{Good: side.n.Used == side.n.Planned, Title: fmt.Sprintf("%d of %s of %s", side.n.Used, printable.Counted(side.n.Planned, "trial"), side.name), Text: printable.Counted(side.n.Blocks, "block")})
	}
	conditions := card{Good: len(a.Obstacles) == 0, Title: "Same conditions", Text: "machine, kernel, load, phases, topology, mesh definition"}
	if !conditions.Good {
		conditions.Title, conditions.Text, conditions.Link = printable.Counted(len(a.Obstacles), "condition")+" changed", "any of them may be the cause", "#provenance"
	}
	cards = append(cards, conditions)
	gates := map[compare.Outcome]int{}
	for _, g := range a.Gates {
		gates[g.Outcome]++
	}
	if n := len(a.Gates); n > 0 {
		cards = append(cards, card{Good: gates[compare.Breached] == 0, Title: fmt.Sprintf("%d of %d gate checks breached", gates[compare.Breached], n), Text: fmt.Sprintf("%d undecided", gates[compare.Undecided])})
	}
	return append(cards, warningCard(len(a.Warnings)))
}

// historyContent is the data of the figure of a series of runs.
type historyContent struct {
	head
	History *compare.History     `json:"history"`
	Series  []report.SeriesWords `json:"series"`
}

// HistoryData are the data of the figure of a series of runs as JSON, for the scripts.
func HistoryData(h *compare.History) ([]byte, error) {
	return dataOf(historyContent{headOf("history"), h, report.HistoryWords(h)})
}

func warningCard(n int) card {
	if n == 0 {
		return card{Good: true, Title: "No warnings"}
	}
	return card{Title: printable.Counted(n, "warning"), Text: "with causes and fixes", Link: "#warnings"}
}
