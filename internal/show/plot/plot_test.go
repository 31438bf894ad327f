package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

func source(t *testing.T, s answertest.Study) page.Source {
	t.Helper()
	s.Blocks, s.Warmup, s.Measure = 4, 1, 2
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	t.Cleanup(func() { d.Close() })
	o := compare.Options{Ladder: true}
	r := must.Get(answer.Analyze(d, o))(t)
	return page.Source{Analysis: answer.Analysis{Report: r, Dir: d, Options: o}}
}

func data(t *testing.T, s page.Source) []byte {
	t.Helper()
	text := must.Get(page.Data(s))(t)
	return text
}

func drawing(figure string) page.Drawing {
	return page.Drawing{Figure: figure, Width: 680, Columns: 2, Theme: "light"}
}

// marked collects the elements of groups with a class.
func marked(e *element, class string) (all []element) {
	for i := range e.Children {
		c := &e.Children[i]
		if c.Attributes["class"] == class {
			all = append(all, c.Children...)
		}
		all = append(all, marked(c, class)...)
	}
	return all
}

func texts(e *element) (all []string) {
	if e.Text != "" {
		all = append(all, e.Text)
	}
	for i := range e.Children {
		all = append(all, texts(&e.Children[i])...)
	}
	return all
}

// The figure has the words of the report, and its marks are at the places of the estimates.
func TestFigureHasTheNumbersOfTheReport(t *testing.T) {
	s := source(t, answertest.Quickstart())
	root := must.Get(treeOf(data(t, s), drawing("differences")))(t)
	written := strings.Join(texts(root), "\n")
	words := report.WordsOf(s.Report)
	for i, c := range s.Report.Comparisons {
		if c.Metric == "cpu_us_per_request/total" && !c.Control && !strings.Contains(written, words.Comparisons[i].Difference+" "+words.Comparisons[i].Interval) {
			t.Errorf("%s: no %q in\n%s", c.Treatment, words.Comparisons[i].Difference, written)
		}
	}
	// The first panel has three treatments: equal differences are equal distances.
	marks := marked(root, "mark-estimate")[:3]
	var x, v []float64
	for i, id := range []string{"envoy", "envoy-plaintext", "envoy-tcp"} {
		var at, y float64
		_ = must.Get(fmt.Sscanf(strings.ReplaceAll(marks[i].Attributes["transform"], " ", ""), "translate(%g,%g)", &at, &y))(t)
		x = append(x, at)
		c, _ := s.Report.Find(id, "cpu_us_per_request/total")
		v = append(v, c.Difference.Estimate)
	}
	if a, b := (x[0]-x[1])/(v[0]-v[1]), (x[1]-x[2])/(v[1]-v[2]); !(a > 0) || math.Abs(a-b) > 1e-6*a {
		t.Errorf("marks at %v for %v", x, v)
	}
}

func TestEveryFigure(t *testing.T) {
	study := answertest.Quickstart()
	study.YAML = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: quickstart}\ndecide: {gates: ['cpu_us_per_request/app < +2%']}\n"
	s := source(t, study)
	once := data(t, s)
	drawn := page.Figures
	if testing.Short() {
		t.Attr("short", "three figures")
		drawn = drawn[:3]
	}
	for _, figure := range drawn {
		var a, b bytes.Buffer
		err := Draw(&a, once, drawing(figure.ID))
		if slices.Contains([]string{"capacity", "rate", "slopes", "timeline", "soak", "memory", "change-times", "change-failures", "change-cpu", "changes", "history"}, figure.ID) { // one run, one rate, no seconds, no changes, no soak, and steady memory
			if !errors.Is(err, ErrNoFigure) {
				t.Errorf("%s: %v", figure.ID, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", figure.ID, err)
		}
		if figure.ID == "differences" {
			if err := Draw(&b, data(t, s), drawing(figure.ID)); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Errorf("%s: the bytes differ: %v", figure.ID, err)
			}
		}
		wellFormed(t, figure.ID, a.Bytes())
	}
}

// The figures of several runs have the data of their pages, and a run with several rates has its capacity.
func TestFiguresOfSeveralRuns(t *testing.T) {
	var dirs []*result.Dir
	var first page.Source
	for i := range compare.MinHistory {
		s := answertest.TwoRates()
		s.Seed, s.Blocks, s.Measure = uint64(i+1), 3, 1
		d := s.Write(t, filepath.Join(t.TempDir(), "run"))
		defer d.Close()
		dirs = append(dirs, d)
		if i == 0 {
			first = page.Source{Analysis: answer.Analysis{Report: must.Get(answer.Analyze(d, compare.Options{}))(t), Dir: d}}
		}
	}
	across := must.Get(compare.CompareRuns(dirs[:1], dirs[1], compare.AcrossOptions{}))(t)
	history := must.Get(compare.Histories(dirs, 0.05, compare.Options{}))(t)
	for figure, of := range map[string]func() ([]byte, error){
		"changes": func() ([]byte, error) { return page.AcrossData(across) }, "history": func() ([]byte, error) { return page.HistoryData(history) },
		"capacity": func() ([]byte, error) { return page.Data(first) },
	} {
		text := must.Get(of())(t)
		var b bytes.Buffer
		if err := Draw(&b, text, drawing(figure)); err != nil {
			t.Fatalf("%s: %v", figure, err)
		}
		wellFormed(t, figure, b.Bytes())
		root := must.Get(treeOf(text, drawing(figure)))(t)
		class, least := map[string]string{"changes": "mark-estimate", "history": "mark-run", "capacity": "mark-rate"}[figure], 3
		if n := len(marked(root, class)); n < least {
			t.Errorf("%s: %d marks", figure, n)
		}
	}
}

// wellFormed checks that a file is the tree of its figure: every text is there, and the size.
func wellFormed(t *testing.T, figure string, b []byte) {
	t.Helper()
	words, size := 0, ""
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		must.OK(t, err)
		switch x := token.(type) {
		case xml.StartElement:
			if x.Name.Local == "text" || x.Name.Local == "tspan" {
				words++
			}
			for _, a := range x.Attr {
				if x.Name.Local == "svg" && a.Name.Local == "width" {
					size = a.Value
				}
			}
		}
	}
	if words < 10 || size != "680" || !bytes.Contains(b, []byte("<title>"+figure+"</title>")) {
		t.Errorf("%s: %d texts, width %q, or no title in %.200s", figure, words, size, b)
	}
}

// Names of others are text, and an unknown choice is an error with those that exist.
func TestNamesAndChoices(t *testing.T) {
	study := answertest.Quickstart()
	study.Treatments = study.Treatments[:3]
	study.Treatments[2].Factors = plan.Factors{"mesh": "</script>'`${1}\u2028\x07 見"}
	s := source(t, study)
	for _, figure := range []string{"differences", "trials"} {
		if err := Draw(io.Discard, data(t, s), drawing(figure)); err != nil {
			t.Error(err)
		}
	}
	d := drawing("trials")
	d.Choices = map[string]string{"metric": "latency_ms/p99"}
	if err := Draw(io.Discard, data(t, s), d); err != nil {
		t.Error(err)
	}
	d.Choices["metric"] = "nothing"
	if err := Draw(io.Discard, data(t, s), d); err == nil || !strings.Contains(err.Error(), "it has: cpu_us_per_request/app") || strings.Contains(err.Error(), ".js") {
		t.Errorf("%v", err)
	}
}
