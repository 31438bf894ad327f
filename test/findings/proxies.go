package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// Proxies by release. A bundle, docs/findings/proxies/*.tar.gz, has the two runs of some versions of a proxy and the load average
// before them. The table of docs/findings/proxies.md is written from all bundles.

// anchor is the proxy that every run contains, so that runs of different days and machines have a common unit.
const anchor = "envoy"

const (
	costRun    = "cost"    // one proxy between the load and the program
	changesRun = "changes" // a pair of sidecars, which start, stop and take new routes
	loadFile   = "load"    // the load average
)

// runs are the experiments of a bundle by their directories.
var runs = map[string]string{costRun: "examples/findings/proxies.yaml", changesRun: "examples/findings/proxies-changes.yaml"}

// proxy has the meshes in which a proxy runs.
type proxy struct {
	hop, pair string
	static    bool // it takes no new routes here
}

var proxies = map[string]proxy{
	anchor:    {hop: "envoy-plaintext", pair: "envoy-xds"},
	"nginx":   {hop: "nginx", pair: "nginx"},
	"haproxy": {hop: "haproxy", pair: "haproxy"},
	"caddy":   {hop: "caddy", pair: "caddy"},
	"apache":  {hop: "apache", pair: "apache"},
	"traefik": {hop: "traefik", pair: "traefik", static: true},
	"varnish": {hop: "varnish", pair: "varnish", static: true},
	"nghttpx": {hop: "nghttpx", pair: "nghttpx", static: true},
}

// version is a proxy to measure: NAME=PROGRAM, or NAME@VERSION for a version that tare downloads.
var version = regexp.MustCompile(`^([a-z0-9]+)(?:=(.+)|@([\w.]+))$`)

// measure runs the experiments with some versions of proxies, and adds a bundle.
func measure(pages string, versions []string) error {
	if len(versions) == 0 {
		return errors.New("name a version, such as nginx=/opt/nginx")
	}
	before, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	if err := os.MkdirAll("runs", 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("runs", "proxies-")
	if err != nil {
		return err
	}
	average, _, _ := strings.Cut(string(before), " ")
	if err := os.WriteFile(filepath.Join(dir, loadFile), []byte(average), 0o600); err != nil {
		return err
	}
	definitions, err := filepath.Glob("examples/findings/meshes/*.yaml")
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(runs)) {
		set, err := settings(name, versions)
		if err != nil {
			return err
		}
		args := append([]string{"run", runs[name], "--plain", "--out", filepath.Join(dir, name)}, set...)
		for _, file := range definitions {
			args = append(args, "--mesh", file)
		}
		cmd := exec.Command("bin/tare", args...) //nolint:gosec // this repository's program
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		var ended *exec.ExitError
		if err := cmd.Run(); errors.As(err, &ended) && ended.ExitCode() >= 3 && ended.ExitCode() <= 5 {
			continue // invalid trials are not in the figures
		} else if err != nil {
			return fmt.Errorf("%s: %w", cmd, err)
		}
	}
	name := version.FindStringSubmatch(versions[0])[1]
	return pack(dir, filepath.Join(pages, "proxies", name+"-"+time.Now().UTC().Format("20060102T150405")+".tar.gz"), versions)
}

// settings are the flags that give an experiment its meshes: the anchor, and PROXY-N for each version.
func settings(name string, versions []string) ([]string, error) {
	var meshes, levels, more []string
	if name == costRun { // changes need no unit
		meshes, levels = append(meshes, fmt.Sprintf("hop-%s: {from: %s, gateway: {}}", anchor, proxies[anchor].hop)), append(levels, "hop-"+anchor)
	}
	for i, text := range versions {
		m := version.FindStringSubmatch(text)
		if m == nil || proxies[m[1]].hop == "" {
			return nil, fmt.Errorf("found %q, expected NAME=PROGRAM or NAME@VERSION, with a name of %s", text, strings.Join(slices.Sorted(maps.Keys(proxies)), ", "))
		}
		program, place := fmt.Sprintf("version: %q", m[3]), fmt.Sprintf("from: %s, gateway: {}", proxies[m[1]].hop)
		if m[3] == "" {
			if strings.Contains(m[2], "/") { // not a name on PATH; paths are relative to the experiment
				path, err := filepath.Abs(m[2])
				if err != nil {
					return nil, err
				}
				m[2] = path
			}
			program = fmt.Sprintf("program: %q", m[2])
		}
		if name == changesRun {
			place = "from: " + proxies[m[1]].pair
			if proxies[m[1]].static {
				more = []string{"--set", "changes=null", "--set", "phases.measure=1s"}
			}
		}
		levels = append(levels, fmt.Sprintf("%s-%d", m[1], i+1))
		meshes = append(meshes, fmt.Sprintf("%s: {%s, %s}", levels[len(levels)-1], place, program))
	}
	return append([]string{"--set", "meshes={" + strings.Join(meshes, ", ") + "}", "--set", "factors.mesh=[" + strings.Join(levels, ", ") + "]"}, more...), nil
}

// packed are the files that figures are computed from. Response times during changes are none of them.
var packed = []string{loadFile, result.ExperimentFile, result.PlanFile, result.EnvironmentFile, result.RecordFile, result.SlicesFile, result.MeasuredFile}

