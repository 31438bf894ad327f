package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// programs returns the directory with tare and tare-agent, which are built once.
func programs(t *testing.T) string {
	t.Helper()
	dir := must.Get(builtPrograms())(t)
	return dir
}

// builtPrograms builds below the directory of the test binary, which go test removes.
var builtPrograms = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(self), "programs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	return dir, programtest.Build(dir, "tare", "tare-agent")
})

// carriedOut runs an example, or a file by its absolute path, and returns its report and exit code.
func carriedOut(t *testing.T, example string, set ...string) (*answer.Report, int) {
	t.Helper()
	return carriedOutWith(t, nil, example, set...)
}

// carriedOutWith adds variables to the environment of tare.
func carriedOutWith(t *testing.T, env []string, example string, set ...string) (*answer.Report, int) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	results := filepath.Join(t.TempDir(), "run")
	if !filepath.IsAbs(example) {
		example = filepath.Join("../../examples", example)
	}
	args := []string{"run", example, "--plain", "--format", "json", "--out", results}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	stdout, stderr, code := tareWith(t, "", env, args...)
	var r answer.Report
	must.OK(t, json.Unmarshal([]byte(stdout), &r))
	briefOf(t, stdout, code)
	if page, err := os.ReadFile(filepath.Join(results, pageFile)); err != nil || !bytes.Contains(page, []byte("</html>")) || !strings.HasSuffix(stderr, filepath.Join(results, pageFile)+"\n") { // the last line, after an error too
		t.Errorf("the report as a page: %v, %d bytes", err, len(page))
	}
	if found, err := output(t, "verify", results); err != nil {
		t.Errorf("verify: %v\n%s", err, found)
	}
	return &r, code
}

// undisturbed carries out an experiment until a busy machine makes no trial invalid, at most three times. The Makefile prints
// each invalid trial by the attribute.
func undisturbed(t *testing.T, example string, set ...string) (r *answer.Report, code int) {
	t.Helper()
	for n := range 3 {
		r, code = carriedOut(t, example, set...)
		i := slices.IndexFunc(r.Trials, func(trial figures.Trial) bool { return !trial.Valid })
		if i < 0 {
			break
		}
		var codes []string
		for _, w := range r.Trials[i].Warnings {
			codes = append(codes, w.Code)
		}
		t.Attr("disturbed", fmt.Sprintf("run %d, trial %s: %s", n+1, r.Trials[i].ID, strings.Join(codes, ", ")))
	}
	return r, code
}

// tareIn runs tare in a directory, "" for this one, for no longer than a quarter of an hour.
func tareIn(t *testing.T, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return tareWith(t, dir, nil, args...)
}

// tareWith adds variables to the environment.
func tareWith(t *testing.T, dir string, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs(t), "tare"), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var out, log bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), &out, &log
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	t.Log(log.String())
	return out.String(), log.String(), cmd.ProcessState.ExitCode()
}

