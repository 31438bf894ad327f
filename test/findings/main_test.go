package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// The tables in the pages are those of the recorded runs.
func TestPagesHaveTheRuns(t *testing.T) {
	for name, want := range must.Get(tables("../../docs/findings"))(t) {
		if got := must.Get(os.ReadFile(name))(t); !bytes.Equal(got, want) {
			t.Errorf("%s: run go run ./test/findings", name)
		}
	}
}

// A run is added with its gate, a second one is compared with it, and all else of a page stays.
func TestAddRuns(t *testing.T) {
	pages := t.TempDir()
	page := filepath.Join(pages, "quickstart.md")
	must.OK(t, os.WriteFile(page, []byte("# Before\n\n<!-- runs quickstart: cpu_us_per_request/data -->\nearlier\n<!-- end -->\n\nAfter\n"), 0o600))
	must.OK(t, run(pages, "", ""))
	if got := string(must.Get(os.ReadFile(page))(t)); !strings.Contains(got, "-->\n\nNo run so far.\n\n<!-- end -->\n\nAfter\n") {
		t.Errorf("a page before its first run:\n%s", got)
	}
	s := answertest.Quickstart()
	s.YAML = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: quickstart}\ndecide: {gates: ['cpu_us_per_request/data{mesh=envoy} < +1us']}\n"
	dir := filepath.Join(t.TempDir(), "run")
	must.OK(t, s.Write(t, dir).Close())
	if err := run(pages, dir, ""); err == nil || !strings.Contains(err.Error(), "-load") {
		t.Errorf("without a load average: %v", err)
	}
	must.OK(t, run(pages, dir, "0.25"))
	got := string(must.Get(os.ReadFile(page))(t))
	for _, want := range []string{"# Before\n\n<!-- runs quickstart: cpu_us_per_request/data -->\n\n| treatment | cpu_us_per_request/data, µs |", "| does not hold |", ", 0.25 |", "One run so far", "<!-- end -->\n\nAfter\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "earlier") {
		t.Error("the table of before is still there")
	}
	must.OK(t, run(pages, dir, "0.5"))
	if got = string(must.Get(os.ReadFile(page))(t)); !strings.Contains(got, "The intervals of 2 runs overlap.") || strings.Count(got, "| does not hold |") != 2 {
		t.Errorf("two runs:\n%s", got)
	}
	again := string(must.Get(os.ReadFile(page))(t))
	must.OK(t, run(pages, "", ""))
	if got = string(must.Get(os.ReadFile(page))(t)); got != again {
		t.Error("the same runs write another page")
	}
}

// Runs whose intervals lie apart are named.
func TestRunsApart(t *testing.T) {
	one := func(low, high float64) measurement {
		var m measurement
		m.Gates = []gate{{Gate: "rate > -1%", Treatment: "envoy"}}
		m.Gates[0].Change = interval((low+high)/2, low, high)
		return m
	}
	if got := agreement([]measurement{one(1, 2), one(1.5, 3), one(2.5, 4)}); !strings.Contains(got, "3 runs do not overlap in the gates of envoy.") {
		t.Error(got)
	}
	if got := within(*interval(146.2, 140.4, 152.1), true); got != "+146.2 ±5.8" {
		t.Error(got)
	}
	if got := within(*interval(1.5, 1, 4), false); got != "1.5 (1.0 to 4.0)" {
		t.Error(got)
	}
}

func interval(estimate, low, high float64) *stats.Interval {
	return &stats.Interval{Estimate: estimate, Low: &low, High: &high}
}

// bundle writes the costs of one version of nginx, with a planted cost beside that of the common unit, as a bundle.
func bundle(t *testing.T, pages, name, version string, microseconds float64) {
	t.Helper()
	s, dir := answertest.Quickstart(), t.TempDir()
	s.Name, s.Drift, s.Treatments = "proxies", 0, []answertest.Treatment{
		{ID: "hop-envoy", Factors: plan.Factors{"mesh": "hop-envoy"}, Truth: answertest.Truth{AppUS: 60, DataUS: 180, AppMiB: 14, DataMiB: 48, MedianMS: 0.4}},
		{ID: "nginx-1", Factors: plan.Factors{"mesh": "nginx-1"}, Baseline: "hop-envoy", Truth: answertest.Truth{AppUS: 60, DataUS: microseconds, AppMiB: 14, DataMiB: 18, MedianMS: 0.2}},
	}
	must.OK(t, s.Write(t, filepath.Join(dir, costRun)).Close())
	environment := filepath.Join(dir, costRun, result.EnvironmentFile)
	text := bytes.Replace(must.Get(os.ReadFile(environment))(t), []byte(`"envoy": "1.40.0"`), []byte(`"nginx-1": "`+version+`"`), 1)
	must.OK(t, os.WriteFile(environment, text, 0o600))
	must.OK(t, os.WriteFile(filepath.Join(dir, loadFile), []byte("0.25"), 0o600))
	must.OK(t, pack(dir, filepath.Join(pages, "proxies", name+".tar.gz"), nil))
}

