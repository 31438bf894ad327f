// Package uds reads the runs of uds-core's resource test, a published
// measurement of Istio's sidecar and ambient modes.
package uds

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/importer"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

func Source() importer.Source {
	return importer.Source{Name: "uds-core", Doc: "resource-usage.log with its vegeta results, one directory {rate}_{replicas} a run", Read: read}
}

const usageLog = "resource-usage.log"

// runDir is {rate}_{replicas}, the directory of one run.
var runDir = regexp.MustCompile(`^(\d+)_(\d+)$`)

// read reads runs of uds-core's sidecar test. Each is a directory with a usage
// log by namespace and, if kept, vegeta's results or report.
func read(paths []string, o importer.Options) (*importer.Study, error) {
	s := &importer.Study{Source: "uds-core", Name: "uds-core", Description: "Imported: runs of uds-core's resource test."}
	files, err := s.ListFiles(paths)
	if err != nil {
		return nil, err
	}
	inDir := map[string][]string{}
	var logs []string
	for _, f := range files {
		if filepath.Base(f) == usageLog {
			logs = append(logs, f)
		} else {
			inDir[filepath.Dir(f)] = append(inDir[filepath.Dir(f)], f)
		}
	}
	if len(logs) == 0 {
		return nil, &importer.FileError{Path: strings.Join(paths, ", "), Hinted: hint.Hinted{Err: fmt.Errorf("no %s found", usageLog), Text: "name the directories of the runs, such as 20_1"}}
	}
	dirs := lists.Map(logs, func(log string) string { return filepath.Dir(filepath.Dir(log)) }) // of the runs of a mesh
	meshes := importer.MeshesOf(dirs)
	for i, log := range logs {
		t := trialOf(log, meshes[dirs[i]], inDir[filepath.Dir(log)], o)
		s.Meshes = lists.Add(s.Meshes, t.Mesh)
		s.Trials = append(s.Trials, t)
	}
	slices.SortStableFunc(s.Trials, func(a, b importer.Trial) int { return a.Record.Started.Compare(b.Record.Started) })
	s.CheckRates()
	return s, nil
}

func trialOf(log, mesh string, beside []string, o importer.Options) importer.Trial {
	dir := filepath.Dir(log)
	t := importer.Trial{Mesh: cmp.Or(o.Mesh, mesh), Run: dir, Files: []string{log}}
	t.Record.Valid = true
	if m := runDir.FindStringSubmatch(filepath.Base(dir)); m != nil {
		rate, _ := strconv.Atoi(m[1])
		t.Replicas, _ = strconv.Atoi(m[2])
		t.Rate, t.RateKnown, t.RateNamed = experiment.Rate(rate), rate > 0, true
	} else if o.Rate > 0 {
		t.Rate, t.RateKnown = experiment.Rate(o.Rate), true
	}
	err := namespaces(&t, log, o)
	for _, f := range beside {
		if err == nil && strings.Contains(filepath.Base(f), "vegeta") {
			err = vegeta(&t, f, o)
		}
	}
	if err != nil {
		t.Fail(err)
	} else if t.Record.Load == nil {
		t.Warn("logs-missing", dir+" contains no results of vegeta: the number of requests is unknown", "keep vegeta's results or its report in a file with vegeta in its name")
	}
	return t
}

func vegeta(t *importer.Trial, path string, o importer.Options) error {
	if t.Record.Load != nil {
		return nil // results and their report: one is enough
	}
	b, err := importer.ReadFile(path)
	if err != nil {
		return err
	}
	out, err := importer.ParseOutput("vegeta", path, b, o.Corrected)
	if err != nil {
		return err
	}
	out.Rate = float64(t.Rate)
	t.Files = append(t.Files, path)
	return t.Take([]*importer.Output{out})
}

// namespaces reads the log of usage by namespace, the sum of its pods. A
// namespace with sidecars contains applications and proxies, which the log does
// not separate. It is unattributed, and the planes it may contain are unknown.
func namespaces(t *importer.Trial, path string, o importer.Options) error {
	b, err := importer.ReadFile(path)
	if err != nil {
		return err
	}
	s, err := parse(path, b)
	if err != nil {
		return err
	}
	// Not shortened: with figures this coarse a new reading may equal the previous
	// one.
	t.Record.Sampled = s
	t.Warn("readings-unknown", "the source rounds to 1 mCPU and 1 MiB: its new readings cannot be distinguished from repeats; all samples count", "", metric.Sampled()...)
	first, last := s.Rows[0].At, s.Rows[len(s.Rows)-1].At
	warmup, tail := o.Cuts()
	from, to := first.Add(warmup), last.Add(-tail)
	if !from.Before(to) {
		t.Invalidate("too-short", fmt.Sprintf("%s covers %v, and %v and %v are cut from its ends", path, last.Sub(first), warmup, tail), "import with a shorter --warmup and --tail")
		from, to = first, last
	}
	r := &t.Record
	r.Started, r.Ended = first, last
	r.Phases = []result.Phase{{Name: "warmup", Start: first, End: from}, {Name: "measure", Start: from, End: to}, {Name: "drain", Start: to, End: last}}
	t.Warn("planes-mixed", "the source adds up namespaces: applications and their sidecars are one figure", "read the namespaces apart; planes and sums over them are unknown", metric.Sampled()...)
	return nil
}