// The study's workflow, shortened: servers are removed under load. Without retries the
// clients see failures. Retries to another server prevent most of them.
func TestFaultDrain(t *testing.T) {
	t.Parallel()
	r, code := undisturbed(t, "fault-drain.yaml", "blocks=1", "factors.rate=[100]", "factors.connections=[30]",
		"application.services[0].replicas=2", "application.services[1].replicas=4",
		"phases={warmup: 1s, measure: 9s, drain: 1s}", "faults[0].at=2s", "faults[0].every=3s", "faults[0].count=2")
	if code != console.Gate {
		t.Errorf("exit code %d, want %d: what was expected does not hold", code, console.Gate)
	}
	lost := map[string]float64{}
	for _, tr := range r.Treatments {
		if tr.N != 1 {
			t.Errorf("%s has %d valid trials: %+v", tr.ID, tr.N, r.Warnings)
		}
		lost[tr.ID] = tr.Metrics["requests_lost"].Estimate
		if cpu, known := tr.Metrics["cpu_us_per_request/app"]; !known || cpu.Estimate <= 0 {
			t.Errorf("%s: the cost of the application is unknown though what ended is accounted for", tr.ID)
		}
	}
	// Of about 900 requests, a quarter of three seconds' and half of four seconds' go to a removed server.
	for _, id := range []string{"none", "envoy"} {
		if lost[id] < 100 {
			t.Errorf("%s lost %v requests, though two of four servers went away", id, lost[id])
		}
	}
	if lost["envoy-retries"] > lost["envoy"]/2 { // a twentieth on a quiet machine, a quarter on a busy one
		t.Errorf("envoy-retries lost %v requests, envoy %v", lost["envoy-retries"], lost["envoy"])
	}
	if len(r.Expectations) != 9 {
		t.Errorf("%d expectations, want 3 of 3 treatments", len(r.Expectations))
	}
	for _, tr := range r.Treatments {
		if retries := tr.Metrics["mesh_retries"].Estimate; (retries > 0) != (tr.ID == "envoy-retries") {
			t.Errorf("%s: %v retries", tr.ID, retries)
		}
	}
}

// differenceOf returns the comparison of a treatment with its baseline, which has an interval.
func differenceOf(t *testing.T, r *answer.Report, treatment, metric string) compare.Comparison {
	t.Helper()
	c, ok := r.Find(treatment, metric)
	if !ok {
		t.Fatalf("%s: %s is not compared", treatment, metric)
	}
	if c.Difference == nil || !c.Difference.Known() {
		t.Fatalf("%s: no interval of %s: %+v", treatment, metric, c)
	}
	return c
}

// tare recovers a known cost within a tenth, or within twice its own interval: one in twenty costs is outside of the interval.
func TestStandardWeight(t *testing.T) {
	r, code := carriedOut(t, "standard-weight.yaml", "blocks=4", "factors.mesh=[reference, reference-500us]", "control=false",
		"factors.rate=[300]", "phases={warmup: 500ms, measure: 2500ms, drain: 500ms}")
	if code != console.Done {
		t.Errorf("exit code %d", code)
	}
	c := differenceOf(t, r, "reference-500us", "cpu_us_per_request/data")
	const weight = 500.0
	d := c.Difference
	if near := d.Estimate > 0.9*weight && d.Estimate < 1.1*weight; !near && (*d.Low-(d.Estimate-*d.Low) > weight || *d.High+(*d.High-d.Estimate) < weight) {
		t.Errorf("measured %v [%v, %v] µs, the known cost is %v", d.Estimate, *d.Low, *d.High, weight)
	}
	if c.Verdict != compare.Higher {
		t.Errorf("verdict %q on a weight of %v µs", c.Verdict, weight)
	}
}

// Work after the answer costs the same beside others as alone: all of it is found.
func TestDeferredWork(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deferred.yaml")
	const text = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: deferred-work}
meshes:
  at-once: {from: reference, arguments: [--burn, 500us]}
  later: {from: reference, arguments: [--defer, 500us, --defer-by, 300ms]}
  flushed: {from: reference, arguments: [--defer, 500us, --flush, 5s]}
