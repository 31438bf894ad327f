// Package answertest makes synthetic results directories with known true values.
// Tests check that analysis and reports recover them. The result store writes the
// directories, with real latency logs.
package answertest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// ABWithOutlier is [AB] of 12 blocks, in one of which the data plane of B costs a fifth more.
func ABWithOutlier() Study {
	s := AB(0, 12)
	s.Change = func(r *result.Record) {
		for i := range r.Tasks {
			if task := &r.Tasks[i]; r.Block == 9 && r.Treatment == "envoy-b" {
				task.End.CPU = task.Start.CPU + (task.End.CPU-task.Start.CPU)*6/5
			}
		}
	}
	return s
}

// AB is a run of A, A again and B, whose data plane costs a share more, with a gate of 2 %.
func AB(more float64, blocks int) Study {
	a := Truth{AppUS: 60, DataUS: 400, LoadUS: 20, AppMiB: 14, DataMiB: 50, MedianMS: 0.5}
	b := a
	b.DataUS *= 1 + more
	onMesh := func(level string) plan.Factors { return plan.Factors{"mesh": level} }
	return Study{
		Name: "ab", Blocks: blocks, Seed: 7, Warmup: 1, Measure: 1, Rate: 50, Noise: 0.005, Drift: 0.1,
		YAML: "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: ab}\ndecide: {gates: ['" + metric.Of(metric.CPUPerRequest, "data") + " < +2%']}\n",
		Treatments: []Treatment{
			{ID: "envoy-a", Factors: onMesh("envoy-a"), Truth: a},
			{ID: "envoy-a-control", Factors: plan.Factors{"mesh": "envoy-a", plan.ControlFactor: true}, Baseline: "envoy-a", Control: true, Truth: a},
			{ID: "envoy-b", Factors: onMesh("envoy-b"), Baseline: "envoy-a", Truth: b},
		},
	}
}

// epoch is when every study began.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TwoRates is a short study of a mesh and its A/A pair, at 100 and 1000 requests per second.
func TwoRates() Study {
	s := Quickstart()
	s.Name, s.Blocks, s.Warmup, s.Measure, s.Rate = "two-rates", 4, 1, 2, 100
	one := s.Treatments[:3]
	s.Treatments = nil
	for _, rate := range []float64{100, 1000} {
		for _, t := range one {
			if t.Control && rate == 100 {
				continue
			}
			suffix := fmt.Sprintf("-rate%.0f", rate)
			t.Factors = plan.Factors{"mesh": t.Factors["mesh"], "rate": rate, "connections": 16.0}
			t.ID += suffix
			if t.Baseline != "" {
				t.Baseline += suffix
			}
			s.Treatments = append(s.Treatments, t)
		}
	}
	return s
}

// Study is a synthetic experiment.
type Study struct {
	Name       string
	YAML       string // of the experiment file, made from Name if empty
	Blocks     int
	Seed       uint64
	Treatments []Treatment
	// Warmup and Measure are whole seconds, Rate requests/s.
	Warmup, Measure int
	Rate            int
	// Order is the plan's. Empty means random.
	Order string
	// Until is the plan's, from 6 blocks on.
	Until string
	// Platform of the environment. Empty means this machine.
	Platform string
	// RateFactor takes each treatment's load from its factor rate instead of Rate.
	RateFactor bool
	// Noise is the relative deviation of a trial's costs, and Drift what the
	// machine loses over the whole study, relative, on every cost alike.
	Noise, Drift float64
	// Speed is the relative cost of everything in a block, in place of Drift and Walk: interleaved treatments share
	// the machine's speed. nil: each trial has its own.
	Speed func(block int) float64
	// Walk is how much slower or faster the machine is from one trial to the next, relative.
	Walk float64
	// Bare trials have no latency log: CPU and memory only. Simulations write thousands of them.
	Bare bool
	// Seconds gives trials an event for each second of load, and samples of CPU.
	Seconds bool
	// Change, if set, alters a record before it is written: to fail it, to lose a task, …
	Change func(*result.Record)
}

// Treatment is one treatment with its truth.
type Treatment struct {
	ID       string
	Factors  plan.Factors
	Baseline string
	Control  bool
	Truth    Truth
}

// Truth is the cost of a treatment before noise and drift.
type Truth struct {
	AppUS, DataUS, ControlUS, LoadUS float64 // CPU µs per request
	AppMiB, DataMiB                  float64 // resident memory
	MedianMS                         float64 // response time
	Slower                           float64 // relative growth of the response time over the measure phase
}

