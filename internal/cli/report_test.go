package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// results writes a small results directory with a known truth and returns its path.
func results(t *testing.T) string {
	t.Helper()
	s := answertest.Quickstart()
	s.Blocks, s.Warmup, s.Measure, s.Rate = 3, 1, 2, 50
	dir := filepath.Join(t.TempDir(), "run")
	s.Write(t, dir)
	return dir
}

func TestReport(t *testing.T) {
	dir := results(t)
	text := must.Get(call(t, newReportCommand, dir))(t)
	must.Contain(t, text, "Without a mesh a request needs ", "; the proxies use, least first:", ", 2.2 times as much in all", "  envoy: ", ", 4.1 times as much in all")
	all, err := call(t, newReportCommand, dir, "--all")
	if err != nil || len(all) < 2*len(text) {
		t.Errorf("--all: %v, %d bytes beside %d", err, len(all), len(text))
	}
	document, err := call(t, newReportCommand, dir, "--format", "json")
	var r answer.Report
	if err != nil || json.Unmarshal([]byte(document), &r) != nil {
		t.Errorf("json: %v, %d trials", err, len(r.Trials))
	} else if d := difftest.Of("r.Schema", r.Schema, answer.Schema, "len(r.Trials)", len(r.Trials), 15); d != "" {
		t.Errorf("%s: json: %v, %d trials", d, err, len(r.Trials))
	}
}

// The page is complete, verified, and of the same run.
func TestReportAsPage(t *testing.T) {
	dir := results(t)
	page, err := call(t, newReportCommand, dir, "--format", "html")
	if err != nil {
		t.Errorf("%v\n%.300s", err, page)
	} else if d := difftest.Wrong(`!strings.HasPrefix(page, "<!doctype html>")`, !strings.HasPrefix(page, "<!doctype html>"), `!strings.HasSuffix(page, "</html>\n")`, !strings.HasSuffix(page, "</html>\n"), `!strings.Contains(page, "Records verified")`, !strings.Contains(page, "Records verified")); d != "" {
		t.Errorf("%s: %v\n%.300s", d, err, page)
	}
	logs, _ := filepath.Glob(filepath.Join(dir, "trials", "1-*", result.LatencyFile))
	if len(logs) != 1 {
		t.Fatalf("latency logs of the first trial: %v", logs)
	}
	must.OK(t, os.WriteFile(logs[0], []byte("changed"), 0o644))
	page, err = call(t, newReportCommand, dir, "--format", "html")
	if err != nil || strings.Contains(page, "Records verified") || !strings.Contains(page, "in the records") {
		t.Errorf("a changed record: %v", err)
	}
}

// With -o the file gets the report, and standard output stays empty.
func TestReportToFile(t *testing.T) {
	dir := results(t)
	want := must.Get(call(t, newReportCommand, dir))(t)
	out := must.File(t, t.TempDir(), "report.txt", "what stood there before")
	stdout, err := call(t, newReportCommand, dir, "-o", out)
	if err != nil || stdout != "" {
		t.Errorf("%v, %q", err, stdout)
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestReportRefuses(t *testing.T) {
	dir := results(t)
	var usage *hint.UsageError
	if _, err := call(t, newReportCommand, dir, "--format", "pdf"); !errors.As(err, &usage) || !strings.Contains(usage.Hint(), "text, json") {
		t.Errorf("unknown format: %v", err)
	}
	must.Fail(t, must.Err(call(t, newReportCommand, t.TempDir())), "not a results directory", "an empty directory")
	out := filepath.Join(t.TempDir(), "missing", "report.txt")
	must.Fail(t, must.Err(call(t, newReportCommand, dir, "-o", out)), out, "a file in no directory")
}