factors: {mesh: [reference, at-once, later, flushed], rate: [200], connections: [4]}
load: {arrivals: constant}
baseline: {mesh: reference}
control: false
blocks: 4
phases: {warmup: 1s, measure: 2s, drain: 1s}
validity: {rateShortfall: 0.5, lateness: 5s}
`
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	found := map[string]stats.Interval{}
	for _, order := range []string{experiment.OrderInterleaved, experiment.OrderRandom} {
		r, _ := carriedOut(t, file, "order="+order)
		found[order] = *differenceOf(t, r, "later", "cpu_us_per_request/data").Difference
		if order != experiment.OrderInterleaved {
			continue // a phase of 2 s does not show the usual
		}
		warned := map[string]int{} // on a busy machine, late answers are bursts too
		for _, tr := range r.Trials {
			if strings.Contains(fmt.Sprint(tr.Warnings), "cpu-bursts") {
				warned[tr.Treatment]++
			}
		}
		if warned["flushed"] < 3 || warned["flushed"] <= warned["later"] {
			t.Errorf("trials with cpu-bursts: %v", warned)
		}
	}
	beside, alone := found[experiment.OrderInterleaved], found[experiment.OrderRandom]
	within := (*beside.High - *beside.Low + *alone.High - *alone.Low) / 2
	if math.Abs(beside.Estimate-alone.Estimate) > within+0.03*alone.Estimate || beside.Estimate < 400 {
		t.Errorf("interleaved %v [%v, %v] µs, alone %v [%v, %v], planted 500", beside.Estimate, *beside.Low, *beside.High, alone.Estimate, *alone.Low, *alone.High)
	}
}

// A leak of 16 KiB a request is found in one soak, beside a treatment that has none.
func TestLeak(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "leak.yaml")
	const text = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: leak}
meshes:
  leak: {from: reference, arguments: [--leak, "16"]}
factors: {mesh: [reference, leak], rate: [200], connections: [4]}
baseline: {mesh: reference}
control: false
phases: {warmup: 1s, soak: 20s, drain: 1s}
validity: {rateShortfall: 0.5, lateness: 5s}
`
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	r, _ := carriedOut(t, file)
	per := "memory_growth_kib_per_1000/data"
	for _, tr := range r.Treatments {
		got, known := tr.Metrics[per]
		switch tr.ID {
		case "leak":
			if kib := got.Estimate / 1000; kib < 12 || kib > 20 || !got.Known() || !(*got.Low > 0) {
				t.Errorf("leak grows by %v KiB a request (%+v), planted 16", kib, got.Interval)
			}
		default:
			if kib := got.Estimate / 1000; !known || math.Abs(kib) > 4 {
				t.Errorf("%s grows by %v KiB a request (known: %v), planted none", tr.ID, kib, known)
			}
		}
	}
	for _, x := range r.Trends {
		if grows := x.Verdict == answer.StillGrowing; x.Metric == "memory_mib/data" && grows != (x.Treatment == "leak") {
			t.Errorf("memory of %s: %s, by %+v MiB an hour", x.Treatment, x.Verdict, x.PerHour)
		}
	}
	if i := slices.IndexFunc(r.Warnings, func(w figures.Warning) bool { return w.Code == answer.MemoryGrows }); i < 0 {
		t.Errorf("no warning %s in %v", answer.MemoryGrows, r.Warnings)
	}
}

// The study of the sidecar compares ways to one function. In process the sidecar is idle. A quarter of a megabyte in
// JSON costs more than in process, at both ends.
func TestToSidecarOrNot(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	adder := filepath.Join(t.TempDir(), "adder")
	if out, err := exec.Command("go", "build", "-o", adder, "../../examples/adder").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	routes := []string{"/adder", "/adder-with-sidecar", "/adder,/adder-with-sidecar-grpc"}
	if os.Getenv("TARE_TEST_ALL") != "" {
		routes = append(routes, "/adder-with-sidecar-socket", "/adder-with-sidecar-grpc", "/adder-with-sidecar-grpc-socket")
	}
	// At half of the study's rate: a slow machine with other tests answers 45 of the 50 requests/s.
	r, _ := undisturbed(t, "to-sidecar-or-not.yaml", "blocks=1", "factors.route=['"+strings.Join(routes, "', '")+"']", "factors.requestSize=[256KiB]", "factors.rate=[25]",
		"application.command=["+adder+", -listen, '127.0.0.1:${port}', -sidecar, '127.0.0.1:${adder.port}']",
		"application.beside=[{name: adder, command: ["+adder+", -listen, '127.0.0.1:${port}']}]",
		"phases={prewarm: 0s, warmup: 1s, measure: 3s, drain: 1s}", "validity={rateShortfall: 0.5, lateness: 1s}")
	if len(r.Treatments) != len(routes) {
		t.Fatalf("%d treatments", len(r.Treatments))
	}
	cpu := map[string]map[string]float64{}
	for _, tr := range r.Treatments {
		route := tr.Factors["route"].(string)
		cpu[route] = map[string]float64{}
		for _, part := range []string{"app", "data"} {
			cpu[route][part] = tr.Metrics[metric.CPUPerRequest+"/"+part].Estimate
		}
		all := strings.Contains(route, ",")
		if _, ok := tr.Metrics[metric.RequestP50+"//adder-with-sidecar-grpc"]; ok && !all {
			t.Errorf("%s has the response time of another route", route)
		}
		if idle := route == "/adder"; cpu[route]["app"] <= 0 || (cpu[route]["data"] > 100) == idle {
			t.Errorf("%s: %v µs of CPU", route, cpu[route])
		}
	}
	if rest, local := cpu["/adder-with-sidecar"], cpu["/adder"]; rest["app"] < 1.5*local["app"] {
		t.Errorf("a quarter of a megabyte in JSON is cheaper than in process: %v", cpu)
	}
}

