package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/companion"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// Commands that read runs take the newest one if none is named, and print which. The names are in the other order.
func TestNewestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	tare := func(args ...string) (int, string, string) {
		var out, stderr bytes.Buffer
		code := New(console.Console{Out: &out, Err: &stderr}, nil).Run(t.Context(), args)
		return code, out.String(), stderr.String()
	}
	for _, command := range []string{"report", "watch", "verify", "compare runs/a", "compare"} {
		if code, _, text := tare(strings.Fields(command)...); code != console.BadUsage || !strings.Contains(text, "runs/ has no run") {
			t.Errorf("%s without runs: exit code %d: %s", command, code, text)
		}
	}
	earlier := time.Now().Add(-time.Hour)
	for _, name := range []string{"b-newest", "c-older"} {
		s := answertest.Quickstart()
		s.Blocks, s.Warmup, s.Measure, s.Rate = 3, 1, 2, 50
		dir := filepath.Join("runs", name)
		must.OK(t, s.Write(t, dir).Close())
		if name == "c-older" {
			must.OK(t, os.Chtimes(filepath.Join(dir, result.PlanFile), earlier, earlier))
		}
	}
	const note = "tare: newest run: runs/b-newest\n"
	for _, command := range []string{"report", "watch --speed 0", "verify", "compare runs/c-older --anyway", "compare --anyway"} {
		code, out, text := tare(strings.Fields(command)...)
		if code != console.Done {
			t.Errorf("%s: exit code %d: %s", command, code, text)
		}
		if !strings.HasPrefix(text, note) {
			t.Errorf("%s: standard error does not begin with the newest run:\n%.300s", command, text)
		}
		if strings.Contains(out, note) {
			t.Errorf("%s: the note is on standard output", command)
		}
	}
	if _, _, text := tare("compare", "--anyway"); !strings.Contains(text, "tare: the run before it: runs/c-older\n") {
		t.Errorf("compare without a directory: %s", text)
	}
	if code, _, text := tare("compare", "runs/b-newest"); code != console.BadUsage || !strings.Contains(text, "newest run itself") {
		t.Errorf("compare with itself: exit code %d: %s", code, text)
	}
}

// A curve is of the newest run with several rates, not of a newer one of another kind.
func TestNewestCurve(t *testing.T) {
	t.Chdir(t.TempDir())
	var stderr bytes.Buffer
	c := New(console.Console{Out: &bytes.Buffer{}, Err: &stderr}, nil)
	write := func(name string, age time.Duration, rates ...float64) {
		s := answertest.Quickstart()
		s.Blocks, s.Warmup, s.Measure, s.Rate = 3, 1, 2, 50
		dir := filepath.Join("runs", name)
		must.OK(t, s.Write(t, dir).Close())
		file := filepath.Join(dir, result.PlanFile)
		var p plan.Plan
		must.OK(t, json.Unmarshal(must.Get(os.ReadFile(file))(t), &p))
		for i, rate := range rates {
			p.Treatments[i].Levels.Rate = experiment.Rate(rate)
		}
		must.OK(t, os.WriteFile(file, must.Get(json.Marshal(p))(t), 0o644))
		at := time.Now().Add(-age)
		must.OK(t, os.Chtimes(file, at, at))
	}
	write("a-newest", 0)
	_, err := c.curves(nil, "tare run FILE")
	must.Fail(t, err, "no run in runs/ has several rates")
	write("b-curve", time.Minute, 50, 100)
	write("c-older", time.Hour, 50, 200)
	got := must.Get(c.curves(nil, ""))(t)
	if want := filepath.Join("runs", "b-curve"); len(got) != 1 || got[0] != want {
		t.Errorf("%v, want %s", got, want)
	}
	must.Contain(t, stderr.String(), "newest run with several rates: runs/b-curve")
}

// A program that takes over a command gets the newest run as an argument.
func TestNewestRunIsHandedOver(t *testing.T) {
	t.Chdir(t.TempDir())
	must.OK(t, os.MkdirAll("runs/one", 0o755))
	must.OK(t, os.WriteFile("runs/one/plan.json", nil, 0o644))
	program := filepath.Join(t.TempDir(), "tare-kube")
	must.OK(t, os.WriteFile(program, nil, 0o755))
	t.Setenv(companion.Kube.Env, program)
	c := New(console.Console{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, nil)
	var got []string
	c.handOver.exec = func(_ string, argv, _ []string) error { got = argv[1:]; return nil }
	var stderr bytes.Buffer
	c.Err = &stderr
	c.Run(t.Context(), []string{"report", "--push", "http://127.0.0.1:1/api/v1/write"})
	if want := "report --push http://127.0.0.1:1/api/v1/write runs/one"; strings.Join(got, " ") != want {
		t.Errorf("handed over: %q, want %q\n%s", got, want, &stderr)
	}
}

// Without a run, the hint of a forecast measures the rates and sizes of its graph, and the hint of a size the rate that is asked:
// what they print next needs no second run.
func TestFirstCurve(t *testing.T) {
	graph := must.Get(filepath.Abs("../../examples/graphs/shop.yaml"))(t)
	t.Chdir(t.TempDir())
	hintOf := func(args ...string) string {
		var stderr bytes.Buffer
		c := New(console.Console{Out: &bytes.Buffer{}, Err: &stderr}, nil)
		c.Run(t.Context(), args)
		return stderr.String()
	}
	must.Contain(t, hintOf("forecast", "--graph", graph, "--rate", "300"),
		"measure a curve first: tare run examples/quickstart.yaml --set 'factors.rate=[54, 140, 380, 990]' --set 'factors.responseSize=[500, 16KiB]' --set blocks=8 --out runs/curve")
	must.Contain(t, hintOf("size", "--rate", "5000"), "--set 'factors.rate=[100, 380, 1400, 5500]' --out runs/curve")
	must.Contain(t, hintOf("size", "--rate", "800"), "--set 'factors.rate=[100, 220, 460, 1000]' --out runs/curve")
	must.Contain(t, hintOf("size", "--rate", "20"), "--set 'factors.rate=[18, ")
}
