// Package page writes a report as one HTML file: the answer in a sentence, figures, warnings,
// provenance. The file is complete: it loads nothing. Observable Plot draws the figures in the
// browser from the report's JSON (docs/adr/0006-figures.md).
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/verify"
	"github.com/tare-mesh/tare/internal/show/report"
)

// Schema of the data in a page. It is for the page's own script: programs read the report as JSON.
const Schema = "tare.page/v1"

var (
	//go:embed assets/page.html
	pageHTML string
	//go:embed assets/page.css
	pageCSS string
	//go:embed assets/palette.json
	paletteJSON []byte
	//go:embed assets/plot.js
	plotJS string
	//go:embed assets/kit.js
	kitJS string
	//go:embed assets/datafigures.js
	dataFiguresJS string
	//go:embed assets/across.js
	acrossJS string
	//go:embed assets/capacity.js
	capacityJS string
	//go:embed assets/curves.js
	curvesJS string
	//go:embed assets/figures.js
	figuresJS string
	//go:embed assets/compose.js
	composeJS string
	//go:embed assets/page.js
	pageJS string
)

var layout = template.Must(template.New("page").Parse(pageHTML))

// Source is the content of a page.
type Source struct {
	answer.Analysis
	// Verified is the result of `tare verify`, or nil if not verified.
	Verified *verify.Result
}

// head begins the data of every page.
type head struct {
	Schema string   `json:"schema"`
	Name   string   `json:"name"`  // for file names
	Roles  []string `json:"roles"` // of colors
}

func headOf(name string) head { return head{Schema, fileName(name), roles()} }

// content is the data of the figures.
type content struct {
	head
	Report    *answer.Report `json:"report"`
	Words     report.Words   `json:"words"`
	Families  families       `json:"families"`
	Timelines []timeline     `json:"timelines,omitempty"`
	figureData
}

// families are the metrics that figures have a use of their own for.
type families struct {
	Stacked  []family `json:"stacked"` // by plane
	Response family   `json:"response"`
	Service  family   `json:"service"`
	Cores    string   `json:"cores"`    // name, of cost against rate
	Answered string   `json:"answered"` // name of the rate of answers
	Change   string   `json:"change"`   // name, of the CPU of a change
	Capacity string   `json:"capacity"` // name of the highest rate
}

// family is the name and the title of a metric without its part.
type family struct {
	Name  string `json:"name"`
	Title string `json:"title"`
}

func familyOf(base string) family { return family{base, metric.FamilyTitle(base)} }

var familiesOfFigures = families{
	Stacked:  []family{familyOf(metric.CPUPerRequest), familyOf(metric.Memory)},
	Response: familyOf(metric.Latency), Service: familyOf(metric.ServiceTime), Cores: metric.CPUCores, Answered: metric.Rate, Change: metric.ChangeCPU, Capacity: metric.Capacity,
}

// document is the input of the layout.
type document struct {
	Policy, Name, Description, Headline string
	Load                                string // that all treatments have, empty if unknown
	Gates                               string // their outcome, empty without gates
	Answer, Setup                       []string
	Band                                []card
	Tables                              []*report.TextTable // changes, CPU by treatment and level, differences of an import
	Parts                               []Part
	Steps                               []report.NextRun
	Warnings                            []warning
	Configurations                      []configuration
	Provenance                          []entry
	Experiment, Text, Tare, Schema      string
	Command                             string // that prints Text, empty for tare report
	OpenText                            bool   // without figures
	Style                               template.CSS
	Content, Script                     template.JS
}

// Data are the figures' data as JSON, for the scripts.
func Data(s Source) ([]byte, error) {
	return dataOf(contentOf(s))
}

// Scripts are those that make a figure without a page, by name: the chart library, the figures and
// their composition.
func Scripts() map[string]string {
	return map[string]string{"1-plot.js": plotJS, "2-kit.js": kitJS, "3-datafigures.js": dataFiguresJS, "3-across.js": acrossJS, "3-capacity.js": capacityJS, "4-figures.js": figuresJS, "5-compose.js": composeJS}
}

// Colors are the colors of a theme, light or dark, by role.
func Colors(theme string) map[string]string { return colors[theme] }

// Write writes the page.
func Write(w io.Writer, s Source) error {
	lines := report.Answer(s.Report)
	if n := len(lines); n > 1 {
		lines = lines[:n-1] // the band has the validity
	} else {
		lines = []string{report.Unanswered(s.Report)}
	}
	gates := ""
	if len(s.Report.Decisions) > 1 { // one gate is the answer
		gates = report.OutcomesInWords(s.Report.Decisions) + "."
	}
	d := document{
		Name: s.Report.Experiment, Description: report.Subtitle(s.Report),
		Load: report.LoadLine(s.Report), Headline: lines[0], Gates: gates, Answer: lines, Setup: report.Header(s.Report), Band: band(s), Tables: lists.Where([]*report.TextTable{report.ChangesOf(s.Report), report.LevelsOf(s.Report), report.ImportedOf(s.Report)}, func(t *report.TextTable) bool { return t != nil }), Warnings: warnings(s.Report), Configurations: configurations(s.Report),
		Provenance: provenance(s), Experiment: string(s.Dir.Experiment()), Tare: s.Report.Setup.Tare, Schema: answer.Schema,
	}
	for i, line := range d.Answer {
		d.Answer[i] = report.Unbroken(line)
	}
	return d.fill(w, contentOf(s), func(w io.Writer) error { return report.WriteText(w, s.Report, report.Options{All: true}) })
}

