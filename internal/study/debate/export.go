package debate

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/report"
)

// columns are the columns of the great-sidecar-debate's CSV that tare can fill,
// each the sum of planes. Its other columns are parts of the debate's own
// application. They are omitted: unknown, not zero.
var columns = []struct {
	name   string
	planes []metric.Plane
}{
	{"faces", []metric.Plane{metric.App}},
	{"load", []metric.Plane{metric.Load}},
	{"gke", []metric.Plane{gke}},
	{"k8s", []metric.Plane{metric.Platform}},
	{"data-plane", []metric.Plane{metric.Data}},
	{"control-plane", []metric.Plane{metric.Control}},
	{"mesh", []metric.Plane{metric.Data, metric.Control}},
	// The debate counts unattributed usage here.
	{"non-mesh", []metric.Plane{metric.App, metric.Load, metric.Unattributed}},
	{"business", []metric.Plane{metric.Data, metric.Control, metric.App, metric.Load, metric.Unattributed}},
	{"overhead", []metric.Plane{gke, metric.Platform}},
	{"total", []metric.Plane{metric.Data, metric.Control, metric.App, metric.Load, metric.Unattributed, gke, metric.Platform}},
}

// export writes every valid trial as a run in the layout of the
// great-sidecar-debate: <mesh>/<rate>-<block>-metrics.csv, and the latencies in
// wrk2's output format. Its plot script reads the directory.
func export(dir string, a answer.Analysis) error {
	d, r := a.Dir, a.Report
	fail := func(err error) error { return fmt.Errorf("write results in the debate's layout: %w", err) }
	records, err := d.Records()
	if err != nil {
		return fail(err)
	}
	taken := map[string]string{}
	for i := range records {
		record := &records[i]
		if !record.Valid || record.Load == nil {
			continue
		}
		sub := filepath.Join(dir, meshDir(r, record))
		run := fmt.Sprintf("%d-%d", int(math.Round(rateOf(record))), record.Block)
		if other, twice := taken[filepath.Join(sub, run)]; twice {
			return fail(fmt.Errorf("trials %s and %s would be the same run: the layout distinguishes runs by mesh, rate and number alone", other, record.ID))
		}
		taken[filepath.Join(sub, run)] = record.ID
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return fail(err)
		}
		if err := writeRun(filepath.Join(sub, run), d, record); err != nil {
			return fail(err)
		}
	}
	if len(taken) == 0 {
		return fail(errors.New("no trial is valid"))
	}
	return nil
}

// rateOf returns the intended rate, or in a closed loop the achieved one.
func rateOf(record *result.Record) float64 {
	if rate, ok := record.Factors[experiment.RateFactor].(float64); ok {
		return rate
	}
	l := record.Load
	if l.AskedRate <= 0 && l.MeasureSeconds > 0 {
		return float64(l.Completed) / l.MeasureSeconds
	}
	return l.AskedRate
}

// meshDir returns the directory of a run's mesh, followed by the other factors
// that distinguish treatments. Without a mesh the directory is unmeshed.
func meshDir(r *answer.Report, record *result.Record) string {
	mesh := "unmeshed"
	if v, ok := record.Factors[experiment.MeshFactor]; ok && report.Level(v) != "none" {
		mesh = fileName(report.Level(v))
	}
	for _, f := range report.VaryingFactors(r) {
		if v, ok := record.Factors[f]; ok && f != experiment.MeshFactor && f != experiment.RateFactor {
			mesh += "-" + fileName(f+report.Level(v))
		}
	}
	if record.Control {
		mesh += "-control"
	}
	return mesh
}

func writeRun(path string, d *result.Dir, record *result.Record) error {
	samples, err := planeSamples(d, record)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+"-metrics.csv", metricsCSV(nodesOf(record), samples), 0o644); err != nil {
		return err
	}
	h, err := figures.ResponseTimes(d, record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || h == nil {
		return err
	}
	return os.WriteFile(path+exportedLog, wrk2Text(record.Load, h), 0o644)
}

// planeSample is the CPU and memory of every plane in one interval. An absent
// plane is unknown.
type planeSample struct {
	at    time.Time
	cores map[metric.Plane]float64
	bytes map[metric.Plane]float64
	nodes map[string]nodeSample
}