// Consul, Envoy and none: killing Consul's agent under load does not affect requests.
func TestConsulLosesItsControlPlane(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("Consul takes twelve minutes to build: make e2e-all runs it")
	}
	t.Parallel()
	r, code := carriedOut(t, "consul-local.yaml", "blocks=1", "control=false", "factors.rate=[100]", "phases={warmup: 1s, measure: 4s, drain: 1s}",
		"faults=[{kind: kill, at: 1s, target: {plane: control}}]", "expect=['success_ratio == 1']", "validity={lateness: 5s, rateShortfall: 0.5}")
	// Trials without a control plane are invalid on a busy machine.
	if code != console.Done && code != console.Incomplete {
		t.Errorf("exit code %d: a request was lost", code)
	}
	for _, tr := range r.Treatments {
		if code == console.Incomplete && tr.ID != "consul" && tr.N == 0 {
			continue
		}
		control, known := tr.Metrics["cpu_us_per_request/control"]
		if tr.N != 1 || !known || (control.Estimate > 0) != (tr.ID == "consul") {
			t.Errorf("%s: %d valid trials, control plane %+v: %+v", tr.ID, tr.N, control, r.Warnings)
		}
	}
}

// A program nobody here wrote is measured without a file, and the file that is kept repeats it.
func TestWeigh(t *testing.T) {
	t.Parallel()
	python, weigh := pythonAndWeigh(t)
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept.yaml")
	stdout, stderr, code := weigh("--cold", "--keep", kept, "--out", filepath.Join(dir, "run"), "--", python, "-m", "http.server", "{port}")
	// Trials are invalid on a busy machine (3); then the answer is part of the report.
	if code != console.Done && code != console.Incomplete || !strings.Contains(strings.Join(strings.Fields(stdout), " "), "CPU per request") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	if logs, _ := filepath.Glob(filepath.Join(dir, "run-search-*")); len(logs) > 0 || strings.Contains(stderr, "failed search") {
		t.Errorf("logs of a search that found a rate: %q", logs)
	}
	if out, err := exec.Command(filepath.Join(programs(t), "tare"), "plan", kept).CombinedOutput(); err != nil {
		t.Errorf("the kept file: %v\n%s", err, out)
	}
}

// While Envoy is downloaded, the reference proxy is measured in its place: its interval is there before the download ends.
func TestFirstLook(t *testing.T) {
	t.Parallel()
	python, _ := pythonAndWeigh(t)
	pip, began := t.TempDir(), time.Now()
	const slow = "#!/bin/sh\n[ \"$3\" = --version ] || { sleep 60; echo no index >&2; exit 1; }\n"
	must.OK(t, os.WriteFile(filepath.Join(pip, "python3"), []byte(slow), 0o700))
	env := []string{"PATH=" + pip + ":/usr/bin:/bin", "TARE_ENVOY=", "XDG_CACHE_HOME=" + t.TempDir()}
	_, stderr, code := tareWith(t, t.TempDir(), env, "weigh", "--", python, "-m", "http.server", "{port}")
	_, look, found := strings.Cut(stderr, "a first look, with tare's reference proxy while Envoy is downloaded: Two reference sidecars use ")
	look, failed, _ := strings.Cut(look, "\n")
	if code != console.Failed || !found || !strings.Contains(look, "±") && !strings.Contains(look, " to ") || !strings.Contains(failed, "no index") {
		t.Errorf("exit code %d after %v\n%s", code, time.Since(began), stderr)
	}
}

