package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/push"
	"github.com/tare-mesh/tare/internal/show/series"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// database is a Prometheus that runs for a test.
type database struct{ url string }

// programs are the installed Prometheus, by what it must accept.
var programs = map[string]struct{ file, override, flag, path, config string }{
	"remote-write": {"prometheus", "TARE_PROMETHEUS", "--web.enable-remote-write-receiver", "/api/v1/write", ""},
	"otlp":         {"prometheus-otlp", "TARE_PROMETHEUS_OTLP", "--web.enable-otlp-receiver", "/api/v1/otlp/v1/metrics", "storage:\n  tsdb:\n    out_of_order_time_window: 1000h\n"},
}

// startDatabase starts a Prometheus that scrapes nothing.
func startDatabase(t *testing.T, protocol string) database {
	t.Helper()
	if testing.Short() {
		t.Skip("starts Prometheus")
	}
	of := programs[protocol]
	program := os.Getenv(of.override)
	if program == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skip(err)
		}
		program = filepath.Join(cache, "tare", "prometheus", of.file)
	}
	if _, err := os.Stat(program); err != nil {
		switch path, unknown := exec.LookPath(of.file); {
		case unknown == nil:
			program = path
		case os.Getenv("TARE_TEST_ALL") != "":
			t.Fatal(err)
		case protocol == "otlp":
			t.Skip("make e2e-all builds prometheus-otlp")
		default:
			programtest.Missing(t, err, "tools/prometheus/install.sh")
		}
	}
	dir := t.TempDir()
	config := must.File(t, dir, "prometheus.yml", of.config)
	listening := &listener{found: make(chan string, 1)}
	cmd := exec.CommandContext(t.Context(), program, "--config.file="+config, "--storage.tsdb.path="+dir+"/data", "--storage.tsdb.retention.time=20y", "--web.listen-address=127.0.0.1:0", of.flag)
	cmd.Stderr, cmd.Stdout, cmd.Dir = listening, listening, dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	must.OK(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { <-ended })
	var d database
	select {
	case address := <-listening.found:
		d.url = "http://" + address
	case err := <-ended:
		ended <- err
		t.Fatalf("%s: %v\n%s", program, err, listening.text.String())
	case <-time.After(time.Minute):
		t.Fatalf("%s does not listen:\n%s", program, listening.text.String())
	}
	for range 600 {
		if answer, err := http.Get(d.url + "/-/ready"); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return d
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("Prometheus is not ready")
	return d
}

// listener finds the address in the log.
type listener struct {
	text  bytes.Buffer
	found chan string
}

var address = regexp.MustCompile(`Listening on.*address=(127\.0\.0\.1:\d+)`)

func (l *listener) Write(b []byte) (int, error) {
	l.text.Write(b)
	if m := address.FindSubmatch(l.text.Bytes()); m != nil {
		select {
		case l.found <- string(m[1]):
		default:
		}
	}
	return len(b), nil
}

// api calls an endpoint, and decodes its data.
func (d database) api(t *testing.T, path string, query url.Values, data any) {
	t.Helper()
	answer := must.Get(http.Get(d.url + "/api/v1/" + path + "?" + query.Encode()))(t)
	defer answer.Body.Close()
	body := must.Get(io.ReadAll(answer.Body))(t)
	whole := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(body, &whole); err != nil || whole.Status != "success" {
		t.Fatalf("%s %s: %v %s", path, query.Encode(), err, body)
	}
}

// found is one series of an answer.
type found struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
	Values [][2]any          `json:"values"`
}

// query asks for values at an instant.
func (d database) query(t *testing.T, expr string, at time.Time) []found {
	t.Helper()
	var answer struct{ Result []found }
	d.api(t, "query", url.Values{"query": {expr}, "time": {fmt.Sprint(at.Unix())}}, &answer)
	return answer.Result
}

// over asks for values between two instants.
func (d database) over(t *testing.T, expr string, from, to time.Time, step time.Duration) []found {
	t.Helper()
	var answer struct{ Result []found }
	d.api(t, "query_range", url.Values{"query": {expr}, "start": {fmt.Sprint(from.Unix())}, "end": {fmt.Sprint(to.Unix())}, "step": {step.String()}}, &answer)
	return answer.Result
}

func number(t *testing.T, v any) float64 {
	t.Helper()
	var f float64
	must.Get(fmt.Sscan(fmt.Sprint(v), &f))(t)
	return f
}

