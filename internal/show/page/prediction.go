package page

import (
	"io"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
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
	Table *report.LevelTable
}

// mostFacts are the first facts of a part, its costs, that its sentence has.
const mostFacts = 3

// sentence is the part in short.
func (p Part) sentence() string {
	facts := p.Facts[:min(len(p.Facts), mostFacts)]
	return p.Title + ": " + strings.Join(printable.Texts(facts, func(f report.Fact) string { return f.Name + " " + f.Text }), "; ") + "."
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
	sentences := printable.Texts(p.Parts, Part.sentence)
	d := document{Name: p.Name, Headline: sentences[0], Answer: sentences, Parts: p.Parts, Steps: p.Steps, Tare: p.Tare, Schema: p.Schema, Command: p.Command, OpenText: len(p.Curves) == 0}
	for _, f := range p.Facts {
		d.Provenance = append(d.Provenance, entry{Name: f.Name, Text: f.Text})
	}
	return d.fill(w, predictionContent{headOf(p.Name), p.Curves}, p.Text)
}
