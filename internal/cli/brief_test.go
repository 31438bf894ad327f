package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// answerSchema is the schema that `tare schema answer` prints.
func answerSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text := must.Get(output(t, "schema", "answer"))(t)
	c := jsonschema.NewCompiler()
	must.OK(t, c.AddResource("answer.json", must.Get(jsonschema.UnmarshalJSON(strings.NewReader(text)))(t)))
	return must.Get(c.Compile("answer.json"))(t)
}

// briefOf returns the answer of a result in JSON, which keeps the schema and has the exit code of its command.
func briefOf(t *testing.T, text string, code int) answer.Brief {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%.500s", err, text)
	}
	if err := answerSchema(t).Validate(doc); err != nil {
		t.Errorf("%v in\n%.500s", err, text)
	}
	var r struct {
		Answer answer.Brief `json:"answer"`
	}
	must.OK(t, json.Unmarshal([]byte(text), &r))
	if r.Answer.ExitCode != code {
		t.Errorf("the answer has exit code %d, and the command %d", r.Answer.ExitCode, code)
	}
	return r.Answer
}

// jsonCommands are the commands that print results as JSON, with tests of their answers. A new one is added here.
var jsonCommands = map[string]string{
	"ab": "TestAnswersOfGates", "report": "TestAnswersOfGates", "compare": "TestAnswersOfGates",
	"run": "TestAnswersOfRuns", "weigh": "TestAnswersOfRuns", "doctor": "TestAnswersOfRuns",
	"verify": "TestAnswers", "plan": "TestAnswers", "size": "TestAnswers", "forecast": "TestAnswers", "load": "TestAnswers", "import": "TestAnswers",
}

// Every command with a form json is among those whose answers are tested.
func TestEveryJSONHasAnAnswer(t *testing.T) {
	seen := map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if c, ok := f.Value.(choiceFlag); ok && slices.Contains(c.names, "json") {
				seen[cmd.Name()] = true
				if jsonCommands[cmd.Name()] == "" {
					t.Errorf("%s --%s prints JSON, and no test has its answer: add it to jsonCommands", cmd.CommandPath(), f.Name)
				}
			}
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(testLine(t, nil).Root())
	for name := range jsonCommands {
		if !seen[name] {
			t.Errorf("%s prints no JSON", name)
		}
	}
}

// planted writes a run of A and B, whose data plane costs a share more.
func planted(t *testing.T, more, noise float64) string {
	t.Helper()
	s := answertest.AB(more, 8)
	s.Noise = noise
	dir := filepath.Join(t.TempDir(), "run")
	must.OK(t, s.Write(t, dir).Close())
	return dir
}

// The answer has the planted difference in its interval, the verdict, and what an undecided gate needs.
func TestAnswersOfGates(t *testing.T) {
	dearer, same, noisy := planted(t, 0.1, 0.005), planted(t, 0, 0.005), planted(t, 0, 0.1)
	for _, c := range []struct {
		args    []string
		verdict compare.Outcome
		code    int
		truth   float64 // %
	}{
		{[]string{"ab", "--from", dearer}, compare.Breached, console.Gate, 10},
		{[]string{"ab", "--from", same}, compare.Holds, console.Done, 0},
		{[]string{"ab", "--from", noisy}, compare.Undecided, console.Undecided, 0},
		{[]string{"ab", "--from", noisy, "--undecided", "pass"}, compare.Undecided, console.Done, 0},
		{[]string{"ab", "--bisect", "--from", dearer}, compare.Breached, bisectBad, 10},
		{[]string{"report", dearer}, compare.Breached, console.Done, 10},
	} {
		text, err := output(t, append(c.args, "--format", "json")...)
		b := briefOf(t, text, exitCode(err))
		if b.Verdict != compare.Verdict(c.verdict) || b.ExitCode != c.code || b.Subject != "envoy-b" || b.Baseline != "envoy-a" || b.Metric != "cpu_us_per_request/data" || b.Unit != "%" {
			t.Errorf("%q: %+v", c.args, b)
		}
		if d := b.Difference; d == nil || !d.Known() || *d.Low > c.truth || *d.High < c.truth {
			t.Errorf("%q: the difference is %+v, planted %v %%", c.args, d, c.truth)
		}
		if open := c.verdict == compare.Undecided; open != (b.Reason != "") || !open && b.Minutes != 0 {
			t.Errorf("%q: reason %q, %v minutes", c.args, b.Reason, b.Minutes)
		}
	}
	text, err := output(t, "ab", "--format", "json", "--from", dearer, same)
	if b := briefOf(t, text, exitCode(err)); b.Verdict != compare.Verdict(compare.Breached) || b.Sentence != "2 runs: 1 breached, 1 hold, 0 undecided" {
		t.Errorf("several runs: %+v", b)
	}
	for gate, want := range map[string]compare.Verdict{"": compare.Higher, "cpu_us_per_request/data < +2%": compare.Verdict(compare.Undecided)} {
		args := []string{"compare", same, dearer, "--anyway", "--format", "json"}
		if gate != "" {
			args = append(args, "--gate", gate)
		}
		text, err := output(t, args...)
		if b := briefOf(t, text, exitCode(err)); b.Verdict != want || b.Difference == nil || b.Subject != "envoy-b" || b.Baseline == "" {
			t.Errorf("compare with gate %q: %+v", gate, b)
		}
	}
}