func contentOf(s Source) content {
	drawn := ofFigures(s.Report)
	return content{
		head: headOf(s.Report.Experiment), Report: drawn, Words: report.WordsOf(drawn), Families: familiesOfFigures,
		Timelines: timelines(s.Dir), figureData: figureData{slicesOf(s), heatOf(s.Dir), looksOf(s), referencesOf(s.Report), searchesOf(s.Dir), memoryOf(s), changesOf(s)},
	}
}

// fill adds the parts that all pages have, and writes the page. text writes the report as text.
func (d document) fill(w io.Writer, content any, text func(io.Writer) error) error {
	data, err := dataOf(content)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := text(&b); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	// JSON of encoding/json has no <, > and &.
	d.Policy, d.Text, d.Style, d.Content, d.Script = Policy(), b.String(), template.CSS(style), template.JS(data), template.JS(script())
	return printable.Writing(w, func(w io.Writer) error { return layout.Execute(w, d) })
}

func dataOf(content any) ([]byte, error) {
	data, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("data of the figures: %w", err)
	}
	return data, nil
}

// ofFigures is the part of the report that the figures draw. The page of a large run stays small.
func ofFigures(r *answer.Report) *answer.Report {
	shown := metric.Shown()
	drawn := *r
	drawn.Comparisons = slices.DeleteFunc(slices.Clone(r.Comparisons), func(c compare.Comparison) bool { return !slices.Contains(shown, c.Metric) })
	drawn.Floor = slices.DeleteFunc(slices.Clone(r.Floor), func(f compare.Floor) bool { return !slices.Contains(shown, f.Metric) })
	if len(r.Trials) > mostWhole {
		drawn.Trials = nil
		for _, t := range r.Trials {
			drawn.Trials = append(drawn.Trials, brief(t, shown))
		}
	}
	return &drawn
}

// mostWhole is the number of trials up to which a page has every metric of each.
const mostWhole = 200

// brief is a trial with the metrics that reports show, the CPU for cost against rate, and the reasons why
// it is not valid.
func brief(t figures.Trial, shown []string) figures.Trial {
	metrics := map[string]float64{}
	for name, v := range t.Metrics {
		if slices.Contains(shown, name) || metric.Base(name) == metric.CPUCores {
			metrics[name] = v
		}
	}
	t.Metrics = metrics
	t.Warnings = slices.DeleteFunc(slices.Clone(t.Warnings), func(w figures.Warning) bool { return !w.Invalidates })
	return t
}

// plotStyle is the style element that Observable Plot puts into each figure, allowed by its digest.
const plotStyle = `:where(.plot) {
  --plot-background: white;
  display: block;
  height: auto;
  height: intrinsic;
  max-width: 100%;
}
:where(.plot text),
:where(.plot tspan) {
  white-space: pre;
}`

// style and script are the same in every page.
var (
	style  = palette() + pageCSS
	script = sync.OnceValue(func() string {
		return strings.Join([]string{plotJS, kitJS, dataFiguresJS, acrossJS, capacityJS, curvesJS, figuresJS, composeJS, pageJS}, "\n")
	})
)

