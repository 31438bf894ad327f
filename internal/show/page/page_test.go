package page_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// written is a study's report and page.
func written(t *testing.T, s answertest.Study) (*answer.Report, []byte) {
	t.Helper()
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	defer d.Close()
	return pageOf(t, d)
}

// pageOf is the report and page of a results directory.
func pageOf(t *testing.T, d *result.Dir) (*answer.Report, []byte) {
	t.Helper()
	r := must.Get(answer.Analyze(d, compare.Options{}))(t)
	var b bytes.Buffer
	must.OK(t, page.Write(&b, page.Source{Analysis: answer.Analysis{Report: r, Dir: d}}))
	return r, b.Bytes()
}

// The doubt about an answer is below its first line, and the band names it in place of a number of warnings. The smallest
// detectable difference is information: neither good nor bad.
func TestPageNamesTheDoubt(t *testing.T) {
	s := answertest.Quickstart()
	s.Blocks = 3
	_, text := written(t, s)
	for _, want := range []string{"<p>Only three repetitions, "} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %q", want)
		}
	}
	if bytes.Contains(text, []byte("Too small to see")) {
		t.Error("one smallest difference of several treatments")
	}
	_, one := written(t, answertest.AB(0, 8))
	if !bytes.Contains(one, []byte(`<li class="info"><b>Too small to see</b>`)) || !bytes.Contains(one, []byte("may be missed</li>")) {
		t.Error("no smallest difference of one treatment")
	}
	if bytes.Contains(text, []byte(`<div class="levels"`)) {
		t.Error("a table of levels without levels")
	}
}

func TestPageOpensWithTheAnswer(t *testing.T) {
	s := answertest.Quickstart()
	s.Blocks = 4
	r, text := written(t, s)
	at := 0
	var answer []string
	for _, line := range report.Answer(r)[:2] {
		answer = append(answer, strings.ReplaceAll(html.EscapeString(report.Unbroken(line)), "+", "&#43;"))
	}
	for _, line := range append(answer, "All 20 trials are valid", "Noise: ", `id="figures"`, "Provenance") {
		i := bytes.Index(text[at:], []byte(line))
		if i < 0 {
			t.Fatalf("%q is not after offset %d", line, at)
		}
		at += i
	}
}

// The page of a run with gates opens with their outcome.
func TestPageOpensWithTheGates(t *testing.T) {
	r, text := written(t, answertest.ABWithOutlier())
	if want := `<div class="answer"><p>` + strings.ReplaceAll(html.EscapeString(report.Unbroken(report.Answer(r)[0])), "+", "&#43;"); r.Decided() != compare.Undecided || !bytes.Contains(text, []byte(want)) {
		t.Errorf("%s, and no %s in\n%.4000s", r.Decided(), want, text[bytes.Index(text, []byte("<body")):])
	}
}

// A run of 100 trials is a file that can be sent to a colleague.
func TestPageOfHundredTrialsIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 100 trials")
	}
	t.Parallel()
	s := answertest.Quickstart()
	s.Blocks = 20
	if _, text := written(t, s); len(text) > 2_000_000 {
		t.Errorf("%d bytes", len(text))
	}
}

// A page of many trials leaves out metrics that no figure shows first.
func TestPageOfManyTrialsIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 300 trials")
	}
	t.Parallel()
	s := answertest.Quickstart()
	s.Blocks, s.Rate, s.Warmup, s.Measure = 60, 10, 1, 1
	r, text := written(t, s)
	if len(r.Trials) != 300 || len(text) > 1_500_000 {
		t.Errorf("%d trials in %d bytes", len(r.Trials), len(text))
	}
	for _, want := range []string{`"cpu_us_per_request/total":`, `"cpu_cores/data":`} {
		if bytes.Count(text, []byte(want)) < 300 {
			t.Errorf("%s is not in every trial", want)
		}
	}
}

// A page of failed trials has the number, the cause and its remedy.
func TestPageOfFailedTrials(t *testing.T) {
	s := answertest.Quickstart()
	s.Blocks, s.Treatments = 2, s.Treatments[:1]
	s.Change = func(r *result.Record) {
		r.Valid, r.Error = false, "deploy none: 0 of 1 replicas ready\n  pod web-1: ErrImageNeverPull"
		r.Warnings = []result.Warning{{Code: "failed", Message: "the trial failed", Hint: "load the image", Invalidates: true}}
	}
	_, text := written(t, s)
	for _, want := range []string{"Nothing was measured: 2 of 2 trials failed.", "0 of 1 replicas ready: pod web-1: ErrImageNeverPull", "Fix: load the image; "} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %q", want)
		}
	}
}