// A report without gates has the cost and its interval; one with nothing to compare has the reason.
func TestAnswersOfReports(t *testing.T) {
	b := briefOf(t, must.Get(output(t, "report", results(t), "--format", "json"))(t), 0)
	if d := b.Difference; b.Verdict != compare.Higher || d == nil || *d.Low > 70 || *d.High < 70 || b.Subject != "envoy-tcp" || b.Baseline != "none" || b.Unit != "us" || !strings.Contains(b.Sentence, "envoy: ") {
		t.Errorf("%+v", b)
	}
	s, dir := answertest.Quickstart(), filepath.Join(t.TempDir(), "run")
	s.Change = func(r *result.Record) { r.Error = "no answer" }
	must.OK(t, s.Write(t, dir).Close())
	b = briefOf(t, must.Get(output(t, "report", dir, "--format", "json"))(t), 0)
	if b.Verdict != compare.Insufficient || b.Difference != nil || !strings.Contains(b.Reason, "failed") {
		t.Errorf("of failed trials: %+v", b)
	}
}

// The other commands that print JSON, on results of known truth.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := answertest.Quickstart()
	s.RateFactor, s.Bare, s.Blocks, s.Drift, s.Treatments = true, true, 4, 0, nil
	for _, rate := range []float64{100, 200, 400, 800} {
		for _, mesh := range []string{"none", "envoy"} {
			tr := answertest.Treatment{ID: fmt.Sprint(mesh, "-rate", rate), Factors: plan.Factors{"mesh": mesh, "rate": rate}, Truth: answertest.Truth{AppUS: 60, LoadUS: 20, AppMiB: 14, MedianMS: 1}}
			if mesh == "envoy" {
				tr.Baseline, tr.Truth.DataUS, tr.Truth.DataMiB = fmt.Sprint("none-rate", rate), 400, 60
			}
			s.Treatments = append(s.Treatments, tr)
		}
	}
	curve := filepath.Join(t.TempDir(), "curve")
	must.OK(t, s.Write(t, curve).Close())
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	altered := results(t)
	record := must.Get(filepath.Glob(filepath.Join(altered, "trials", "*", result.RecordFile)))(t)[0]
	must.OK(t, os.WriteFile(record, append(must.Get(os.ReadFile(record))(t), ' '), 0o600))
	vegeta := must.File(t, t.TempDir(), "a.json", `{"attack":"","seq":0,"code":200,"timestamp":"2025-01-02T03:04:05Z","latency":1000000,"bytes_out":0,"bytes_in":615,"error":"","body":"","method":"GET","url":"http://x/","headers":null}`+"\n")
	for _, c := range []struct {
		args    []string
		verdict compare.Verdict
		figure  bool
	}{
		{[]string{"verify", results(t), "--format", "json"}, "holds", false},
		{[]string{"verify", altered, "--format", "json"}, "breached", false},
		{[]string{"plan", "../../examples/quickstart.yaml", "--format", "json"}, "planned", false},
		{[]string{"size", "--from", curve, "--rate", "300", "--format", "json"}, "predicted", true},
		{[]string{"load", server.URL, "-n", "100", "-r", "1000", "-o", "json"}, "measured", true},
		{[]string{"load", server.URL, "-n", "100", "-r", "1000", "-o", "json", "--gate", "p99 < 10s"}, "holds", true},
		{[]string{"load", unavailable(t), "-n", "20", "-o", "json", "--gate", "errors < 1%"}, "breached", true},
		{[]string{"load", unavailable(t), "-n", "20", "-o", "json", "--gate", "p99 < 50"}, "undecided", true},
		{[]string{"load", server.URL, "-r", "500", "-z", "200ms", "-o", "json", "--find-max", "p99 < 10s"}, "measured", true},
		{[]string{"import", "vegeta", vegeta, "--out", filepath.Join(t.TempDir(), "imported"), "--report=json"}, "measured", true},
	} {
		text, err := output(t, c.args...)
		b := briefOf(t, text, exitCode(err))
		if b.Verdict != c.verdict || (b.Figure != nil) != c.figure || b.Sentence == "" || (c.verdict == answer.Planned) != (b.Minutes > 0) {
			t.Errorf("%q: %+v", c.args, b)
		}
	}
	// The text begins with the sentence of the answer.
	size := []string{"size", "--from", curve, "--rate", "300"}
	first, _, _ := strings.Cut(must.Get(output(t, size...))(t), "\n")
	if b := briefOf(t, must.Get(output(t, append(size, "--format", "json")...))(t), 0); first != b.Sentence || !strings.HasPrefix(first, "Requests cpu ") {
		t.Errorf("size begins with %q, its answer is %q", first, b.Sentence)
	}
	amount := predict.Amount{Estimate: 1.5, Low: 1.2, High: 1.9}
	f := report.Forecasts{Graph: "shop", Forecasts: []predict.Forecast{{Mesh: "envoy", Factors: plan.Factors{"mesh": "envoy"}, CPU: amount, Memory: amount, NoLatency: "no run"}}}
	var out bytes.Buffer
	must.OK(t, report.Write(&out, f, forecastsForms(), "json"))
	if b := briefOf(t, out.String(), 0); b.Verdict != answer.Predicted || b.Difference == nil || *b.Difference.High != 1.9 || b.Unit != "cores" {
		t.Errorf("forecast: %+v", b)
	}
	f.Forecasts[0].Refused = "the runs have no call of gRPC"
	out.Reset()
	must.OK(t, report.Write(&out, f, forecastsForms(), "json"))
	if b := briefOf(t, out.String(), 0); b.Verdict != compare.Insufficient || b.Difference != nil || !strings.Contains(b.Reason, "gRPC") {
		t.Errorf("refused forecast: %+v", b)
	}
}