// pythonAndWeigh returns a Python interpreter and a function that calls tare weigh in a directory of its own.
func pythonAndWeigh(t *testing.T) (python string, weigh func(args ...string) (stdout, stderr string, code int)) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	python = programtest.Installed(t, "python3", "apt install python3")
	return python, func(args ...string) (string, string, int) {
		return tareIn(t, t.TempDir(), append([]string{"weigh", "--plain", "--time", "10s", "--mesh", "reference"}, args...)...)
	}
}

// A program without measurable answers is named with its reason. Its logs stay beside the results directory.
func TestWeighOfBrokenPrograms(t *testing.T) {
	python, weigh := pythonAndWeigh(t)
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
		logs bool
	}{
		"ends":      {[]string{"--", python, "-c", "raise SystemExit('no database')"}, "no database", true},
		"elsewhere": {[]string{"--", python, "-m", "http.server", "0"}, "{port}", true},
		"404":       {[]string{"--path", "/absent", "--", python, "-m", "http.server", "{port}"}, "status 404", true},
		"stopped":   {[]string{"--url", "http://127.0.0.1:1/"}, "connection refused", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "run")
			stdout, stderr, code := weigh(append([]string{"--out", out}, tc.args...)...)
			if code != console.Failed || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s%s", code, console.Failed, tc.want, stderr, stdout)
			}
			logs, err := filepath.Glob(out + "-search-*")
			if named := len(logs) == 1 && strings.Contains(stderr, "logs of the failed search: "+logs[0]); err != nil || named != tc.logs || len(logs) > 1 {
				t.Errorf("logs in %q, want them: %v; %v\n%s", logs, tc.logs, err, stderr)
			}
		})
	}
}

// Connections that follow a route 300 ms later than others are found, as a slow worker's would be, and connections that
// never do.
func TestSlowAndDeafConnections(t *testing.T) {
	r, code := undisturbed(t, "route-change.yaml", "blocks=1", "control=false", "factors={mesh: [envoy-xds, slow, deaf], rate: [640], connections: [16]}",
		"meshes={slow: {from: envoy-xds, options: {late: 300}}, deaf: {from: envoy-xds, options: {late: 60000}}}",
		"baseline={mesh: envoy-xds}", "changes={every: 80ms, count: 36}", "phases={warmup: 1s, measure: 3500ms, drain: 200ms}", "validity={rateShortfall: 0.5, lateness: 5s}")
	if code != console.Done || len(r.Treatments) != 3 {
		t.Fatalf("exit code %d, %d treatments: %+v", code, len(r.Treatments), r.Warnings)
	}
	metrics := map[string]map[string]compare.Estimate{}
	for _, tr := range r.Treatments {
		metrics[tr.ID] = tr.Metrics
	}
	const first, last, never = "change_first_new_ms/route-changed", "change_last_old_ms/route-changed", "change_unchanged_connections/route-changed"
	for _, id := range []string{"slow", "deaf"} {
		if late := metrics[id][first].Estimate - metrics["envoy-xds"][first].Estimate; math.Abs(late) > 40 {
			t.Errorf("%s: the first effect comes %v ms later, want none", id, late)
		}
	}
	if late := metrics["slow"][last].Estimate - metrics["envoy-xds"][last].Estimate; math.Abs(late-300) > 60 {
		t.Errorf("slow: the last old answer comes %v ms later, want 300", late)
	}
	if e, known := metrics["deaf"][last]; known {
		t.Errorf("deaf: the last old answer comes after %v ms, want never", e.Estimate)
	}
	for id, want := range map[string]bool{"envoy-xds": false, "slow": false, "deaf": true} {
		if e, known := metrics[id][never]; !known || (e.Estimate >= 1) != want {
			t.Errorf("%s: %v connections never change (%v), want some: %v", id, e.Estimate, known, want)
		}
	}
	if !slices.ContainsFunc(r.Warnings, func(w figures.Warning) bool {
		return w.Code == "change-unlearned" && strings.Contains(w.Message, "of 16 connections never changed")
	}) {
		t.Errorf("no warning of connections that never change: %+v", r.Warnings)
	}
}

