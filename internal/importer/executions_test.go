package importer

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	measured "github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

// executedFile is a file of hyperfine whose figures were computed by hand: means of 11.5 and 600 ms, medians of 11.5 and 600 ms.
const executedFile = `{"results": [
 {"command": "./old build", "mean": 0.0115, "stddev": 0.00129, "median": 0.0115, "user": 0.008, "system": 0.0025, "min": 0.010, "max": 0.013,
  "times": [0.010, 0.012, 0.011, 0.013], "memory_usage_byte": [3145728, 1048576, 1048576, 3145728], "exit_codes": [0, 0, 0, 0]},
 {"command": "./new build", "mean": 0.6, "stddev": 0.1, "median": 0.6, "user": 0.25, "system": 0.125, "min": 0.5, "max": 0.7, "times": [0.5, 0.7, 0.6], "exit_codes": [0, 0, 0]}]}`

// appended are two runs of two packages with a benchmark of one name each, the second run with two repetitions.
const appended = `goos: linux
goarch: amd64
pkg: a.test/x
cpu: Some CPU
BenchmarkRead-2   	     100	      2000 ns/op	  50.00 MB/s	      16 B/op	       1 allocs/op
PASS
ok  	a.test/x	1.2s
goos: linux
goarch: amd64
pkg: a.test/y
BenchmarkRead-2   	     100	      7000 ns/op
PASS
goos: linux
goarch: amd64
pkg: a.test/x
BenchmarkRead-2   	     100	      1000 ns/op	  50.00 MB/s	      16 B/op	       3 allocs/op
BenchmarkRead-2   	     100	      2000 ns/op	  50.00 MB/s	      16 B/op	       3 allocs/op
PASS
goos: linux
goarch: amd64
pkg: a.test/y
BenchmarkRead-2   	     100	      8000 ns/op
PASS
`

// executedLines has a line for each trial: its program, its baseline, its validity and its figures.
func executedLines(t *testing.T, s *Study) (lines []string) {
	t.Helper()
	p, of := s.expand()
	var records []result.Record
	for i := range s.Trials {
		r := s.Trials[i].Record
		r.Treatment, r.Block = of[i], p.Trials[i].Block
		records = append(records, r)
	}
	for i, m := range measured.Measure(result.Environment{}, records, measured.Options{File: func(string, string) string { return "" }}) {
		words := []string{fmt.Sprintf("%s %d against %q, %v", m.Treatment, m.Block, p.ByID()[m.Treatment].Baseline, m.Valid)}
		for _, name := range []string{metric.WallTime, metric.CPUTime, metric.UserTime, metric.SystemTime, metric.PeakOfExecution, metric.OutputSize, metric.ErrorRatio} {
			if v, ok := m.Metrics[name]; ok {
				words = append(words, fmt.Sprintf("%s=%.6g", name, v))
			}
		}
		var benchmarks []string
		for name, v := range m.Metrics {
			if b := metric.Base(name); b == metric.BenchmarkTime || b == metric.BenchmarkAllocs {
				benchmarks = append(benchmarks, fmt.Sprintf("%s=%.6g", name, v))
			}
		}
		slices.Sort(benchmarks)
		if e := s.Trials[i].Record.Error; e != "" {
			words = append(words, e)
		}
		lines = append(lines, strings.Join(append(words, benchmarks...), " "))
	}
	return lines
}