// Quickstart is a study as most people run one: no mesh, its A/A twin, and
// three data planes. Mutual TLS costs 30 µs and 8 MiB more than plain text.
func Quickstart() Study {
	none := Truth{AppUS: 60, LoadUS: 20, AppMiB: 14, MedianMS: 0.2}
	onMesh := func(level string) plan.Factors { return plan.Factors{"mesh": level} }
	return Study{
		Name: "quickstart", Blocks: 6, Seed: 1, Warmup: 2, Measure: 5, Rate: 300, Noise: 0.01, Drift: 0.1,
		Treatments: []Treatment{
			{ID: "none", Factors: onMesh("none"), Truth: none},
			{ID: "none-control", Factors: plan.Factors{"mesh": "none", plan.ControlFactor: true}, Baseline: "none", Control: true, Truth: none},
			{ID: "envoy", Factors: onMesh("envoy"), Baseline: "none", Truth: Truth{AppUS: 66, DataUS: 180, LoadUS: 21, AppMiB: 14, DataMiB: 48, MedianMS: 0.62}},
			{ID: "envoy-plaintext", Factors: onMesh("envoy-plaintext"), Baseline: "none", Truth: Truth{AppUS: 65, DataUS: 150, LoadUS: 21, AppMiB: 14, DataMiB: 40, MedianMS: 0.55}},
			{ID: "envoy-tcp", Factors: onMesh("envoy-tcp"), Baseline: "none", Truth: Truth{AppUS: 62, DataUS: 70, LoadUS: 20, AppMiB: 14, DataMiB: 38, MedianMS: 0.38}},
		},
	}
}

// Write writes the study into dir, which must be empty or absent, and opens it for reading.
func (s Study) Write(t testing.TB, dir string) *result.Dir {
	t.Helper()
	d, err := s.Create(dir)
	if err != nil {
		t.Fatalf("write synthetic study: %v", err)
	}
	return d
}

// Create is Write without a test.
func (s Study) Create(dir string) (*result.Dir, error) {
	if err := s.write(dir); err != nil {
		return nil, err
	}
	return result.Open(dir)
}

func (s Study) write(dir string) error {
	yaml := s.YAML
	if yaml == "" {
		yaml = fmt.Sprintf("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata:\n  name: %s\n  description: Synthetic, of known truth.\nblocks: %d\n", s.Name, s.Blocks)
	}
	p := s.Plan()
	environment := Environment()
	environment.Platform = cmp.Or(s.Platform, environment.Platform)
	d, err := result.Create(dir, []byte(yaml), p, environment)
	if err != nil {
		return err
	}
	defer d.Close()
	truths := map[string]Treatment{}
	for _, t := range s.Treatments {
		truths[t.ID] = t
	}
	walk, walked := rand.New(rand.NewPCG(s.Seed, 2)), 0.0
	for _, trial := range p.Trials {
		td, err := d.Trial(trial)
		if err != nil {
			return err
		}
		walked += s.Walk * walk.NormFloat64()
		level := (1 + s.Drift*float64(trial.Ordinal-1)/float64(len(p.Trials))) * math.Exp(walked)
		if s.Speed != nil {
			level = s.Speed(trial.Block)
		}
		source := rand.NewPCG(s.Seed, 1000+uint64(trial.Ordinal))
		m := machine{rand.New(source), source, level, s.Noise}
		s := s.withRate(truths[trial.Treatment])
		n, err := s.latencies(m, truths[trial.Treatment].Truth, td.Path(result.LatencyFile))
		if err != nil {
			return err
		}
		record := s.record(m, trial, truths[trial.Treatment], n)
		if s.Change != nil {
			s.Change(&record)
		}
		if err := errors.Join(s.events(td, &record), td.Finish(record), td.Seal()); err != nil {
			return err
		}
	}
	return nil
}

// Environment is the machine every study ran on.
func Environment() result.Environment {
	return result.Environment{
		Time: epoch, Tare: "v0.1.0", Command: []string{"tare", "run", "synthetic.yaml"}, Platform: "local", OS: "linux", Arch: "amd64",
		Kernel: "6.12.0", CPUModel: "Synthetic CPU @ 2.00GHz", CPUs: 2, MemoryMB: 8192, Versions: map[string]string{"envoy": "1.40.0"},
	}
}