// The table of proxies is written from bundles alone: a version more is a line more, in the order of versions, with its cost as a
// multiple of the common unit.
func TestProxiesByRelease(t *testing.T) {
	pages := t.TempDir()
	page := filepath.Join(pages, "proxies.md")
	must.OK(t, os.WriteFile(page, []byte("Before\n\n"+bundledMark+"\nearlier\n<!-- end -->\n\nAfter\n"), 0o600))
	bundle(t, pages, "a", "1.26.3", 90)
	must.OK(t, run(pages, "", ""))
	one := string(must.Get(os.ReadFile(page))(t))
	lines := regexp.MustCompile(`\| nginx \| 1.26.3 \| (\S+) [^|]*\| (\S+) [^|]*\| 18.*\| not measured \|.* load 0.25 \|`).FindStringSubmatch(one)
	if lines == nil || !strings.HasPrefix(one, "Before\n\n"+bundledMark+"\n\n| proxy |") || !strings.HasSuffix(one, "\n<!-- end -->\n\nAfter\n") || strings.Contains(one, "earlier") {
		t.Fatal(one)
	}
	if cost, times := must.Get(strconv.ParseFloat(lines[1], 64))(t), must.Get(strconv.ParseFloat(lines[2], 64))(t); math.Abs(cost-90) > 5 || math.Abs(times-0.5) > 0.02 {
		t.Errorf("90 µs beside 180 are %v µs, %v times", cost, times)
	}
	bundle(t, pages, "b", "1.9.2", 180)
	must.OK(t, run(pages, "", ""))
	two := string(must.Get(os.ReadFile(page))(t))
	if before, after := strings.Index(two, "| 1.9.2 |"), strings.Index(two, "| 1.26.3 |"); before < 0 || after < before || strings.Count(two, "\n") != strings.Count(one, "\n")+1 {
		t.Error(two)
	}
	must.OK(t, run(pages, "", ""))
	if again := string(must.Get(os.ReadFile(page))(t)); again != two {
		t.Error("the same bundles write another page")
	}
}

// Bundles stay small, and the same files have the same bytes.
func TestBundles(t *testing.T) {
	sum := int64(0)
	for _, name := range must.Get(filepath.Glob("../../docs/findings/proxies/*.tar.gz"))(t) {
		sum += must.Get(os.Stat(name))(t).Size()
	}
	if sum > 2<<20 {
		t.Errorf("bundles have %d bytes, at most 2 MiB", sum)
	}
	dir, unpacked, pages := t.TempDir(), t.TempDir(), t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, result.ExperimentFile), []byte("program: /opt/b/nginx-2\n"), 0o600))
	must.OK(t, pack(dir, filepath.Join(pages, "named.tar.gz"), []string{"envoy@1.36.4", "nginx=/opt/b/nginx-2"}))
	must.OK(t, unpack(filepath.Join(pages, "named.tar.gz"), unpacked))
	if got := string(must.Get(os.ReadFile(filepath.Join(unpacked, result.ExperimentFile)))(t)); got != "program: nginx-2\n" {
		t.Errorf("a bundle has the directory of a program: %q", got)
	}
	bundle(t, pages, "a", "1.26.3", 90)
	bundle(t, pages, "b", "1.26.3", 90)
	a, b := must.Get(os.ReadFile(filepath.Join(pages, "proxies", "a.tar.gz")))(t), must.Get(os.ReadFile(filepath.Join(pages, "proxies", "b.tar.gz")))(t)
	if !bytes.Equal(a, b) {
		t.Error("the same runs are packed differently")
	}
}

// The flags of a measurement name every version once. A proxy that takes no new routes gets none.
func TestSettingsOfVersions(t *testing.T) {
	got := must.Get(settings(costRun, []string{"envoy@1.36.4", "varnish=varnishd-13"}))(t)
	want := []string{"--set", `meshes={hop-envoy: {from: envoy-plaintext, gateway: {}}, envoy-1: {from: envoy-plaintext, gateway: {}, version: "1.36.4"}, varnish-2: {from: varnish, gateway: {}, program: "varnishd-13"}}`,
		"--set", "factors.mesh=[hop-envoy, envoy-1, varnish-2]"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	got = must.Get(settings(changesRun, []string{"varnish=/opt/varnishd"}))(t)
	want = []string{"--set", `meshes={varnish-1: {from: varnish, program: "/opt/varnishd"}}`, "--set", "factors.mesh=[varnish-1]", "--set", "changes=null", "--set", "phases.measure=1s"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, wrong := range []string{"", "nginx", "squid=/squid"} {
		if _, err := settings(costRun, []string{wrong}); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