// The figures of programs that end are those computed by hand. Unknown ones are absent, and damaged files are refused with the place.
func TestExecutionsOfOutputs(t *testing.T) {
	const old, fresh = "wall_time=11.5 cpu_time=10.5 user_time=8 system_time=2.5 peak_memory=2 error_ratio=0", "wall_time=600 cpu_time=375 user_time=250 system_time=125 error_ratio=0"
	for _, test := range []struct {
		generator string
		files     [][2]string
		want      []string
	}{
		{"hyperfine", [][2]string{{"a.json", executedFile}}, []string{`old-build 1 against "", true ` + old, `new-build 1 against "old-build", true ` + fresh}},
		// Repeated runs of both are further trials.
		{"hyperfine", [][2]string{{"1.json", executedFile}, {"2.json", executedFile + "\n"}},
			[]string{`old-build 1 against "", true ` + old, `new-build 1 against "old-build", true ` + fresh, `old-build 2 against "", true ` + old, `new-build 2 against "old-build", true ` + fresh}},
		// Files of one command are of different builds.
		{"hyperfine", [][2]string{{"head.json", `{"results": [{"command": "make", "mean": 2, "median": 2, "user": 1, "system": 0, "min": 2, "max": 2, "times": [2]}]}`},
			{"baseline.json", `{"results": [{"command": "make", "mean": 1, "median": 1, "user": 1, "system": 0, "min": 1, "max": 1, "times": [1]}]}`}},
			[]string{`head 1 against "baseline", true wall_time=2000 cpu_time=1000 user_time=1000 system_time=0 error_ratio=0`, `baseline 1 against "", true wall_time=1000 cpu_time=1000 user_time=1000 system_time=0 error_ratio=0`}},
		{"hyperfine", [][2]string{{"a.json", strings.Replace(executedFile, "[0, 0, 0]}", "[0, 2, null]}", 1)}},
			[]string{`old-build 1 against "", true ` + old, `new-build 1 against "old-build", false wall_time=500 cpu_time=375 user_time=250 system_time=125 error_ratio=0.666667`}},
		{"hyperfine", [][2]string{{"cut.json", strings.Replace(executedFile, "0.5, 0.7, 0.6]", "0.5, 0.7]", 1)}},
			[]string{`cut 1 against "", false read FILE:1: "./new build" has 2 times, 3 exit codes and 0 sizes of memory`}},
		{"hyperfine", [][2]string{{"edited.json", strings.Replace(executedFile, `"mean": 0.6,`, `"mean": 0.5,`, 1)}},
			[]string{`edited 1 against "", false read FILE:1: the mean of "./new build" is 0.5 s, and its times have 0.6 s`}},
		{"hyperfine", [][2]string{{"oha.json", ohaSeed}}, []string{`oha 1 against "", false read FILE: this is an output of oha, not of hyperfine`}},
		{"gobench", [][2]string{{"old.txt", appended}, {"new.txt", strings.ReplaceAll(appended, "2000 ns/op", "4000 ns/op")}}, []string{
			`old 1 against "", true error_ratio=0 benchmark_allocs/a.test/x/Read-2=1 benchmark_time/a.test/x/Read-2=2000 benchmark_time/a.test/y/Read-2=7000`,
			`old 2 against "", true error_ratio=0 benchmark_allocs/a.test/x/Read-2=3 benchmark_time/a.test/x/Read-2=1500 benchmark_time/a.test/y/Read-2=8000`,
			`new 1 against "old", true error_ratio=0 benchmark_allocs/a.test/x/Read-2=1 benchmark_time/a.test/x/Read-2=4000 benchmark_time/a.test/y/Read-2=7000`,
			`new 2 against "old", true error_ratio=0 benchmark_allocs/a.test/x/Read-2=3 benchmark_time/a.test/x/Read-2=2500 benchmark_time/a.test/y/Read-2=8000`}},
		{"gobench", [][2]string{{"cut.txt", appended[:strings.LastIndex(appended, "8000")]}}, []string{`cut 1 against "", false read FILE: read output of go test: line 22: missing measurements`}},
		{"gobench", [][2]string{{"failed.txt", "BenchmarkRead 1 5 ns/op\n--- FAIL: BenchmarkWrite\nFAIL\n"}}, []string{`failed 1 against "", false error_ratio=1`}},
		{"gobench", [][2]string{{"none.txt", "PASS\nok a.test/x 0.1s\n"}}, []string{`none 1 against "", false read FILE:1: read output of go test: it has no benchmark`}},
	} {
		dir, paths := t.TempDir(), []string{}
		for _, f := range test.files {
			paths = append(paths, must.File(t, dir, f[0], f[1]))
		}
		s := read(t, test.generator, paths...)
		if len(test.files) == 1 { // else its directory names a single file
			for i := range s.Trials {
				if s.Trials[i].Application == safe(filepath.Base(dir)) {
					s.Trials[i].Application, _, _ = strings.Cut(test.files[0][0], ".")
				}
			}
		}
		got := executedLines(t, s)
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], paths[min(i, len(paths)-1)], "FILE")
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s %s:\n got %s\nwant %s", test.generator, test.files[0][0], strings.Join(got, "\n     "), strings.Join(test.want, "\n     "))
		}
	}
}

// Programs whose names one identifier would have are apart, and a copy of a file is no second run.
func TestExecutionsApart(t *testing.T) {
	file := strings.NewReplacer("./old build", "a b", "./new build", "a/b").Replace(executedFile)
	dir := t.TempDir()
	s := read(t, "hyperfine", must.File(t, dir, "1.json", file))
	if lines := executedLines(t, s); !strings.HasPrefix(lines[0], "a-b 1 ") || !strings.HasPrefix(lines[1], `a-b-2 1 against "a-b"`) {
		t.Errorf("%q", lines)
	}
	s = read(t, "hyperfine", filepath.Join(dir, "1.json"), must.File(t, dir, "2.json", file))
	if _, invalid := s.Failed(); invalid != 2 || s.Trials[2].Record.Warnings[0].Code != "overlap" {
		t.Errorf("%d invalid: %+v", invalid, s.Trials[2].Record.Warnings)
	}
}

// A file of hyperfine itself: its own figures agree with its times.
func TestHyperfineItself(t *testing.T) {
	s := read(t, "hyperfine", "testdata/figures/hyperfine-1.15.0.json")
	lines := executedLines(t, s)
	if failed, invalid := s.Failed(); failed+invalid > 0 || len(lines) < 2 {
		t.Fatalf("%q", lines)
	}
	text := string(must.Get(os.ReadFile("testdata/figures/hyperfine-1.15.0.json"))(t))
	for i, line := range lines {
		var mean, wall float64
		part := strings.Split(text, `"mean":`)[i+1]
		_, after, _ := strings.Cut(line, "wall_time=")
		_, err := fmt.Sscan(strings.Trim(strings.Split(part, ",")[0], " "), &mean)
		must.OK(t, err)
		_, err = fmt.Sscan(strings.Fields(after)[0], &wall)
		must.OK(t, err)
		if math.Abs(wall-1e3*mean) > 1e-5*wall {
			t.Errorf("%s: hyperfine printed %v s", line, mean)
		}
	}
}

func FuzzExecutions(f *testing.F) {
	f.Add([]byte(executedFile))
	f.Add([]byte(appended))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, read := range []func([]byte) ([]executed, error){readHyperfine, readBenchmarks} {
			all, err := read(b)
			if err != nil {
				continue
			}
			for _, x := range all {
				for _, r := range x.readings {
					if r.Wall < 0 || r.User < 0 || r.System < 0 || r.Peak < 0 || r.Wall == 0 && r.Benchmarks == nil && r.Exit == 0 {
						t.Errorf("%+v", r)
					}
				}
			}
		}
	})
}