// planeSamples returns the samples of the measure phase.
func planeSamples(d *result.Dir, record *result.Record) ([]planeSample, error) {
	if record.Sampled != nil {
		return importedSamples(record.Sampled), nil
	}
	var out []planeSample
	l := newLooks(record)
	for e, err := range d.Events(record.ID) {
		if errors.Is(err, fs.ErrNotExist) {
			break // an import has no events
		}
		if err != nil {
			return nil, err
		}
		if e.Sample == nil || e.Time.After(record.Load.End.Add(time.Second)) {
			continue
		}
		within := !e.Time.Before(record.Load.Start)
		if !within && !l.cluster {
			continue
		}
		l.add(e.Sample.Tasks)
		l.addNodes(e.Sample.Nodes)
		if s, ok := l.sample(e.Time); ok && within {
			out = append(out, s)
		}
	}
	if out == nil { // no event stream: the two edges are one interval
		l = newLooks(record)
		for _, edge := range []func(result.TaskUsage) result.Reading{
			func(t result.TaskUsage) result.Reading { return t.Start }, func(t result.TaskUsage) result.Reading { return t.End }} {
			look := map[string]result.Reading{}
			for _, t := range record.Tasks {
				if t.Missing == "" {
					look[t.ID] = edge(t)
				}
			}
			l.add(look)
		}
		l.addNodes(nodesAt(record, func(u result.MachineUsage) result.NodeReading { return u.Start }))
		l.addNodes(nodesAt(record, func(u result.MachineUsage) result.NodeReading { return u.End }))
		if s, ok := l.sample(record.Load.End); ok {
			first := s
			first.at = record.Load.Start
			out = []planeSample{first, s} // the rows are the edges, whose time an import needs
		}
	}
	return out, nil
}

// looks are the readings of tasks. On one machine every sample has all tasks. In
// a cluster it has only tasks whose counters were refreshed since the previous
// sample. The other tasks keep the rate between their last two refreshes.
type looks struct {
	cluster bool
	planes  map[string]metric.Plane // plane of each task
	two     map[string][2]result.Reading
	nodes   map[string][2]result.NodeReading
}

func newLooks(record *result.Record) *looks {
	l := &looks{cluster: record.Node != nil && len(record.Node.Nodes) > 0, planes: map[string]metric.Plane{},
		two: map[string][2]result.Reading{}, nodes: map[string][2]result.NodeReading{}}
	for _, t := range record.Tasks {
		if t.Missing == "" {
			l.planes[t.ID] = planeOf(t.Task)
		}
	}
	return l
}

// gke is the plane of GKE's additions to Kubernetes, which the debate shows
// separately.
const gke metric.Plane = "gke"

// planeOf returns the plane of a task in the debate, or empty if there is none.
// The debate counts only pods, not other usage of nodes.
func planeOf(t mesh.Task) metric.Plane {
	switch {
	case t.Role == mesh.RoleDaemon || t.Role == mesh.RoleRemainder || t.Plane == metric.Harness:
		return ""
	case t.Plane == metric.Platform && (strings.HasPrefix(t.Namespace, "gke-") || strings.HasPrefix(t.Namespace, "gmp-")):
		return gke
	}
	return t.Plane
}

func (l *looks) add(now map[string]result.Reading) {
	for id := range l.two {
		if _, ok := now[id]; !ok && !l.cluster {
			delete(l.two, id)
		}
	}
	for id, r := range now {
		l.two[id] = [2]result.Reading{l.two[id][1], r}
	}
}

// sample returns the current rates. It is not ok without a rate or, in a
// cluster, while one is unknown.
func (l *looks) sample(at time.Time) (planeSample, bool) {
	s := planeSample{at: at, bytes: map[metric.Plane]float64{}, nodes: l.nodeSamples()}
	s.cores = map[metric.Plane]float64{metric.Data: 0, metric.Control: 0, metric.Platform: 0, metric.Unattributed: 0, gke: 0}
	maps.Copy(s.bytes, s.cores)
	some := false
	for id, plane := range l.planes {
		was, is := l.two[id][0], l.two[id][1]
		wall := is.At.Sub(was.At)
		if plane == "" {
			continue
		}
		if was.At.IsZero() || wall <= 0 || is.CPU < was.CPU {
			if l.cluster {
				return s, false
			}
			continue
		}
		some = true
		s.cores[plane] += float64(is.CPU-was.CPU) / float64(wall)
		s.bytes[plane] += float64(is.RSS)
	}
	return s, some
}

func importedSamples(x *result.Sampled) []planeSample {
	var out []planeSample
	for _, row := range x.Rows {
		s := planeSample{at: row.At, cores: map[metric.Plane]float64{}, bytes: map[metric.Plane]float64{}, nodes: importedNodes(x, row)}
		for i, t := range x.Tasks {
			if slices.Contains(x.Unknown, t.Plane) {
				continue
			}
			if i < len(row.Cores) && row.Cores[i] != nil {
				s.cores[t.Plane] += *row.Cores[i]
			}
			if i < len(row.Memory) && row.Memory[i] != nil {
				s.bytes[t.Plane] += *row.Memory[i]
			}
		}
		out = append(out, s)
	}
	return out
}