// tare runs tare-kube with the libraries of --push.
func tare(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var b bytes.Buffer
	code = cli.New(console.Console{In: strings.NewReader(""), Out: &b, Err: &b}, &cli.Kubernetes{Push: push.Send}).Run(t.Context(), args)
	return code, b.String()
}

// pushed is a run in a database.
type pushed struct {
	database
	name   string
	report *answer.Report
	all    []series.Series
	// begin and end of the run.
	begin, end time.Time
}

// synthetic is a run with a fault and an invalid trial.
func synthetic(t *testing.T) string {
	t.Helper()
	s := answertest.Quickstart()
	s.Blocks, s.Treatments = 3, s.Treatments[:3]
	s.Change = func(r *result.Record) {
		if r.Ordinal == 2 {
			r.Faults = []result.Fault{{Kind: "pause", Start: r.Load.Start, Healed: r.Load.End}}
		}
		if r.Ordinal == 3 {
			r.Valid, r.Warnings = false, append(r.Warnings, result.Warning{Code: "rate-missed", Message: "planted", Invalidates: true})
		}
	}
	dir := filepath.Join(t.TempDir(), "run-1")
	must.OK(t, s.Write(t, dir).Close())
	return dir
}

// quickstart is the real run that the README shows.
func quickstart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "quickstart-1")
	must.OK(t, os.Mkdir(dir, 0o700))
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", "../../docs/pictures/quickstart.tar.gz", "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return dir
}

// pushRun pushes a run into a new database.
func pushRun(t *testing.T, protocol, dir string) pushed {
	t.Helper()
	d := startDatabase(t, protocol)
	results := must.Get(result.Open(dir))(t)
	defer results.Close()
	r := must.Get(answer.Analyze(results, compare.Options{}))(t)
	all := must.Get(series.Of(answer.Analysis{Report: r, Dir: results}))(t)
	p := pushed{database: d, name: filepath.Base(dir), report: r, all: all, begin: results.Environment().Time}
	for _, trial := range results.Plan().Trials {
		record, _, err := results.Record(trial)
		must.OK(t, err)
		if record.Ended.After(p.end) {
			p.end = record.Ended
		}
		if record.Started.Before(p.begin) {
			p.begin = record.Started
		}
	}
	t.Setenv("PUSH_TOKEN", "not-in-any-message")
	for again := range 2 { // the second changes nothing, and needs the window
		code, out := tare(t, "report", dir, "--push", d.url+programs[protocol].path, "--push-header", "Authorization: Bearer ${env:PUSH_TOKEN}")
		t.Log(out)
		want, text := console.Done, "tare: pushed "
		if again == 1 && programs[protocol].config == "" {
			want, text = console.Failed, "was pushed before: set out_of_order_time_window"
		}
		if code != want || !strings.Contains(out, text) || strings.Contains(out, "not-in-any-message") {
			t.Fatalf("exit code %d: %s", code, out)
		}
	}
	return p
}

// Every figure of the report comes back from the database with its labels, and the trials with their instants.
func TestFiguresComeBack(t *testing.T) {
	for protocol := range programs {
		t.Run(protocol, func(t *testing.T) {
			p := pushRun(t, protocol, synthetic(t))
			figures, back, asked := 0, map[string]float64{}, map[string]bool{}
			for _, f := range p.all {
				if len(f.Points) != 1 || !f.Points[0].At.Equal(p.end) {
					continue // not of the report
				}
				if !asked[f.Name] {
					asked[f.Name] = true
					for _, s := range p.query(t, f.Name, p.end.Add(time.Second)) {
						back[key(s.Metric)] = number(t, s.Value[1])
					}
				}
				f.Labels["__name__"] = f.Name
				got, ok := back[key(f.Labels)]
				if want := f.Points[0].Value; !ok || got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
					t.Fatalf("%s: %v (%v), want %v; there are %v", key(f.Labels), got, ok, want, slices.Sorted(maps.Keys(back)))
				}
				figures++
			}
			if figures < 100 {
				t.Errorf("only %d figures", figures)
			}
			for _, trial := range p.report.Trials {
				of := p.over(t, fmt.Sprintf(`tare_trial{trial=%q,valid="%v"} == 1`, trial.ID, trial.Valid), p.begin, p.end.Add(time.Minute), time.Second)
				if len(of) != 1 || len(of[0].Values) < 5 {
					t.Errorf("%s: %v", trial.ID, of)
				}
			}
			if of := p.over(t, `tare_fault == 1`, p.begin, p.end.Add(time.Minute), time.Second); len(of) != 1 {
				t.Errorf("the fault of 5 s: %v", of)
			} else if d := difftest.Wrong(`of[0].Metric["kind"] != "pause"`, of[0].Metric["kind"] != "pause", "len(of[0].Values) < 4", len(of[0].Values) < 4, "len(of[0].Values) > 8", len(of[0].Values) > 8); d != "" {
				t.Errorf("%s: the fault of 5 s: %v", d, of)
			}
			for _, a := range readDashboard(t).Annotations.List {
				expr := strings.ReplaceAll(a.Expr, "$run", p.name)
				if of := p.over(t, expr, p.begin, p.end, time.Second); len(of) == 0 {
					t.Errorf("annotation %q of the dashboard has no data: %s", a.Name, expr)
				}
			}
		})
	}
}

