package importer

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

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

const udsLog = "resource-usage.log"

// udsDir is {rate}_{replicas}, the directory of one run.
var udsDir = regexp.MustCompile(`^(\d+)_(\d+)$`)

// readUDS reads runs of uds-core's sidecar test: each a directory with the log
// of what its namespaces used, and with vegeta's results or report where they were kept.
func readUDS(paths []string, o Options) (*Study, error) {
	s := &Study{Source: "uds-core", Name: "uds-core", Description: "Imported: runs of uds-core's resource test."}
	files, err := listFiles(s, paths)
	if err != nil {
		return nil, err
	}
	inDir := map[string][]string{}
	var logs []string
	for _, f := range files {
		if filepath.Base(f) == udsLog {
			logs = append(logs, f)
		} else {
			inDir[filepath.Dir(f)] = append(inDir[filepath.Dir(f)], f)
		}
	}
	if len(logs) == 0 {
		return nil, &FileError{Path: strings.Join(paths, ", "), Err: fmt.Errorf("no %s is there", udsLog), Help: "name the directories of the runs, such as 20_1"}
	}
	for _, log := range logs {
		t := udsTrial(log, inDir[filepath.Dir(log)], o)
		if !slices.Contains(s.Meshes, t.Mesh) {
			s.Meshes = append(s.Meshes, t.Mesh)
		}
		s.Trials = append(s.Trials, t)
	}
	slices.SortStableFunc(s.Trials, func(a, b Trial) int { return a.Record.Started.Compare(b.Record.Started) })
	s.checkRates()
	return s, nil
}

func udsTrial(log string, beside []string, o Options) Trial {
	dir := filepath.Dir(log)
	t := Trial{Mesh: cmp.Or(o.Mesh, meshOf(filepath.Dir(dir))), Run: dir, Files: []string{log}}
	t.Record.Valid = true
	if m := udsDir.FindStringSubmatch(filepath.Base(dir)); m != nil {
		rate, _ := strconv.Atoi(m[1])
		t.Replicas, _ = strconv.Atoi(m[2])
		t.Rate, t.RateKnown = experiment.Rate(rate), rate > 0
	} else if o.Rate > 0 {
		t.Rate, t.RateKnown = experiment.Rate(o.Rate), true
	}
	err := t.namespaces(log, o)
	for _, f := range beside {
		if err == nil && strings.Contains(filepath.Base(f), "vegeta") {
			err = t.vegeta(f, o)
		}
	}
	if err != nil {
		t.Record.Valid, t.Record.Error, t.Record.Sampled, t.Record.Load, t.Latency = false, err.Error(), nil, nil, nil
	} else if t.Record.Load == nil {
		t.warn("logs-missing", dir+" holds no results of vegeta: how many requests there were is not known", "keep vegeta's results or its report in a file with vegeta in its name")
	}
	return t
}

func (t *Trial) vegeta(path string, o Options) error {
	if t.Record.Load != nil {
		return nil // results and the report on them: one is enough
	}
	b, err := readWhole(path)
	if err != nil {
		return err
	}
	out, err := parseOutput("vegeta", path, b, o.Corrected)
	if err != nil {
		return err
	}
	out.rate = float64(t.Rate)
	t.Files = append(t.Files, path)
	return t.take([]*output{out})
}

// namespaces reads the log of what each namespace used, all its pods added up.
// A namespace with sidecars holds applications and proxies, which the log does
// not tell apart: it is unattributed, and the planes it may hold are unknown.
func (t *Trial) namespaces(path string, o Options) error {
	b, err := readWhole(path)
	if err != nil {
		return err
	}
	s, err := parseUDS(path, b)
	if err != nil {
		return err
	}
	// Not shortened: in figures this coarse a new reading may well look like the one before.
	t.Record.Sampled = s
	t.warn("readings-unknown", "the source rounds to 1 mCPU and 1 MiB: which of its samples are readings of their own cannot be told; all of them count", "", resourceMetrics...)
	first, last := s.Rows[0].At, s.Rows[len(s.Rows)-1].At
	warmup, tail := o.cuts()
	from, to := first.Add(warmup), last.Add(-tail)
	if !from.Before(to) {
		t.invalidate("too-short", fmt.Sprintf("%s covers %v, and %v and %v are cut from its ends", path, last.Sub(first), warmup, tail), "import with a shorter --warmup and --tail")
		from, to = first, last
	}
	r := &t.Record
	r.Started, r.Ended = first, last
	r.Phases = []result.Phase{{Name: "warmup", Start: first, End: from}, {Name: "measure", Start: from, End: to}, {Name: "drain", Start: to, End: last}}
	t.warn("planes-mixed", "the source adds up namespaces: applications and their sidecars are one figure", "read the namespaces apart; planes and sums over them are unknown", resourceMetrics...)
	return nil
}