// metricsCSV writes nanocores and bytes, CRLF, and naive times, like the
// original. The first columns are the nodes'.
func metricsCSV(nodes []node, samples []planeSample) []byte {
	var b bytes.Buffer
	c := csv.NewWriter(&b)
	c.UseCRLF = true
	head := []string{"timestamp"}
	for _, n := range nodes {
		head = append(head, n.columns()...)
	}
	for _, col := range columns {
		head = append(head, col.name+" CPU", col.name+" mem")
	}
	_ = c.Write(head) // to memory: cannot fail
	var last time.Time
	for _, s := range samples {
		at := s.at.UTC().Truncate(time.Second)
		if !at.After(last) {
			continue // times are whole seconds, and no two rows have one
		}
		last = at
		row := []string{at.Format(time.DateTime)}
		for _, n := range nodes {
			row = append(row, n.cells(s.nodes[n.name])...)
		}
		for _, col := range columns {
			row = append(row, planeCell(s.cores, col.planes, 1e9), planeCell(s.bytes, col.planes, 1))
		}
		_ = c.Write(row)
	}
	c.Flush()
	return b.Bytes()
}

// planeCell returns the sum of planes as a whole number, or empty if none is known.
func planeCell(of map[metric.Plane]float64, planes []metric.Plane, scale float64) string {
	sum, known := 0.0, false
	for _, p := range planes {
		if v, ok := of[p]; ok {
			sum, known = sum+v, true
		}
	}
	if !known {
		return ""
	}
	return roundedText(sum * scale)
}

// wrk2Text returns a distribution in the output format of wrk2 --latency.
func wrk2Text(l *result.Load, h *hdrhistogram.Histogram) []byte {
	var b bytes.Buffer
	ms := func(v int64) float64 { return float64(v) / 1e6 }
	seconds := l.MeasureSeconds
	fmt.Fprintf(&b, "Running %.0fs test @ tare\n  1 threads and %d connections\n", seconds, l.Connections)
	fmt.Fprintf(&b, "  Latency Distribution (HdrHistogram - Recorded Latency)\n")
	for _, p := range []float64{50, 75, 90, 99, 99.9, 99.99, 99.999, 100} {
		fmt.Fprintf(&b, "%7.3f%% %7.2fms\n", p, ms(h.ValueAtPercentile(p)))
	}
	fmt.Fprintf(&b, "\n  Detailed Percentile spectrum:\n       Value   Percentile   TotalCount 1/(1-Percentile)\n\n")
	for _, q := range h.CumulativeDistributionWithTicks(5) {
		last := "inf"
		if q.Quantile < 100 {
			last = fmt.Sprintf("%.2f", 1/(1-q.Quantile/100))
		}
		fmt.Fprintf(&b, "%12.3f     %8.6f %12d %12s\n", ms(q.ValueAt), q.Quantile/100, q.Count, last)
	}
	fmt.Fprintf(&b, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", h.Mean()/1e6, h.StdDev()/1e6)
	fmt.Fprintf(&b, "#[Max     = %12.3f, Total count    = %12d]\n", ms(h.Max()), h.TotalCount())
	fmt.Fprintf(&b, "----------------------------------------------------------\n")
	// Requests are counted if they have a latency or another status, as in the rest of the text.
	failed := l.Classes[string(load.Status)]
	requests := h.TotalCount() + failed
	fmt.Fprintf(&b, "  %d requests in %.2fs, %.2fMB read\n", requests, seconds, float64(l.BytesIn)/1e6)
	if lost, late := l.Classes[string(load.Conn)], l.Classes[string(load.Timeout)]; lost+late > 0 {
		fmt.Fprintf(&b, "  Socket errors: connect 0, read %d, write 0, timeout %d\n", lost, late)
	}
	if failed > 0 {
		fmt.Fprintf(&b, "  Non-2xx or 3xx responses: %d\n", failed)
	}
	rate := 0.0
	if seconds > 0 {
		rate = float64(requests) / seconds
	}
	fmt.Fprintf(&b, "Requests/sec: %9.2f\nTransfer/sec: %9.2fKB\n", rate, float64(l.BytesIn)/1e3/math.Max(seconds, 1e-9))
	return b.Bytes()
}

// fileName replaces the characters that a file's name cannot have.
func fileName(s string) string { return printable.Plain(s, "-_.", '_') }