// Policy is the Content-Security-Policy: the page's own script and style by their digests, images
// from the page itself for downloads, and no connection.
func Policy() string {
	return fmt.Sprintf("default-src 'none'; script-src %s; style-src %s %s; img-src data:; base-uri 'none'; form-action 'none'",
		digest(script()), digest(style), digest(plotStyle))
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// palette is the colors as CSS: light, dark where the reader's system is, and either by the page's switch.
func palette() string {
	variables := func(theme string) string {
		var b strings.Builder
		for _, role := range roles() {
			fmt.Fprintf(&b, "--%s:%s;", role, colors[theme][role])
		}
		return b.String()
	}
	light, dark := variables("light"), variables("dark")
	return fmt.Sprintf(":root{color-scheme:light;%s}\n@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light]){color-scheme:dark;%s}}\n@media screen{:root[data-theme=dark]{color-scheme:dark;%s}}\n", light, dark, dark)
}

// colors are the palette: by theme and role.
var colors = func() map[string]map[string]string {
	var all map[string]map[string]string
	if err := json.Unmarshal(paletteJSON, &all); err != nil {
		panic("palette.json: " + err.Error())
	}
	return all
}()

func roles() []string { return slices.Sorted(maps.Keys(colors["light"])) }

// fileName is a name without what a file system or shell may not like.
func fileName(name string) string {
	clean := printable.Plain(name, "-_", '-')
	if clean = strings.Trim(clean, "-"); clean == "" {
		return "report"
	}
	return clean[:min(len(clean), 60)]
}

// searched is the search of one trial, where the experiment has a rate with max.
type searched struct {
	Trial     string         `json:"trial"`
	Treatment string         `json:"treatment"`
	Found     capacity.Found `json:"found"`
}

// mostSearches bounds the searches that a page draws: the first ones.
const mostSearches = 200

func searchesOf(d *result.Dir) (all []searched) {
	for _, t := range d.Plan().Trials {
		r, _, err := d.Record(t)
		if err == nil && r.Load != nil && r.Load.Capacity != nil && len(all) < mostSearches {
			all = append(all, searched{t.ID, t.Treatment, *r.Load.Capacity})
		}
	}
	return all
}

// Term is a word of reports, with its meaning.
type Term struct{ Name, Meaning string }

// Glossary has the words of reports and pages. docs/reference/glossary.md has the same.
func Glossary() []Term {
	return []Term{
		{"treatment", "One of the things compared: the application with a mesh, without one, at a rate."},
		{"baseline", "What a treatment is compared with, mostly the application with no mesh (`none` in files)."},
		{"block, trial", "A block has one trial of each treatment. Differences are computed within blocks, so that slow changes of the machine cancel."},
		{"noise", "The difference of the baseline from itself: it is measured a second time, as \"no mesh (again)\"."},
		{"interval, ±", "The range that contains the true mean difference in 95 of 100 such runs: 424 ±6 is 418 to 430."},
		{"verdict", "Higher or lower: a difference is shown, however many comparisons the run has (Holm's method). Otherwise no difference is shown, which does not mean that there is none."},
		{"too small to see", "Below the smallest detectable difference, which 4 of 5 such runs show (80 % power)."},
		{"data plane", "Sidecars and other proxies that requests go through. The control plane configures them."},
		{"response time", "From the intended start of a request. Service time begins with its send."},
		{"p50, p99", "Percentiles: half of the requests take no longer than p50, 99 of 100 no longer than p99."},
		{"withheld", "A figure that a warning makes unusable."},
		{"open loop", "Requests are sent at the target rate, however slow the answers are."},
		{"mean over rates", "The mean of the differences at each rate of a sweep."},
		{"ladder", "Treatments that each add one feature to the one before, so that the steps add up. The intervals of its steps hold for all of them at once."},
		{"gate", "A limit for a change, such as +2 %. It holds, is breached, or is undecided."},
		{"sidecar", "A proxy beside each replica of a service."},
		{"paired", "Compared within blocks. Unpaired: imports, whose runs have no blocks."},
	}
}

// Glossary has the words of the page. A prediction compares nothing: its page has those of its text only.
func (d document) Glossary() []Term {
	if d.Parts == nil {
		return Glossary()
	}
	return slices.DeleteFunc(Glossary(), func(t Term) bool {
		return !slices.ContainsFunc(strings.Split(t.Name, ", "), func(word string) bool { return strings.Contains(d.Text, word) })
	})
}

// TextTitle is the title of the text.
func (d document) TextTitle() string {
	if d.Parts == nil {
		return "Report as text"
	}
	return d.Name + " as text"
}

// Drawing is one figure for a file.
type Drawing struct {
	Figure string // one of [Figures], by ID
	// Choices as a reader of the page makes them, such as metric. Absent means the page's first.
	Choices map[string]string
	Width   float64 // px, 1/96 inch
	Columns int     // of panels
	Theme   string  // light or dark
	NoTitle bool
}

// Figures lists the figures that figures.js draws, in the order of the page.
var Figures = []struct{ ID, Doc string }{
	{"differences", "difference to the baseline with intervals, and the band of noise"},
	{"ladder", "what each step of a ladder adds, by report --ladder"},
	{"bill", "CPU per request and memory by plane"},
	{"trials", "every trial in order of time, and slices (--choose metric=NAME, block=N)"},
	{"latency", "percentiles of response and service time, and one trial's times (--choose trial=ID)"},
	{metric.Capacity, "response time against rate with the objective (--choose part=p99)"},
	{"slopes", "cost of each item of a background, with the fitted lines (--choose items=FACTOR, metric=NAME)"},
	{"rate", "cost against rate with the fitted line and its band (--choose part=NAME)"},
	{"timeline", "one trial, second by second (--choose trial=ID)"},
	{"soak", "memory, CPU and response times over a soak, a panel a treatment"},
	{"memory", "resident memory over the measure phase, where it grows or is measured for long"},
	{"change-times", "time of changes by treatment: distribution with its band"},
	{"change-failures", "failed requests around changes, zero at the change"},
	{"change-cpu", "CPU of changes by plane"},
	{"boundary", "the change after each block against the limit of a gate (--choose gate=N)"},
	{"changes", "what changed: BASE… NEW, as tare compare"},
	{"history", "run by run, with change points (--choose series=N)"},
}