// Background services reach each proxy, and change at their rate. Without a mesh there are none.
func TestBackground(t *testing.T) {
	t.Parallel()
	r, code := undisturbed(t, "churn-local.yaml", "blocks=1", "control=false", "factors={mesh: [none, envoy-xds], rate: [200], connections: [4]}",
		"background={services: 200, changes: 10/s}", "changes={every: 100ms, count: 38}", "phases={warmup: 2s, measure: 4s, drain: 1s}", "baseline={mesh: none}", "validity={rateShortfall: 0.5, lateness: 5s}")
	if code != console.Done || len(r.Treatments) != 2 {
		t.Fatalf("exit code %d, %d treatments: %+v", code, len(r.Treatments), r.Warnings)
	}
	for _, tr := range r.Treatments {
		e, known := tr.Metrics["background_changes_per_s"]
		if known != (tr.ID == "envoy-xds") || known && math.Abs(e.Estimate-10) > 1 {
			t.Errorf("%s: %v background changes per second (%v), want 10 with a mesh", tr.ID, e.Estimate, known)
		}
		if last := tr.Metrics["change_last_old_ms/route-changed"]; last.N != 1 {
			t.Errorf("%s: the time of route changes is unknown: %+v", tr.ID, r.Warnings)
		}
	}
	if want := "200 services that no request calls, with"; !strings.Contains(r.Setup.Background, want) {
		t.Errorf("got %q, want %q", r.Setup.Background, want)
	}
}

// Simulated proxies: a delay of the control plane is recovered, each change reaches every proxy, and the cost of a proxy is a slope.
func TestSimulatedProxies(t *testing.T) {
	r, code := undisturbed(t, "churn.yaml", "blocks=1", "control=false", "oneAtATime=false", "meshes={slow: {from: envoy-xds, options: {delay: \"200\"}}}",
		"factors={mesh: [envoy-xds, slow], rate: [20], connections: [2], backgroundProxies: [5, 100, 300]}", "background={services: 50, changes: 20/s}",
		"phases={warmup: 1s, measure: 2s, drain: 2s}", "baseline={mesh: envoy-xds, backgroundProxies: 5}", "validity={rateShortfall: 0.5}")
	if code != console.Done || len(r.Treatments) != 6 {
		t.Fatalf("exit code %d, %d treatments: %+v", code, len(r.Treatments), r.Warnings)
	}
	push := map[string]float64{} // ms
	for _, tr := range r.Treatments {
		push[tr.ID] = tr.Metrics["push_ms/p50"].Estimate
		if missed, known := tr.Metrics["push_missed_ratio"]; !known || missed.Estimate > 0 {
			t.Errorf("%s: %v of the pushes are missed (%v), want none", tr.ID, missed.Estimate, known)
		}
		if sync, known := tr.Metrics["push_sync_ms"]; !known || sync.Estimate <= 0 {
			t.Errorf("%s: the time of the first configuration is %v (%v)", tr.ID, sync.Estimate, known)
		}
	}
	if late := push["slow-proxies5"] - push["envoy-xds-proxies5"]; math.Abs(late-200) > 50 {
		t.Errorf("a push by a control plane with a delay of 200 ms comes %v ms later", late)
	}
	slope := slices.IndexFunc(r.Slopes, func(s compare.Slope) bool {
		return s.Mesh == "envoy-xds" && s.Option == "backgroundProxies" && s.Metric == "cpu_cores/control"
	})
	if slope < 0 || r.Slopes[slope].PerItem.Estimate <= 0 {
		t.Errorf("the CPU of the control plane has no slope over proxies: %+v", r.Slopes)
	}
	if want := "Simulated: the proxies of the background"; !strings.Contains(r.Setup.Background, want) {
		t.Errorf("got %q, want %q", r.Setup.Background, want)
	}
}

