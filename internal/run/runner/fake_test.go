package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/test/must"
)

// fake is a platform that fails on demand. Its load generator is a real process.
type fake struct {
	deploy  func() error
	verify  func() ([]check.Check, error) // nil: every check holds
	remove  func(context.Context) error
	watched func() error
	tasks   func([]platform.Task) []platform.Task

	mu                sync.Mutex
	deployed, removed int
	loads             []*proc.Process
}

func (f *fake) Prepare(context.Context, []mesh.Definition) (map[string]string, error) {
	return map[string]string{"fake": "1"}, nil
}

func (f *fake) Deploy(context.Context, platform.Spec) (*platform.Deployment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deployed++
	if f.deploy != nil {
		if err := f.deploy(); err != nil {
			f.deployed--
			return nil, err
		}
	}
	d := &fakeDeployment{fake: f}
	return &platform.Deployment{Running: d, Verify: d.Verify, Broken: d.Err}, nil
}

type fakeDeployment struct {
	fake *fake
	load *proc.Process
	gone bool
}

func (d *fakeDeployment) Entry() []string { return []string{"http://127.0.0.1:1/"} }

func (d *fakeDeployment) Tasks(context.Context) ([]platform.Task, error) {
	tasks := []platform.Task{{Task: mesh.Task{ID: "tare", Plane: metric.Harness}, PID: os.Getpid()}}
	if d.load != nil {
		tasks = append(tasks, platform.Task{Task: mesh.Task{ID: "load/load", Plane: metric.Load}, PID: d.load.PID})
	}
	if d.fake.tasks != nil {
		tasks = d.fake.tasks(tasks)
	}
	return tasks, nil
}

func (d *fakeDeployment) StartLoad(ctx context.Context, cmd proc.Command) (platform.Process, error) {
	cmd.Tree = true // marked: real deployments of tests beside this one leave it out of their tasks
	p, err := proc.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	d.load = p
	d.fake.mu.Lock()
	d.fake.loads = append(d.fake.loads, p)
	d.fake.mu.Unlock()
	return p, nil
}

func (d *fakeDeployment) Remove(ctx context.Context) error {
	if d.fake.remove != nil {
		if err := d.fake.remove(ctx); err != nil {
			return err
		}
	}
	d.fake.mu.Lock()
	defer d.fake.mu.Unlock()
	if !d.gone {
		d.gone = true
		d.fake.removed++
	}
	return nil
}

func (d *fakeDeployment) Verify(context.Context, platform.Probe) (platform.Verification, error) {
	if d.fake.verify != nil {
		checks, err := d.fake.verify()
		return platform.Verification{Checks: checks}, err
	}
	return platform.Verification{Checks: []check.Check{{Name: "answer", OK: true, Detail: "1024 bytes"}}}, nil
}

func (d *fakeDeployment) Err() error {
	if d.fake.watched != nil {
		return d.fake.watched()
	}
	return nil
}

// fakeGenerator starts this test binary as a generator whose output depends on mode.
type fakeGenerator struct{ mode string }

// noExitSleep keeps a process built with the race detector from sleeping a second before it ends.
const noExitSleep = "GORACE=atexit_sleep_ms=0"

const modeEnv = "TARE_RUNNER_TEST_LOAD"

func (fakeGenerator) Name() string { return "fake" }

func (fakeGenerator) Abilities() generator.Abilities { return generator.Abilities{} }

func (g fakeGenerator) Command(p load.Profile) (proc.Command, error) {
	if g.mode == "unsupported" {
		return proc.Command{}, fmt.Errorf("poisson arrivals: %w", errors.ErrUnsupported)
	}
	b, err := json.Marshal(p)
	return proc.Command{Path: os.Args[0], Env: []string{roleEnv + "=load", modeEnv + "=" + g.mode, noExitSleep}, Stdin: bytesReader(b)}, err
}

func (fakeGenerator) Parse(out io.Reader, p load.Profile, progress func(load.Progress)) (result.Load, error) {
	return generator.Tare{}.Parse(out, p, progress)
}