func key(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if !strings.HasPrefix(name, "otel_scope_") {
			parts = append(parts, name+"="+labels[name])
		}
	}
	return strings.Join(parts, ",")
}

const dashboardFile = "../../templates/grafana.json"

// dashboard is the part of the Grafana dashboard that has queries.
type dashboard struct {
	Templating struct {
		List []struct {
			Name, Type, AllValue string
			Query                any
		}
	}
	Annotations struct {
		List []struct{ Name, Expr, Step string }
	}
	Panels []struct {
		Title, Type, Interval string
		Targets               []struct {
			Expr    string
			Instant bool
		}
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text := must.Get(os.ReadFile(dashboardFile))(t)
	must.OK(t, json.Unmarshal(text, &d))
	return d
}

// Each query of the dashboard has data after a push.
func TestDashboardHasData(t *testing.T) {
	p := pushRun(t, "remote-write", quickstart(t))
	d := readDashboard(t)
	values := []string{"$__range", "1h"}
	for _, v := range d.Templating.List {
		of, ok := v.Query.(map[string]any)
		if !ok {
			continue // the choice of the database
		}
		if v.AllValue != "" {
			values = append(values, "$"+v.Name, v.AllValue)
		}
		m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(strings.NewReplacer(values...).Replace(fmt.Sprint(of["query"])))
		if m == nil {
			t.Errorf("variable %s: %v", v.Name, of["query"])
			continue
		}
		var got []string
		p.api(t, "label/"+m[2]+"/values", url.Values{"match[]": {m[1]}, "start": {fmt.Sprint(p.begin.Unix())}, "end": {fmt.Sprint(p.end.Add(time.Minute).Unix())}}, &got)
		if len(got) == 0 {
			t.Errorf("variable %s has no values", v.Name)
		} else if v.AllValue == "" {
			values = append(values, "$"+v.Name, got[0])
		}
	}
	queries := 0
	for _, panel := range d.Panels {
		interval := panel.Interval
		if interval == "" {
			interval = "5s"
		}
		step := must.Get(time.ParseDuration(interval))(t)
		for _, target := range panel.Targets {
			expr := strings.NewReplacer(append(slices.Clone(values), "$__interval", interval)...).Replace(target.Expr)
			queries++
			n := 0
			if target.Instant {
				n = len(p.query(t, expr, p.end.Add(time.Minute)))
			} else {
				n = len(p.over(t, expr, p.begin, p.end.Add(2*step), step))
			}
			if n == 0 || strings.Contains(expr, "$") {
				t.Errorf("panel %q has no data: %s", panel.Title, expr)
			}
		}
	}
	if queries < 10 {
		t.Errorf("only %d queries", queries)
	}
}

// The dashboard has the types that Grafana publishes.
func TestDashboardIsOfTheSchema(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	packages := programtest.PagePackages(t)
	text := must.Get(os.ReadFile(dashboardFile))(t)
	wrong := filepath.Join(t.TempDir(), "wrong.json")
	must.OK(t, os.WriteFile(wrong, bytes.Replace(text, []byte(`"mergeValues"`), []byte(`"mergeValue"`), 1), 0o600))
	out, err := exec.CommandContext(t.Context(), "node", "../../tools/page/dashboard.mjs", packages, dashboardFile, wrong).CombinedOutput()
	if findings := strings.Split(strings.TrimSpace(string(out)), "\n"); err == nil || len(findings) != 1 {
		t.Errorf("findings, one of them planted: %v\n%s", err, out)
	} else if d := difftest.Wrong(`!strings.Contains(findings[0], "wrong.json: ")`, !strings.Contains(findings[0], "wrong.json: "), `!strings.Contains(findings[0], "mergeValue")`, !strings.Contains(findings[0], "mergeValue")); d != "" {
		t.Errorf("%s: findings, one of them planted: %v\n%s", d, err, out)
	}
}