// usageRow is the usage of one namespace at one time.
type usageRow struct {
	line       int
	at         time.Time
	namespace  string
	cores, mem float64
}

// parse parses "time,namespace,mCPU,MiB". The later format has six fields: the
// sum and the largest pod of each.
func parse(path string, b []byte) (*result.Sampled, error) {
	fail := func(line int, format string, args ...any) (*result.Sampled, error) {
		return nil, &importer.FileError{Path: path, Line: line, Hinted: hint.Hinted{Err: fmt.Errorf(format, args...), Text: "restore the file, or leave this run out"}}
	}
	if len(b) == 0 || b[len(b)-1] != '\n' {
		return fail(importer.Lines(b), "the last line has no end: the file was cut off")
	}
	var rows []usageRow
	line := 0
	for text := range bytes.Lines(b) {
		line++
		fields := strings.Split(strings.TrimRight(string(text), "\r\n"), ",")
		if line == 1 {
			if strings.TrimSpace(fields[0]) != "Timestamp" {
				return fail(1, "the first column is %.40q, expected Timestamp", fields[0])
			}
			continue
		}
		r, err := fieldsOf(fields)
		if err != nil {
			return fail(line, "%w", err)
		}
		r.line = line
		if n := len(rows); n > 0 && r.at.Before(rows[n-1].at) {
			return fail(line, "the time goes back from %s: rows were reordered, files were joined, or the clock was set", rows[n-1].at.Format(importer.TimeLayout))
		}
		if len(rows) == importer.MaxRows {
			return fail(line, "more than %d rows", importer.MaxRows)
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return fail(0, "there is a header and no row")
	}
	s, err := sampled(rows)
	if err != nil {
		return nil, &importer.FileError{Path: path, Line: err.line, Hinted: hint.Hinted{Err: err, Text: "restore the file, or leave this run out"}}
	}
	return s, nil
}

func fieldsOf(f []string) (usageRow, error) {
	mem := map[int]int{4: 3, 6: 4}[len(f)]
	if mem == 0 {
		return usageRow{}, fmt.Errorf("found %d fields, expected 4 or 6", len(f))
	}
	at, err := time.Parse(importer.TimeLayout, strings.TrimSpace(f[0]))
	if err != nil {
		return usageRow{}, fmt.Errorf("%.40q is not a time such as 2025-03-27 17:08:11", f[0])
	}
	r := usageRow{at: at, namespace: strings.TrimSpace(f[1])}
	if r.namespace == "" {
		return r, errors.New("no namespace is named")
	}
	// A bare number has the unit of the header: mCPU and MiB.
	cores, err1 := importer.Amount(withUnit(f[2], "m"), importer.CPUUnits)
	memory, err2 := importer.Amount(withUnit(f[mem], "Mi"), importer.MemoryUnits)
	r.cores, r.mem = cores, memory
	if err := errors.Join(err1, err2); err != nil {
		return r, err
	}
	if cores > importer.MaxCores || memory > importer.MaxMemory {
		return r, fmt.Errorf("%s and %s are not possible", f[2], f[mem])
	}
	return r, nil
}

func withUnit(s, unit string) string {
	s = strings.TrimSpace(s)
	if n := len(s); n > 0 && s[n-1] >= '0' && s[n-1] <= '9' {
		return s + unit
	}
	return s
}

type rowError struct {
	error
	line int
}

// sampled joins rows of the same time.
func sampled(rows []usageRow) (*result.Sampled, *rowError) {
	s := &result.Sampled{Source: "kubectl top", Unknown: []metric.Plane{metric.App, metric.Data, metric.Platform, metric.Unattributed, metric.Load, metric.Control}}
	index := map[string]int{}
	for _, r := range rows {
		if _, ok := index[r.namespace]; !ok {
			index[r.namespace] = len(s.Tasks)
			s.Tasks = append(s.Tasks, taskOf(r.namespace))
		}
	}
	for _, r := range rows {
		if n := len(s.Rows); n == 0 || !s.Rows[n-1].At.Equal(r.at) {
			s.Rows = append(s.Rows, result.SampledRow{At: r.at, Cores: make([]*float64, len(s.Tasks)), Memory: make([]*float64, len(s.Tasks))})
		}
		row, i := &s.Rows[len(s.Rows)-1], index[r.namespace]
		if row.Cores[i] != nil {
			return nil, &rowError{fmt.Errorf("namespace %s occurs twice at %s: a row is duplicated", r.namespace, r.at.Format(importer.TimeLayout)), r.line}
		}
		row.Cores[i], row.Memory[i] = new(r.cores), new(r.mem)
	}
	return s, nil
}

// taskOf returns a namespace's task, with its plane if the name shows it.
func taskOf(namespace string) mesh.Task {
	t := mesh.Task{ID: namespace, Namespace: namespace, Pod: namespace, Plane: metric.Unattributed, Role: result.RoleNamespace, Component: namespace}
	switch {
	case namespace == "istio-system" || namespace == "linkerd":
		t.Plane = metric.Control // with ambient it contains ztunnel: the whole plane stays unknown
	case strings.HasPrefix(namespace, "istio-") && strings.Contains(namespace, "gateway"):
		t.Plane = metric.Data
	}
	return t
}