// fakeLoad is the generator's process. It keeps the schedule and sends nothing.
func fakeLoad(stdin io.Reader, out io.Writer) error {
	var p load.Profile
	in := json.NewDecoder(stdin)
	if err := in.Decode(&p); err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	mode := os.Getenv(modeEnv)
	if p.Hold {
		if err := hold(&p, mode, in, enc); err != nil {
			return err
		}
	}
	time.Sleep(time.Until(p.Start.Add(p.Warmup)))
	n := max(int64(p.Rate*p.Measure.Seconds()), 10)
	report := load.Report{Engine: "fake", Loop: "open", Started: p.Start, MeasureStart: p.Start.Add(p.Warmup), MeasureEnd: p.Start.Add(p.Warmup + p.Measure),
		Intended: n, Sent: n, Completed: n, Classes: map[load.Class]int64{load.OK: n}, Statuses: map[string]int64{"200": n}}
	if err := enc.Encode(load.Line{Progress: &load.Progress{Phase: "measure", Completed: n, P50MS: 1}}); err != nil {
		return err
	}
	if mode == "early" {
		return enc.Encode(load.Line{Report: &report})
	}
	time.Sleep(p.Measure / 3)
	switch mode {
	case "crash":
		return errors.New("segmentation violation")
	case "silent":
		time.Sleep(p.Measure)
		return nil
	case "garbage":
		time.Sleep(p.Measure)
		_, err := fmt.Fprintln(out, "Requests/sec: many")
		return err
	case "stuck":
		time.Sleep(time.Hour)
	case "500":
		report.Classes = map[load.Class]int64{load.Status: n}
		report.Statuses = map[string]int64{"500": n}
	case "slow":
		report.Completed = n / 2
	}
	ctx := context.Background()
	if p.Hold { // its tail may be ended
		var stop func()
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGTERM)
		defer stop()
	}
	select {
	case <-time.After(time.Until(report.MeasureEnd.Add(p.Tail))):
	case <-ctx.Done():
	}
	return enc.Encode(load.Line{Report: &report})
}

// hold announces that the load is ready and waits for its start.
func hold(p *load.Profile, mode string, in *json.Decoder, out *json.Encoder) error {
	switch mode {
	case "dead":
		return errors.New("no memory for connections")
	case "hangs":
		time.Sleep(time.Hour)
	}
	if err := out.Encode(load.Line{Ready: true}); err != nil {
		return err
	}
	var b load.Begin
	err := in.Decode(&b)
	p.Start = b.Start
	return err
}

// heldGenerator is a fake that waits for its start.
type heldGenerator struct{ fakeGenerator }

func (heldGenerator) Abilities() generator.Abilities { return generator.Abilities{Holds: true} }

// fakeSlices are the slices of each trial of a round in the measure phase, of 100 ms.
const fakeSlices = 3

const fakeText = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: fake}
factors: {mesh: [none], rate: [500]}
blocks: 1
`

// fakeConfig is a run of one short trial over f.
func fakeConfig(t *testing.T, f *fake, mode string) (runner.Config, *events) {
	t.Helper()
	return fakeRun(t, fakeText, f, mode)
}

func fakeRun(t *testing.T, text string, f *fake, mode string) (runner.Config, *events) {
	t.Helper()
	x, p, topology := decode(t, text)
	quick(x)
	if p.Slices != nil {
		p.Slices.Warmup, p.Slices.Measure = 1, fakeSlices
	}
	if mode == "early" { // by far, however late the machine lets it begin
		x.Phases.Measure = experiment.Duration(20 * time.Second)
	}
	meters := must.Get(meter.NewLocal())(t)
	dir := must.Get(result.Create(filepath.Join(t.TempDir(), "run"), []byte(text), p, meter.Host()))(t)
	t.Cleanup(func() { dir.Close() })
	sink := &events{}
	return runner.Config{
		Experiment: x, Topology: topology, Meshes: map[string]mesh.Definition{"none": {Name: "none"}},
		Platform: platform.Platform{Deployer: f}, Generators: map[string]generator.Generator{"tare": fakeGenerator{mode}}, Meter: meters, Dir: dir, Sinks: []result.Sink{sink},
		Timing: quickTiming,
	}, sink
}

var quickTiming = runner.Timing{Lead: 100 * time.Millisecond, Tail: 50 * time.Millisecond, Settle: 300 * time.Millisecond,
	Deferral: 200 * time.Millisecond, Overtime: time.Minute, Remove: 2 * time.Second, LoadGrace: 100 * time.Millisecond}

func quick(x *experiment.Experiment) {
	x.Phases = experiment.Phases{Warmup: experiment.Duration(50 * time.Millisecond), Measure: experiment.Duration(300 * time.Millisecond), Drain: experiment.Duration(50 * time.Millisecond)}
	x.Load.Timeout = experiment.Duration(100 * time.Millisecond)
	x.Validity.Lateness = experiment.Duration(time.Second)
}