// pack writes a bundle. The same files have the same bytes. Programs have their names there, without the directories of the
// machine that measured.
func pack(dir, to string, versions []string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.Create(to) //nolint:gosec // in the pages
	if err != nil {
		return err
	}
	defer out.Close()
	z, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains(packed, d.Name()) || strings.Contains(name, ".partial/") || strings.HasPrefix(name, changesRun) && d.Name() == result.MeasuredFile {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		for _, text := range versions {
			if _, program, ok := strings.Cut(text, "="); ok {
				b = bytes.ReplaceAll(b, []byte(program), []byte(filepath.Base(program)))
			}
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(b)), Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	return errors.Join(err, w.Close(), z.Close())
}

// unpack writes the files of a bundle into a directory.
func unpack(bundle, dir string) error {
	f, err := os.Open(bundle)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", bundle, err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", bundle, err)
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("%s: %s is outside", bundle, h.Name)
		}
		b, err := io.ReadAll(r)
		path := filepath.Join(dir, h.Name)
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o600)); err != nil {
			return err
		}
	}
}

// column is a figure of a run in the table.
type column struct {
	head, run string
	cell      func(r *answer.Report, treatment compare.Treatment) string
}

// columns of the table after the proxy and its version.
var columns = []column{
	{"CPU a request, µs", costRun, valueOf(metric.Of(metric.CPUPerRequest, "data"))},
	{"times Envoy 1.40.0", costRun, func(r *answer.Report, t compare.Treatment) string {
		c, ok := r.Find(t.ID, metric.Of(metric.CPUPerRequest, "data"))
		if !ok || c.Ratio == nil {
			return notMeasured
		}
		return within(*c.Ratio, false)
	}},
	{"memory, MiB", costRun, valueOf(metric.Of(metric.Memory, "data"))},
	{"median, ms", costRun, valueOf(metric.Of(metric.Latency, "p50"))},
	{"start, ms", changesRun, valueOf(metric.Of(metric.StartTime, "sidecar"))},
	{"failed requests a reload", changesRun, valueOf(metric.Of(metric.ChangeFailed, metric.RouteChanged))},
	{"last old answer, ms", changesRun, func(_ *answer.Report, t compare.Treatment) string {
		least, known := t.Metrics[metric.Of(metric.ChangeLastOld, metric.RouteChanged)]
		most, bounded := t.Metrics[metric.Of(metric.ChangeLastOldMost, metric.RouteChanged)]
		if !known || !bounded {
			return notMeasured
		}
		return fmt.Sprintf("%.3g to %.3g", least.Estimate, most.Estimate)
	}},
}

func valueOf(name string) func(*answer.Report, compare.Treatment) string {
	return func(_ *answer.Report, t compare.Treatment) string {
		v, ok := t.Metrics[name]
		if !ok {
			return notMeasured
		}
		return within(v.Interval, false)
	}
}

// notMeasured is the cell of a proxy without such a run.
const notMeasured = "not measured"

// row is a version of a proxy.
type row struct {
	proxy, version string
	cells          []string
	run            string // day, load average, and trials that are not in the figures
}

// proxyTable is the table of all bundles, which is the same for the same bundles.
func proxyTable(pages string) (string, error) {
	bundles, err := filepath.Glob(filepath.Join(pages, "proxies", "*.tar.gz"))
	if err != nil {
		return "", err
	}
	var rows []row
	for _, bundle := range bundles {
		more, err := rowsOf(bundle)
		if err != nil {
			return "", err
		}
		rows = append(rows, more...)
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.proxy, b.proxy), slices.Compare(numbers(a.version), numbers(b.version)))
	})
	var b strings.Builder
	b.WriteString("| proxy | version |")
	for _, c := range columns {
		b.WriteString(" " + c.head + " |")
	}
	b.WriteString(" run |\n|---|---|" + strings.Repeat("---:|", len(columns)) + "---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.proxy, r.version, strings.Join(r.cells, " | "), r.run)
	}
	return b.String(), nil
}

// numbers are the parts of a version, so that 2.10 follows 2.9.
func numbers(version string) (all []int) {
	for _, digits := range strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(digits)
		all = append(all, n)
	}
	return all
}

// versionOf is what a program says of itself, without the digest of its build, or else its name.
func versionOf(environment result.Environment, level string) string {
	number, _, _ := strings.Cut(environment.Versions[level], " ")
	if number != "" && number[0] != '(' {
		return number
	}
	if _, program, named := strings.Cut(environment.Variants[level], "program="); named {
		return filepath.Base(program)
	}
	return "unknown"
}

// rowsOf are the versions in a bundle.
func rowsOf(bundle string) ([]row, error) {
	dir, err := os.MkdirTemp("", "tare-bundle-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := unpack(bundle, dir); err != nil {
		return nil, err
	}
	average, err := os.ReadFile(filepath.Join(dir, loadFile))
	if err != nil {
		return nil, err
	}
	reports, of := map[string]*answer.Report{}, map[string]map[string]compare.Treatment{}
	var environment result.Environment
	for name := range runs {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		d, err := result.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", bundle, err)
		}
		if name == costRun {
			environment = d.Environment()
		}
		reports[name], err = answer.Analyze(d, compare.Options{})
		if err = errors.Join(err, d.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", bundle, err)
		}
		of[name] = map[string]compare.Treatment{}
		for _, t := range reports[name].Treatments {
			if !t.Control {
				of[name][t.Factors["mesh"].(string)] = t
			}
		}
	}
	var rows []row
	for _, level := range slices.Sorted(maps.Keys(of[costRun])) {
		t := of[costRun][level]
		if t.Baseline == "" {
			continue
		}
		name, _, _ := strings.Cut(level, "-")
		r := row{proxy: name, version: versionOf(environment, level), run: fmt.Sprintf("%s, load %s", environment.Time.UTC().Format("2 January 2006"), average)}
		for _, c := range columns {
			t, measured := of[c.run][level]
			if measured {
				r.cells = append(r.cells, c.cell(reports[c.run], t))
			} else {
				r.cells = append(r.cells, notMeasured)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if t, measured := of[name][level]; measured && t.N < t.Planned {
				r.run += fmt.Sprintf(", %d of %d trials of %s", t.N, t.Planned, name)
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}
