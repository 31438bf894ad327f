package importer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/stats"
)

// executed are the executions of one program in a file, one after another.
type executed struct {
	program  string // "" if only the name of the file names it
	readings []execution.Reading
}

// readHyperfine reads the file of hyperfine --export-json: a program for each result. Times of the processors are means in it.
func readHyperfine(b []byte) (all []executed, err error) {
	var file struct {
		Results []struct {
			Command      string
			Mean, Median float64
			Min, Max     float64
			User, System float64
			Times        []float64 // s
			Codes        []*int    `json:"exit_codes"` // null: ended by a signal
			Memory       []int64   `json:"memory_usage_byte"`
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("read output of hyperfine: %w", err)
	}
	for _, r := range file.Results {
		n := len(r.Times)
		wrong := func(what string, printed, of float64) error {
			return fmt.Errorf("the %s of %.40q is %g s, and its times have %g s", what, r.Command, printed, of)
		}
		sorted := slices.Sorted(slices.Values(r.Times))
		switch {
		case n == 0:
			return nil, fmt.Errorf("%.40q has no times", r.Command)
		case sorted[0] == 0:
			return nil, fmt.Errorf("%.40q has a time of 0 s, after hyperfine subtracted its shell's: run hyperfine -N", r.Command)
		case !(sorted[0] > 0) || sorted[n-1] > maxSeconds || !(r.User >= 0 && r.User <= maxSeconds) || !(r.System >= 0 && r.System <= maxSeconds):
			return nil, fmt.Errorf("%.40q has an impossible time", r.Command)
		case len(r.Codes) > 0 && len(r.Codes) != n || len(r.Memory) > 0 && len(r.Memory) != n:
			return nil, fmt.Errorf("%.40q has %d times, %d exit codes and %d sizes of memory", r.Command, n, len(r.Codes), len(r.Memory))
		}
		for _, f := range []struct {
			what        string
			printed, of float64
		}{{"mean", r.Mean, stats.Mean(r.Times)}, {"median", r.Median, (sorted[(n-1)/2] + sorted[n/2]) / 2}, {"minimum", r.Min, sorted[0]}, {"maximum", r.Max, sorted[n-1]}} {
			if !(math.Abs(f.printed-f.of) <= 1e-6*f.of) {
				return nil, wrong(f.what, f.printed, f.of)
			}
		}
		x := executed{program: r.Command}
		for i, s := range r.Times {
			reading := execution.Reading{Wall: nanoseconds(s), User: nanoseconds(r.User), System: nanoseconds(r.System)}
			if len(r.Codes) > 0 {
				reading.Exit = signalled
				if code := r.Codes[i]; code != nil {
					reading.Exit = *code
				}
			}
			if len(r.Memory) > 0 {
				reading.Peak = max(0, r.Memory[i])
			}
			x.readings = append(x.readings, reading)
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		return nil, errors.New("read output of hyperfine: it has no results")
	}
	return all, nil
}

const (
	maxSeconds = 1e8 // of an execution: three years
	signalled  = 128 // exit code of an execution that a signal ended, whose number is unknown
)

func nanoseconds(s float64) int64 { return int64(math.Round(s * 1e9)) }

// packageLine begins the results of a package.
var packageLine = regexp.MustCompile(`(?m)^(?:goos: .*\n)?(?:goarch: .*\n)?pkg: (.*)\n`)

// failedBenchmark is a line of `go test` about benchmarks that failed.
var failedBenchmark = regexp.MustCompile(`(?m)^(?:--- )?FAIL\b.*$`)

// readBenchmarks reads an output of `go test -bench`, or several that were appended to one file: each is a run. Repetitions by -count
// are of one run.
func readBenchmarks(b []byte) (all []executed, err error) {
	b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	begin, seen := 0, map[string]bool{}
	end := func(at int) error {
		text := b[begin:at]
		figures, damaged := execution.Benchmarks(text)
		if damaged != nil {
			_, line := damaged.Pos()
			return fmt.Errorf("read output of go test: line %d: %s", Lines(b[:begin])+line-1, damaged.Msg)
		}
		r := execution.Reading{Benchmarks: figures}
		switch failed := failedBenchmark.Find(text); {
		case failed != nil:
			r.Exit, r.Last = 1, []string{printable.Clip(string(failed), 200)}
		case figures == nil:
			return nil // packages without benchmarks
		}
		all = append(all, executed{readings: []execution.Reading{r}})
		return nil
	}
	for _, m := range packageLine.FindAllSubmatchIndex(b, -1) {
		if name := string(b[m[2]:m[3]]); !seen[name] {
			seen[name] = true
			continue
		}
		if err := end(m[0]); err != nil {
			return nil, err
		}
		begin = m[0]
		clear(seen)
		seen[string(b[m[2]:m[3]])] = true
	}
	if err := end(len(b)); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("read output of go test: it has no benchmark")
	}
	return all, nil
}

// trials creates the trials of a file: one for each program in it.
func (f format) trials(path, name string, o Options) (all []Trial) {
	if f.executions == nil {
		return []Trial{f.trial(path, name, o)}
	}
	b, err := readWhole(path)
	var found []executed
	if err == nil {
		err = f.foreign(path, b)
	}
	if err == nil {
		if found, err = f.executions(b); err != nil {
			err = parseError(path, b, err)
		}
	}
	name = cmp.Or(o.Mesh, name)
	if err != nil {
		t := Trial{Application: name, Run: path, Files: []string{path}}
		t.Fail(errors.New(printable.Translate(err.Error())))
		return []Trial{t}
	}
	for _, x := range found {
		t := Trial{Application: cmp.Or(x.program, name), Mesh: name, Run: path, Files: []string{path}}
		t.Record.Valid, t.Record.Executions = true, x.readings
		if len(t.Record.FailedExecutions()) > 0 {
			t.Invalidate("errors", t.Record.ExecutionFailures(), "leave this run out")
		}
		all = append(all, t)
	}
	return all
}

// nameApplications names the programs of executions: by their files, if all files have one and the same program, so that old.json and
// new.json are compared. Names that one identifier would have are numbered.
func (s *Study) nameApplications() {
	programs, files := map[string]bool{}, map[string]bool{}
	for i := range s.Trials {
		if t := &s.Trials[i]; t.Record.Error == "" {
			programs[t.Application], files[t.Mesh] = true, true
		}
	}
	taken := map[string]string{} // programs by identifier
	for i := range s.Trials {
		t := &s.Trials[i]
		if len(programs) == 1 && len(files) > 1 && t.Mesh != "" {
			t.Application = t.Mesh
		}
		name := safe(t.Application)
		for n := 2; taken[name] != "" && taken[name] != t.Application; n++ {
			name = fmt.Sprintf("%s-%d", safe(t.Application), n)
		}
		taken[name] = t.Application
		t.Application, t.Mesh = name, ""
	}
	s.Meshes = nil
}