// The parts of a start are known, also behind a real Envoy. The end of a pod ends both processes.
func TestStarts(t *testing.T) {
	t.Parallel()
	startDelays(t, "starts=3", "blocks=1")
}

// An application that sleeps 200 ms longer before it listens answers as much later, also through a real Envoy, on a quiet machine:
// the interval has a delay within the 5 ms between two probes.
func TestStandardStarts(t *testing.T) {
	const slept, between = 200, 5
	for at, late := range startDelays(t, "starts=10", "blocks=3") {
		half, known := late.HalfWidth()
		t.Logf("%s: the late application answers %.2f ±%.2f ms later", at, late.Estimate, half)
		if off := math.Abs(late.Estimate - slept); !known || off > between+half || off > 2*between { // a wide interval excludes nothing
			t.Errorf("%s: the late application answers %.2f ±%.2f ms later, want %d ±%d", at, late.Estimate, half, slept, between)
		}
	}
}

// startDelays starts an application that sleeps 300 or 500 ms before it listens: neither starts while Envoy starts and needs the
// CPUs. It returns how much later the second one answers, ms, by mesh and part, with an interval from two blocks on.
func startDelays(t *testing.T, set ...string) map[string]stats.Interval {
	dir := t.TempDir()
	agent, file := filepath.Join(programs(t), "tare-agent"), filepath.Join(dir, "starts.yaml")
	must.OK(t, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: starts}
applications:
  prompt: {command: [sh, -c, "sleep 0.3; exec %[1]s serve --listen 127.0.0.1:${port}"]}
  late: {command: [sh, -c, "sleep 0.5; exec %[1]s serve --listen 127.0.0.1:${port}"]}
factors: {application: [prompt, late], mesh: [none, envoy], rate: [50]}
phases: {prewarm: 0s, warmup: 500ms, measure: 1s, drain: 1s}
validity: {rateShortfall: 0.5, lateness: 5s}
starts: 1
blocks: 1
`, agent), 0o600))
	r, code := undisturbed(t, file, set...)
	if code != console.Done {
		t.Errorf("exit code %d: %+v", code, r.Warnings)
	}
	first := map[string]stats.Interval{}
	for _, tr := range r.Treatments {
		mesh, application := fmt.Sprint(tr.Factors["mesh"]), fmt.Sprint(tr.Factors["application"])
		for _, part := range []string{"app", "through"} {
			e, known := tr.Metrics["start_ms/"+part]
			if !known {
				t.Fatalf("%s: the start of %s is unknown", tr.ID, part)
			}
			first[application+" "+mesh+" "+part] = e.Interval
		}
		if _, has := tr.Metrics["stop_ms/sidecar"]; has != (mesh == "envoy") {
			t.Errorf("%s: the end of a sidecar is known: %v", tr.ID, has)
		}
	}
	delays := map[string]stats.Interval{}
	for _, at := range []string{"none app", "none through", "envoy app", "envoy through"} {
		late, prompt := first["late "+at], first["prompt "+at]
		delay := stats.Interval{Estimate: late.Estimate - prompt.Estimate}
		a, has := late.HalfWidth()
		if b, also := prompt.HalfWidth(); has && also {
			half := math.Hypot(a, b)
			delay.Low, delay.High = new(delay.Estimate-half), new(delay.Estimate+half)
		}
		delays[at] = delay
	}
	return delays
}