// udsRow is one namespace at one time.
type udsRow struct {
	line       int
	at         time.Time
	namespace  string
	cores, mem float64
}

// parseUDS reads "time,namespace,mCPU,MiB". Its later form has six fields: the
// sum and the largest pod of each.
func parseUDS(path string, b []byte) (*result.Sampled, error) {
	fail := func(line int, format string, args ...any) (*result.Sampled, error) {
		return nil, &FileError{Path: path, Line: line, Err: fmt.Errorf(format, args...), Help: "restore the file, or leave this run out"}
	}
	if len(b) == 0 || b[len(b)-1] != '\n' {
		return fail(lines(b), "the last line has no end: the file was cut off")
	}
	var rows []udsRow
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
		r, err := udsFields(fields)
		if err != nil {
			return fail(line, "%w", err)
		}
		r.line = line
		if n := len(rows); n > 0 && r.at.Before(rows[n-1].at) {
			return fail(line, "the time goes back from %s: rows were reordered, files were joined, or the clock was set", rows[n-1].at.Format(stampLayout))
		}
		if len(rows) == maxRows {
			return fail(line, "more than %d rows", maxRows)
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return fail(0, "there is a header and no row")
	}
	s, err := udsSampled(rows)
	if err != nil {
		return nil, &FileError{Path: path, Line: err.line, Err: err, Help: "restore the file, or leave this run out"}
	}
	return s, nil
}

func udsFields(f []string) (udsRow, error) {
	mem := map[int]int{4: 3, 6: 4}[len(f)]
	if mem == 0 {
		return udsRow{}, fmt.Errorf("found %d fields, expected 4 or 6", len(f))
	}
	at, err := time.Parse(stampLayout, strings.TrimSpace(f[0]))
	if err != nil {
		return udsRow{}, fmt.Errorf("%.40q is not a time such as 2025-03-27 17:08:11", f[0])
	}
	r := udsRow{at: at, namespace: strings.TrimSpace(f[1])}
	if r.namespace == "" {
		return r, errors.New("no namespace is named")
	}
	// A bare number is in the unit of the header: mCPU and MiB.
	cores, err1 := amount(withUnit(f[2], "m"), cpuUnits)
	memory, err2 := amount(withUnit(f[mem], "Mi"), memoryUnits)
	r.cores, r.mem = cores, memory
	if err := errors.Join(err1, err2); err != nil {
		return r, err
	}
	if cores > maxCores || memory > maxMemory {
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

// udsError is a mistake in a row.
type udsError struct {
	error
	line int
}

// udsSampled lays rows of one time side by side.
func udsSampled(rows []udsRow) (*result.Sampled, *udsError) {
	s := &result.Sampled{Source: "kubectl top", Unknown: []metric.Plane{metric.App, metric.Data, metric.Platform, metric.Unattributed, metric.Load, metric.Control}}
	index := map[string]int{}
	for _, r := range rows {
		if _, ok := index[r.namespace]; !ok {
			index[r.namespace] = len(s.Tasks)
			s.Tasks = append(s.Tasks, udsTask(r.namespace))
		}
	}
	for _, r := range rows {
		if n := len(s.Rows); n == 0 || !s.Rows[n-1].At.Equal(r.at) {
			s.Rows = append(s.Rows, result.SampledRow{At: r.at, Cores: make([]*float64, len(s.Tasks)), Memory: make([]*float64, len(s.Tasks))})
		}
		row, i := &s.Rows[len(s.Rows)-1], index[r.namespace]
		if row.Cores[i] != nil {
			return nil, &udsError{fmt.Errorf("namespace %s is there twice at %s: a row was doubled", r.namespace, r.at.Format(stampLayout)), r.line}
		}
		row.Cores[i], row.Memory[i] = ptr(r.cores), ptr(r.mem)
	}
	return s, nil
}

// udsTask gives a namespace its plane, where its name tells.
func udsTask(namespace string) mesh.Task {
	t := mesh.Task{ID: namespace, Namespace: namespace, Pod: namespace, Plane: metric.Unattributed, Role: result.RoleNamespace, Component: namespace}
	switch {
	case namespace == "istio-system" || namespace == "linkerd":
		t.Plane = metric.Control // with ambient, ztunnel as well: the plane as a whole stays unknown
	case strings.HasPrefix(namespace, "istio-") && strings.Contains(namespace, "gateway"):
		t.Plane = metric.Data
	}
	return t
}
