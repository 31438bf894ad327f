// Command forecast measures whether tare's forecasts hold: it draws applications at random, writes the forecast of each to
// a file, and then measures them with real Envoy sidecars on this machine.
//
//	make bench-forecast
//
// It goes on where it was interrupted. The table of all applications, with every miss, goes to standard output.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/metric"
)

func main() {
	p := program{}
	flag.StringVar(&p.tare, "tare", "bin/tare", "`program` to test")
	flag.StringVar(&p.out, "out", "runs/forecasts", "`directory` of curve, forecasts and runs")
	flag.IntVar(&p.n, "n", 40, "`number` of applications")
	flag.Uint64Var(&p.seed, "seed", 1, "`seed` of the applications")
	flag.IntVar(&p.most, "most", 5, "most `services` of an application")
	flag.IntVar(&p.blocks, "blocks", 5, "`blocks` of the curve")
	flag.DurationVar(&p.within, "within", time.Hour, "`time` after which no other run begins")
	flag.Parse()
	if err := p.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Rates of the curve, requests/s through a sidecar, and its sizes of responses in bytes.
const (
	lowest, highest   = 40, 500
	smallest, largest = 100, 100 << 10
)

// errNoTime ends the runs, not the table.
var errNoTime = errors.New("no time")

type program struct {
	tare, out       string
	n, most, blocks int
	seed            uint64
	within          time.Duration
	end             time.Time
}

func (p program) run() error {
	p.end = time.Now().Add(p.within)
	if err := os.MkdirAll(p.out, 0o755); err != nil {
		return err
	}
	curve := filepath.Join(p.out, "curve")
	if err := p.measure(curve, fmt.Sprintf("factors.rate=[%d, 150, %d]", lowest, highest), fmt.Sprintf("factors.responseSize=[%d, 10KiB, %d]", smallest, largest), fmt.Sprint("blocks=", p.blocks)); err != nil {
		return err
	}
	var drawn []application
	for i := range p.n {
		a := p.draw(i)
		if err := p.forecast(curve, &a); err != nil {
			return err
		}
		drawn = append(drawn, a)
	}
	fmt.Println("| application | requests/s | CPU, thousandths of a core | range | added to the median, ms | range |")
	fmt.Println("|---|---|---|---|---|---|")
	held, all := map[string]int{}, map[string]int{}
	var late error
	for _, a := range drawn {
		if late = p.measure(a.dir, "application.topology="+a.file, fmt.Sprintf("factors.rate=[%d]", a.rate), "blocks=1"); errors.Is(late, errNoTime) {
			break
		} else if late != nil {
			return late
		}
		cpu, added, err := p.measured(a)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		check := func(what string, x *amount, v float64) string {
			if math.IsNaN(v) || x == nil {
				return "unknown | "
			}
			all[what]++
			scale := map[string]float64{"CPU": 1000, "median": 1}[what]
			text := fmt.Sprintf("%.3g", v*scale)
			if v >= x.Low && v <= x.High {
				held[what]++
			} else {
				text += " **missed**"
			}
			return fmt.Sprintf("%s | %.3g to %.3g", text, x.Low*scale, x.High*scale)
		}
		fmt.Printf("| %s | %d | %s | %s |\n", a.shape, a.rate, check("CPU", &a.expected.CPU, cpu), check("median", a.expected.Latency, added))
	}
	for _, what := range []string{"CPU", "median"} {
		fmt.Printf("\n%s: %d of %d held\n", what, held[what], all[what])
	}
	return late
}

// application is a drawn topology, with its forecast.
type application struct {
	file, dir, shape string
	rate             int
	expected         forecast
}

type amount struct{ Estimate, Low, High float64 }

type forecast struct {
	CPU     amount  `json:"cpu"`
	Latency *amount `json:"latency"`
}

// draw draws an application whose sidecars have rates within the curve.
func (p program) draw(i int) application {
	r := rand.New(rand.NewPCG(p.seed, uint64(i)))
	n := 2 + r.IntN(p.most-1)
	kind := []string{"chain", "tree", "fan-out"}[r.IntN(3)]
	t := app.Topology{Name: fmt.Sprintf("drawn-%02d", i+1)}
	for k := range n {
		size := smallest * math.Pow(largest/smallest, r.Float64())
		t.Services = append(t.Services, app.Service{Name: fmt.Sprint("s", k), Behavior: app.Behavior{ResponseSize: app.FixedSize(int64(size))}})
		if k == 0 {
			continue
		}
		parent := map[string]int{"chain": k - 1, "tree": r.IntN(k), "fan-out": 0}[kind]
		calls := &t.Services[parent].Calls
		c := app.Call{Service: fmt.Sprint("s", k)}
		c.Alongside = len(*calls) > 0 && r.IntN(2) == 0
		*calls = append(*calls, c)
	}
	name := filepath.Join(p.out, t.Name)
	a := application{file: name + ".yaml", dir: name, rate: lowest + r.IntN(highest/n-lowest+1)}
	a.shape = fmt.Sprintf("%s of %d", kind, n)
	for _, s := range t.Services {
		for _, c := range s.Calls {
			if c.Alongside {
				a.shape = strings.TrimSuffix(a.shape, ", alongside") + ", alongside"
			}
		}
	}
	text, err := t.YAML()
	if err == nil {
		err = os.WriteFile(a.file, text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return a
}

// forecast reads the forecast of an application, and writes it first if there is none.
func (p program) forecast(curve string, a *application) error {
	file := a.dir + ".forecast.json"
	text, err := os.ReadFile(file)
	if err != nil {
		out, err := exec.Command(p.tare, "forecast", "--graph", a.file, "--rate", fmt.Sprint(a.rate), "--from", curve, "--format", "json").Output()
		if err != nil {
			return fmt.Errorf("forecast %s: %w: %s", a.file, err, out)
		}
		if err := os.WriteFile(file, out, 0o644); err != nil {
			return err
		}
		text = out
	}
	var all struct {
		Forecasts []forecast `json:"forecasts"`
	}
	if err := json.Unmarshal(text, &all); err != nil || len(all.Forecasts) != 1 {
		return fmt.Errorf("%s has %d forecasts: %w", file, len(all.Forecasts), err)
	}
	a.expected = all.Forecasts[0]
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
	args := []string{"run", "examples/quickstart.yaml", "--plain", "--out", dir, "--set", "control=false", "--set", "validity.lateness=20ms"} // late requests do not move the median
	for _, f := range fields {
		args = append(args, "--set", f)
	}
	out, err := exec.Command(p.tare, args...).CombinedOutput()
	if code := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &code) || code.ExitCode() != 3) { // 3: some trials are invalid
		return fmt.Errorf("tare %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// measured returns the CPU of the sidecars of the application, cores, and the growth of the median response, ms.
func (p program) measured(a application) (cpu, added float64, err error) {
	cpu, added = math.NaN(), math.NaN()
	out, err := exec.Command(p.tare, "report", a.dir, "--format", "json").Output()
	if err != nil {
		return cpu, added, fmt.Errorf("report %s: %w", a.dir, err)
	}
	var report struct {
		Trials []struct {
			ID      string             `json:"id"`
			Valid   bool               `json:"valid"`
			Factors map[string]any     `json:"factors"`
			Metrics map[string]float64 `json:"metrics"`
		} `json:"trials"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return cpu, added, err
	}
	medians := map[any]float64{"none": math.NaN(), "envoy": math.NaN()}
	for _, t := range report.Trials {
		if m, ok := t.Metrics[metric.Of(metric.Latency, "p50")]; ok && t.Valid {
			medians[t.Factors["mesh"]] = m
		}
		if t.Factors["mesh"] != "envoy" || !t.Valid {
			continue
		}
		text, err := fs.ReadFile(os.DirFS(a.dir), "trials/"+t.ID+"/record.json")
		if err != nil {
			return cpu, added, err
		}
		var record struct {
			Load struct {
				Completed float64 `json:"completed"`
			} `json:"load"`
			Tasks []struct {
				Plane, Component string
				Start, End       struct{ CPU float64 }
			} `json:"tasks"`
		}
		if err := json.Unmarshal(text, &record); err != nil {
			return cpu, added, err
		}
		cpu = 0
		for _, task := range record.Tasks {
			if task.Plane == "data" && task.Component == "" {
				cpu += (task.End.CPU - task.Start.CPU) / 1e9 / record.Load.Completed * t.Metrics["rate"]
			}
		}
	}
	return cpu, medians["envoy"] - medians["none"], nil
}