// A study without CPU and times, as imports are, has a page without invented ones.
func TestPageWithoutCPUAndTimes(t *testing.T) {
	s := answertest.Quickstart()
	s.Blocks, s.Treatments = 3, s.Treatments[:3]
	s.Change = func(r *result.Record) { r.Tasks, r.Started, r.Ended = nil, time.Time{}, time.Time{} }
	r, text := written(t, s)
	if r.Setup.FirstStart != nil || bytes.Contains(text, []byte("January 0001")) || bytes.Contains(text, []byte("<dt>Measured</dt>")) {
		t.Errorf("begun %v", r.Setup.FirstStart)
	}
	if !bytes.Contains(text, []byte("<dt>Generator</dt><dd>tare</dd>")) {
		t.Error("no load")
	}
	if !bytes.Contains(text, []byte("median response time")) {
		t.Error("the page opens with another line")
	}
}

// On a cluster the provenance has the digest of each image.
func TestImageDigests(t *testing.T) {
	s := answertest.Quickstart()
	s.Blocks = 3
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	defer d.Close()
	for _, trial := range d.Plan().Trials {
		dir := d.TrialFile(trial.ID, result.ProvenanceDir)
		text := "# Image digests\nregistry.example/<b>app: sha256:aaaa\n"
		if trial.Treatment == "envoy" {
			text += "registry.example/proxy:1.2: sha256:bbbb\n"
		}
		must.OK(t, errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "images.yaml"), []byte(text), 0o600)))
	}
	_, text := pageOf(t, d)
	for _, want := range []string{"<dt>Image registry.example/&lt;b&gt;app</dt><dd><code>sha256:aaaa</code>", "<dt>Image registry.example/proxy:1.2</dt><dd><code>sha256:bbbb</code>"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %q", want)
		}
	}
}

func TestUsedTrialsAreCounted(t *testing.T) {
	s := answertest.Quickstart()
	s.Blocks = 4
	s.Change = func(r *result.Record) {
		if r.Block == 1 {
			r.Valid = false
			r.Warnings = append(r.Warnings, result.Warning{Code: "cpu-stolen", Message: "planted", Hint: "the cure", Invalidates: true})
		}
	}
	_, text := written(t, s)
	for _, want := range []string{`class="bad"><b>15 of 20 trials used`, "invalid: 5", "<code>cpu-stolen</code>", "Fix: the cure"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %q", want)
		}
	}
}

// Names from files are text in every part of the page.
func TestNamesAreEscaped(t *testing.T) {
	_, text := written(t, hostile())
	if n := bytes.Count(text, []byte("<script")); n != 2 {
		t.Errorf("%d scripts, want the data and the page's own", n)
	}
	if bytes.Contains(text, []byte("<img")) {
		t.Error("a planted image")
	}
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindSubmatch(text)
	if policy == nil || !strings.HasPrefix(string(policy[1]), "default-src &#39;none&#39;") || strings.Contains(string(policy[1]), "unsafe") {
		t.Errorf("policy %s", policy)
	}
}

// The data in the page equal the report's JSON.
func TestDataAreTheReport(t *testing.T) {
	r, text := written(t, answertest.TwoRates())
	m := regexp.MustCompile(`(?s)<script type="application/json" id="content">(.*?)</script>`).FindSubmatch(text)
	if m == nil {
		t.Fatal("no data")
	}
	var got struct {
		Report struct{ Treatments, Trials json.RawMessage }
	}
	must.OK(t, json.Unmarshal(m[1], &got))
	for name, pair := range map[string][2]any{"treatments": {got.Report.Treatments, r.Treatments}, "trials": {got.Report.Trials, r.Trials}} {
		want, err := json.Marshal(pair[1])
		if err != nil || !bytes.Equal(pair[0].(json.RawMessage), want) {
			t.Errorf("%s differ: %v", name, err)
		}
	}
}

// The committed library is built from its packages.
func TestLibraryIsBuiltFromItsPackages(t *testing.T) {
	at, to := programtest.PagePackages(t), t.TempDir()
	if out, err := exec.Command("node", "../../../tools/page/build.mjs", at, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"plot.js", "plot.LICENSE"} {
		made, err1 := os.ReadFile(filepath.Join(to, name))
		kept, err2 := os.ReadFile(filepath.Join("assets", name))
		if err1 != nil || err2 != nil || !bytes.Equal(made, kept) {
			t.Errorf("%s differs: run tools/page/install.sh, and build it again (%v, %v)", name, err1, err2)
		}
	}
}