// Plan returns the study's plan: each block has a different order.
func (s Study) Plan() *plan.Plan {
	p := &plan.Plan{Schema: result.PlanSchema, Experiment: s.Name, Seed: s.Seed, Blocks: s.Blocks, Order: s.Order}
	if s.Until != "" {
		p.MinBlocks, p.Until = 6, s.Until
	}
	for _, t := range s.Treatments {
		p.Treatments = append(p.Treatments, plan.Treatment{ID: t.ID, Factors: t.Factors, Control: t.Control, Baseline: t.Baseline})
	}
	r := rand.New(rand.NewPCG(s.Seed, 1))
	for b := 1; b <= s.Blocks; b++ {
		for _, i := range r.Perm(len(s.Treatments)) {
			ordinal := len(p.Trials) + 1
			p.Trials = append(p.Trials, plan.Trial{
				ID:      fmt.Sprintf("%d-%s-b%d", ordinal, s.Treatments[i].ID, b),
				Ordinal: ordinal, Block: b, Treatment: s.Treatments[i].ID, Seed: uint64(b),
			})
		}
	}
	return p
}

// events writes the phases of the record as a run does.
func (s Study) events(td *result.TrialDir, r *result.Record) error {
	all := []result.Event{{Time: r.Started, Kind: result.KindTrial, Trial: r.ID}}
	for _, p := range r.Phases {
		all = append(all, result.Event{Time: p.Start, Kind: result.KindPhase, Trial: r.ID, Phase: p.Name})
	}
	if s.Seconds && r.Load != nil {
		all = append(all, s.seconds(r)...)
		slices.SortStableFunc(all, func(a, b result.Event) int { return a.Time.Compare(b.Time) })
	}
	for _, e := range append(all, result.Event{Time: r.Ended, Kind: result.KindDone, Trial: r.ID}) {
		if err := td.Event(e); err != nil {
			return err
		}
	}
	return nil
}

// seconds are the answers of each second, of which every third has a failure, and the CPU of the tasks.
func (s Study) seconds(r *result.Record) (all []result.Event) {
	for second := range s.Warmup + s.Measure {
		at := r.Started.Add(time.Duration(second+1) * time.Second)
		failed := int64(second % 3 / 2)
		all = append(all, result.Event{Time: at, Kind: result.KindProgress, Trial: r.ID, Progress: &result.Progress{
			Second: second, AskedRate: r.Load.AskedRate, Rate: r.Load.AskedRate * (1 - 0.02*float64(second%4)), Errors: failed, P50MS: 0.5 + 0.1*float64(second%2), P99MS: 2 + float64(second%5)}})
		cores := map[string]float64{}
		for _, t := range r.Tasks {
			cores[string(t.Task.Plane)] += float64(t.End.CPU-t.Start.CPU) / float64(t.End.At.Sub(t.Start.At))
		}
		all = append(all, result.Event{Time: at, Kind: result.KindSample, Trial: r.ID, Sample: &result.Sample{Cores: cores}})
	}
	return all
}

// withRate returns the study at the rate of one treatment.
func (s Study) withRate(t Treatment) Study {
	if rate, ok := t.Factors["rate"].(float64); ok && s.RateFactor {
		s.Rate = int(rate)
	}
	return s
}

// machine is the state of the synthetic machine during one trial.
type machine struct {
	rand   *rand.Rand
	source *rand.PCG
	level  float64 // drift
	noise  float64
}

// latencyLog is a log that was made before, with its requests in the window and the random numbers that follow it.
// Compressing logs takes longer than anything else, and many tests have the same study.
type latencyLog struct {
	text, source []byte
	requests     int64
}

var latencyLogs sync.Map // of latencyLog, by what it depends on

