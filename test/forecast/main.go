// Command forecast measures whether tare's forecasts hold: it draws applications at random, writes the forecast of each to
// a file, and then measures them with real Envoy sidecars on this machine.
//
//	make bench-forecast
//
// It goes on where it was interrupted. The results of all applications, with every miss, go to standard output, or into a page.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/result"
)

func main() {
	p := program{}
	flag.StringVar(&p.tare, "tare", "bin/tare", "`program` to test")
	flag.StringVar(&p.out, "out", "runs/forecasts", "`directory` of curve, forecasts and runs")
	flag.StringVar(&p.page, "page", "", "`file` whose part after the marker gets the results")
	flag.IntVar(&p.n, "n", 48, "`number` of applications")
	flag.Uint64Var(&p.seed, "seed", 1, "`seed` of the applications")
	flag.IntVar(&p.most, "most", 12, "most `services` of an application")
	flag.IntVar(&p.blocks, "blocks", 5, "`blocks` of the curve")
	flag.BoolVar(&p.short, "short", false, "one second with the mesh alone, for CPU and memory: no median")
	flag.DurationVar(&p.within, "within", time.Hour, "`time` after which no other run begins")
	flag.Parse()
	if err := p.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Rates of the curve, requests/s through a sidecar, and its sizes of responses in bytes.
const (
	lowest, highest   = 30, 500
	smallest, largest = 100, 100 << 10
)

// parallel is how often an application has calls at the same time, whose median is refused: each sixth time.
const parallel = 6

// errNoTime ends the runs, not the table.
var errNoTime = errors.New("no time")

type program struct {
	tare, out, page string
	n, most, blocks int
	seed            uint64
	short           bool
	within          time.Duration
	end             time.Time
}

func (p program) run() error {
	p.end = time.Now().Add(p.within)
	if err := os.MkdirAll(p.out, 0o755); err != nil {
		return err
	}
	curve, callers := filepath.Join(p.out, "curve"), filepath.Join(p.out, "callers")
	if err := p.measure(callers, "application.topology=callers", "factors.rate=[10]", "factors.connections=[2]", fmt.Sprintf("factors.responseSize=[%d]", smallest), fmt.Sprint("blocks=", p.blocks)); err != nil {
		return err
	}
	if err := p.measure(curve, fmt.Sprintf("factors.rate=[%d, 120, %d]", lowest, highest), fmt.Sprintf("factors.responseSize=[%d, %d]", smallest, largest),
		"factors.protocol=[http1, grpc]", "factors.connections=[2, 16]", fmt.Sprint("blocks=", p.blocks)); err != nil {
		return err
	}
	var all []application
	for i := range p.n {
		a, err := p.draw(i)
		if err != nil {
			return err
		}
		if err := p.forecast(&a, curve, callers); err != nil {
			return err
		}
		all = append(all, a)
	}
	var late error
	for i := range all {
		a := &all[i]
		topology, err := filepath.Abs(a.file) // a relative path would begin at the experiment file
		if err != nil {
			return err
		}
		if late = p.measure(a.dir, "application.topology="+topology, fmt.Sprintf("factors.rate=[%d]", a.rate), "factors.connections=[8]", "blocks=1", "phases.measure=2400ms"); late != nil {
			all = all[:i]
			break
		}
		if err := p.readCosts(a); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if late != nil && !errors.Is(late, errNoTime) {
		return late
	}
	text, err := p.results(curve, all)
	if err != nil {
		return err
	}
	if p.page == "" {
		fmt.Print(text)
		return late
	}
	return errors.Join(late, fill(p.page, text))
}

// application is a drawn topology, with its forecast and what it cost.
type application struct {
	file, dir, shape string
	rate             int
	written          time.Time // of the forecast
	expected         predict.Forecast

	started                   time.Time // of the measurement
	load                      float64   // load average before it
	cpu, memory, without, p50 float64   // cores, MiB, ms; NaN: unknown
}

// added is the growth of the median response, ms.
func (a application) added() float64 { return a.p50 - a.without }

// draw draws an application whose sidecars have rates within the curve.
func (p program) draw(i int) (application, error) {
	r := rand.New(rand.NewPCG(p.seed, uint64(i)))
	n := 2 + r.IntN(p.most-1)
	kind := []string{"chain", "tree", "fan-out"}[r.IntN(3)]
	t := app.Topology{Name: fmt.Sprintf("drawn-%02d", i+1)}
	grpc, together := 0, false
	for k := range n {
		size := smallest * math.Pow(largest/smallest, r.Float64())
		s := app.Service{Name: fmt.Sprint("s", k), Protocol: app.HTTP1, Behavior: app.Behavior{ResponseSize: app.FixedSize(int64(size))}}
		if r.IntN(2) == 0 {
			s.Protocol = app.GRPC
			grpc++
		}
		t.Services = append(t.Services, s)
		if k == 0 {
			continue
		}
		parent := map[string]int{"chain": k - 1, "tree": r.IntN(k), "fan-out": 0}[kind]
		calls := &t.Services[parent].Calls
		c := app.Call{Service: s.Name}
		c.Alongside = i%parallel == parallel-1 && len(*calls) > 0
		together = together || c.Alongside
		*calls = append(*calls, c)
	}
	name := filepath.Join(p.out, t.Name)
	a := application{file: name + ".yaml", dir: name, rate: lowest + r.IntN(highest/n-lowest+1), shape: fmt.Sprintf("%s of %d, %d gRPC", kind, n, grpc)}
	if together {
		a.shape += ", parallel"
	}
	text, err := t.YAML()
	if err != nil {
		return a, err
	}
	return a, os.WriteFile(a.file, text, 0o644)
}

// written is a forecast with its time.
type written struct {
	Time      time.Time          `json:"time"`
	Forecasts []predict.Forecast `json:"forecasts"`
}

// forecast reads the forecast of an application, and writes it first if there is none.
func (p program) forecast(a *application, runs ...string) error {
	var w written
	file := a.dir + ".forecast.json"
	if text, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(text, &w); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	} else {
		if err := p.read(&w, append([]string{"forecast", "--graph", a.file, "--rate", fmt.Sprint(a.rate), "--format", "json"}, runs...)...); err != nil {
			return err
		}
		w.Time = time.Now()
		text, err := json.MarshalIndent(w, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	if len(w.Forecasts) != 1 {
		return fmt.Errorf("%s has %d forecasts, not 1", file, len(w.Forecasts))
	}
	a.written, a.expected = w.Time, w.Forecasts[0]
	return nil
}

// read reads the JSON that the program prints. An error has what it printed to standard error.
func (p program) read(into any, args ...string) error {
	out, err := exec.Command(p.tare, args...).Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if code := (*exec.ExitError)(nil); errors.As(err, &code) {
		return fmt.Errorf("tare %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(code.Stderr))
	}
	if err != nil {
		return fmt.Errorf("tare %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// measure runs the quickstart with other fields, unless the directory has the run.
func (p program) measure(dir string, fields ...string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if time.Now().After(p.end) {
		return fmt.Errorf("%w for %s: run it again", errNoTime, dir)
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		if err := os.WriteFile(dir+".load", load, 0o644); err != nil {
			return err
		}
	}
	part := dir + ".part" // an interrupted run is made again
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	// Late requests do not move the median.
	args := []string{"run", "examples/quickstart.yaml", "--plain", "--out", part, "--set", "control=false", "--set", "validity.lateness=20ms"}
	if p.short {
		fields = append(fields, "factors.mesh=[envoy]", "baseline={mesh: envoy}", "phases.measure=1s", "validity.rateShortfall=0.5", "validity.lateness=1s")
	}
	for _, f := range fields {
		args = append(args, "--set", f)
	}
	out, err := exec.Command(p.tare, args...).CombinedOutput()
	if code := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &code) || code.ExitCode() != 3) { // 3: some trials are invalid
		return fmt.Errorf("tare %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return os.Rename(part, dir)
}

// readCosts reads the costs of a measured application. Those of invalid trials are unknown.
func (p program) readCosts(a *application) error {
	a.cpu, a.memory, a.p50, a.without = math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if load, err := os.ReadFile(a.dir + ".load"); err == nil {
		if _, err := fmt.Sscan(string(load), &a.load); err != nil {
			return fmt.Errorf("%s.load: %w", a.dir, err)
		}
	}
	var report struct {
		Trials []struct {
			ID      string             `json:"id"`
			Valid   bool               `json:"valid"`
			Factors map[string]any     `json:"factors"`
			Metrics map[string]float64 `json:"metrics"`
		} `json:"trials"`
	}
	if err := p.read(&report, "report", a.dir, "--format", "json"); err != nil {
		return err
	}
	d, err := result.Open(a.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	a.started = d.Environment().Time
	records, err := d.Records()
	if err != nil {
		return err
	}
	for _, t := range report.Trials {
		if !t.Valid {
			continue
		}
		median := &a.without
		if t.Factors["mesh"] != "none" {
			median = &a.p50
		}
		if m, ok := t.Metrics[metric.Of(metric.Latency, "p50")]; ok {
			*median = m
		}
		for _, r := range records {
			if r.ID != t.ID || t.Factors["mesh"] == "none" {
				continue
			}
			a.cpu, a.memory = 0, 0
			for _, task := range r.Tasks {
				if task.Plane == metric.Data && task.Component == "" {
					a.cpu += float64(task.End.CPU-task.Start.CPU) / 1e9 / float64(r.Load.Completed) * t.Metrics[metric.Rate]
					a.memory += float64(task.End.RSS) / (1 << 20)
				}
			}
		}
	}
	return nil
}