// A run, tare weigh and tare doctor have answers, with the exit codes of their commands.
func TestAnswersOfRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("runs experiments")
	}
	t.Parallel()
	dir, python := plantedPrograms(t)
	phases := "phases={prewarm: 0s, warmup: 300ms, measure: 1s, drain: 500ms}"
	lenient := "validity={rateShortfall: 0.5, lateness: 5s}"
	for _, args := range [][]string{
		{"run", "../../examples/standard-weight.yaml", "--plain", "--set", "blocks=3", "--set", "factors.mesh=[reference, reference-500us]", "--set", "factors.rate=[100]", "--set", phases, "--set", lenient, "--out", filepath.Join(dir, "run")},
		{"weigh", "--plain", "--mesh", "reference", "--rate", "100", "--time", "10s", "--out", filepath.Join(dir, "weigh"), "--format", "json", "--", python, filepath.Join(dir, "server.py"), "{port}"},
		{"doctor"},
		{"doctor", "../../examples/quickstart.yaml", "--blocks", "3", "--measure", "1s"},
	} {
		if args[0] != "weigh" {
			args = append(args, "--format", "json")
		}
		text, stderr, code := tareIn(t, "", args...)
		b := briefOf(t, text, code)
		t.Logf("%s: %+v", args[0], b)
		switch {
		case args[0] == "doctor" && (len(args) > 3) != (b.Figure != nil):
			t.Errorf("doctor: %+v\n%s", b, stderr)
		case args[0] != "doctor" && b.Verdict != compare.Insufficient && !known(b.Difference):
			t.Errorf("%s: %+v\n%s", args[0], b, stderr)
		}
	}
}

func known(i *stats.Interval) bool { return i != nil && i.Known() }