func (s Study) record(m machine, trial plan.Trial, t Treatment, completed int64) result.Record {
	start := epoch.Add(time.Duration(trial.Ordinal) * time.Minute)
	from := start.Add(time.Duration(s.Warmup) * time.Second)
	to := from.Add(time.Duration(s.Measure) * time.Second)
	late := 12.0
	r := result.Record{
		Schema: result.Schema, ID: trial.ID, Ordinal: trial.Ordinal, Block: trial.Block, Treatment: trial.Treatment,
		Factors: t.Factors, Control: t.Control, Started: start, Ended: to.Add(time.Second), Valid: true,
		Phases: []result.Phase{{Name: "measure", Start: from, End: to}},
		Load: &result.Load{
			Generator: "tare", Version: "v0.1.0", Loop: "open", Arrivals: "poisson", Start: from, End: to, AskedRate: float64(s.Rate), Connections: 16,
			Intended: completed, Sent: completed, Completed: completed, Classes: map[string]int64{"2xx": completed},
			BytesIn: completed * 1180, BytesOut: completed * 96,
			WarmupSeconds: float64(s.Warmup), MeasureSeconds: float64(s.Measure), LatenessP99US: &late,
		},
		Node: &result.NodeUsage{CPUs: 2, Start: result.NodeReading{At: from}, End: result.NodeReading{At: to, Busy: int64(m.cost(0.4) * float64(s.Measure) * 1e9)}},
	}
	task := func(id string, plane metric.Plane, us, mib float64) {
		// Every task is read a little after the edge. Cumulative counters with their own time bear that.
		at := from.Add(time.Duration(m.rand.IntN(20)) * time.Millisecond)
		end := to.Add(time.Duration(m.rand.IntN(20)) * time.Millisecond)
		perSecond := m.cost(us) * 1e3 * float64(completed) / float64(s.Measure)
		resident := int64(mib * (1 + m.noise*m.rand.NormFloat64()/4) * (1 << 20))
		r.Tasks = append(r.Tasks, result.TaskUsage{
			Task:  mesh.Task{ID: id, Pod: id, Container: string(plane), Plane: plane},
			Start: result.Reading{At: at, CPU: 5e8, RSS: resident, Peak: resident, Voluntary: 100},
			End:   result.Reading{At: end, CPU: 5e8 + int64(perSecond*end.Sub(at).Seconds()), RSS: resident, Peak: resident + 1<<20, Voluntary: 100 + completed},
		})
	}
	task("echo-0/app", metric.App, t.Truth.AppUS, t.Truth.AppMiB)
	if t.Truth.DataUS > 0 {
		task("echo-0/sidecar", metric.Data, t.Truth.DataUS*0.55, t.Truth.DataMiB/2)
		task("load/sidecar", metric.Data, t.Truth.DataUS*0.45, t.Truth.DataMiB/2)
	}
	if t.Truth.ControlUS > 0 {
		task("control/0", metric.Control, t.Truth.ControlUS, 60)
	}
	task("load", metric.Load, t.Truth.LoadUS, 10)
	task("tare", metric.Harness, 4, 30)
	return r
}

// latencies writes the trial's interval log and returns how many requests lie in the measure window.
func (s Study) latencies(m machine, truth Truth, path string) (int64, error) {
	if s.Bare {
		return int64(s.Rate * s.Measure), nil
	}
	source, err := m.source.MarshalBinary()
	if err != nil {
		return 0, err
	}
	key := fmt.Sprintf("%x %v %v %d %d %d %v", source, m.level, m.noise, s.Warmup, s.Measure, s.Rate, truth.MedianMS) + fmt.Sprint(truth.Slower)
	made, ok := latencyLogs.Load(key)
	if !ok {
		one, err := s.latencyLog(m, truth)
		if err != nil {
			return 0, err
		}
		made, _ = latencyLogs.LoadOrStore(key, one)
	}
	one := made.(latencyLog)
	return one.requests, errors.Join(m.source.UnmarshalBinary(one.source), os.WriteFile(path, one.text, 0o600))
}

func (s Study) latencyLog(m machine, truth Truth) (one latencyLog, err error) {
	var b bytes.Buffer
	log, err := hdrlog.NewWriter(&b, epoch, "tare: test data")
	median := m.cost(truth.MedianMS) * 1e6
	for second := range s.Warmup + s.Measure + 1 {
		slow := 1.0
		if second < s.Warmup {
			slow = 20 // what warm-up leaks into the measurement shows
		}
		tags := []string{load.TagResponse + "2xx", load.TagService + "2xx", load.TagLateness}
		var histograms []*hdrhistogram.PackedHistogram
		for range tags {
			histograms = append(histograms, hdrhistogram.NewPacked(1000, int64(time.Minute), 3))
		}
		for range s.Rate {
			v := slow * median * math.Exp(0.35*m.rand.NormFloat64()) * (1 + truth.Slower*float64(max(0, second-s.Warmup))/float64(s.Measure))
			lateness := 5e3 * m.rand.ExpFloat64()
			for i, ns := range []float64{v + lateness, v, lateness} {
				err = errors.Join(err, histograms[i].RecordValue(int64(ns)))
			}
		}
		if second >= s.Warmup && second < s.Warmup+s.Measure {
			one.requests += histograms[0].TotalCount()
		}
		from := time.Duration(second) * time.Second
		for i, tag := range tags {
			err = errors.Join(err, log.Interval(from, from+time.Second, tag, histograms[i]))
		}
	}
	err = errors.Join(err, log.Flush())
	one.text = b.Bytes()
	source, bad := m.source.MarshalBinary()
	one.source = source
	return one, errors.Join(err, bad)
}

// cost is the truth with the noise of this machine and time.
func (m machine) cost(truth float64) float64 {
	return truth * m.level * (1 + m.noise*m.rand.NormFloat64())
}
