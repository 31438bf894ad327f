package runner_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func bytesReader(b []byte) io.Reader { return bytes.NewReader(b) }

type hinted struct{ error }

func (hinted) Hint() string { return "plug it in" }

// Each row breaks one part of a trial. Its record has the outcome, and the run does not fail.
func TestWhatGoesWrong(t *testing.T) {
	t.Parallel()
	soon := func(err error) func() error { // a task that dies during the measure phase
		begin := time.Now()
		return func() error {
			if time.Since(begin) < 500*time.Millisecond {
				return nil
			}
			return err
		}
	}
	for _, c := range []struct {
		name    string
		fake    *fake
		mode    string
		failed  string // in the record's error
		code    string // of the warning that invalidates
		message string // a part of it
		hint    string
	}{
		{name: "deploy fails", fake: &fake{deploy: func() error { return hinted{errors.New("port taken")} }}, failed: "port taken", hint: "plug it in"},
		{name: "application answers 500 to the probes", fake: &fake{verify: func() ([]check.Check, error) {
			return []check.Check{{Name: "answer", Detail: "status 500, want 200", Hint: "see its log"}}, nil
		}}, code: "verify-failed", message: "answer: status 500, want 200", hint: "see its log"},
		{name: "verifying itself fails", fake: &fake{verify: func() ([]check.Check, error) { return nil, errors.New("admin socket is gone") }}, failed: "verify: admin socket is gone"},
		{name: "deployment without checks", fake: &fake{verify: func() ([]check.Check, error) { return nil, nil }}, code: "not-verified", message: "the deployment made no checks"},
		{name: "generator cannot do it", fake: &fake{}, mode: "unsupported", failed: "poisson arrivals: unsupported operation"},
		{name: "generator crashes", fake: &fake{}, mode: "crash", failed: "segmentation violation"},
		{name: "generator ends early", fake: &fake{}, mode: "early", failed: "ended before the measure phase did"},
		{name: "silent generator", fake: &fake{}, mode: "silent", failed: "without a report"},
		{name: "generator with invalid output", fake: &fake{}, mode: "garbage", failed: "Requests/sec: many"},
		{name: "generator does not end", fake: &fake{}, mode: "stuck", failed: "did not end in time"},
		{name: "application answers 500", fake: &fake{}, mode: "500", code: "errors", message: "status 500", hint: "logs"},
		{name: "target rate missed", fake: &fake{}, mode: "slow", code: "rate-missed", message: "50.00 %", hint: "lower the rate"},
		{name: "task died", fake: &fake{watched: soon(hinted{errors.New("echo-0/sidecar is gone: signal: killed")})}, code: "task-died", message: "signal: killed", hint: "plug it in"},
		{name: "task that cannot be read", fake: &fake{tasks: func(l []platform.Task) []platform.Task {
			return append(l, platform.Task{Task: mesh.Task{ID: "echo-0/app", Plane: metric.App}})
		}}, code: "task-missing", message: "echo-0/app: not read at the beginning"},
		{name: "unknown task", fake: &fake{tasks: func(l []platform.Task) []platform.Task {
			return append(l, platform.Task{Task: mesh.Task{ID: "unknown", Plane: metric.Unattributed}, PID: os.Getpid()})
		}}, code: "unattributed", message: "unknown", hint: "add rules for them"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg, sink := fakeConfig(t, c.fake, c.mode)
			if c.mode == "stuck" {
				cfg.Timing.Overtime = time.Second
			}
			summary := must.Get(runner.Run(context.Background(), cfg))(t)
			records := must.Get(cfg.Dir.Records())(t)
			if len(records) != 1 || summary.Recorded != 1 || summary.Failed+summary.Invalid != 1 {
				t.Fatalf("%d records, %+v", len(records), summary)
			}
			r := records[0]
			if r.Valid {
				t.Fatal("the trial counts as valid")
			}
			i := slices.IndexFunc(r.Warnings, func(w result.Warning) bool { return w.Invalidates })
			switch {
			case c.failed != "":
				must.Contain(t, r.Error, c.failed)
			case i < 0 || r.Warnings[i].Code != c.code || !strings.Contains(r.Warnings[i].Message, c.message):
				t.Errorf("warnings %+v, want %s: %s", r.Warnings, c.code, c.message)
			}
			recorded := slices.ContainsFunc(sink.list(), func(e result.Event) bool {
				return (e.Kind == result.KindInvalid || e.Kind == result.KindError) && e.Trial == r.ID && strings.Contains(e.Hint, c.hint)
			})
			if !recorded {
				t.Errorf("no event has the hint %q", c.hint)
			}
			if c.fake.deployed != c.fake.removed {
				t.Errorf("%d deployed, %d removed", c.fake.deployed, c.fake.removed)
			}
			noLoadLeft(t, c.fake)
		})
	}
}

func noLoadLeft(t *testing.T, f *fake) {
	t.Helper()
	for _, p := range f.loads {
		select {
		case <-p.Done():
		default:
			t.Errorf("load process %d is still there", p.PID)
		}
	}
}

// A failed trial does not influence the next.
func TestRunGoesOn(t *testing.T) {
	t.Parallel()
	failing := true
	f := &fake{deploy: func() error {
		if failing {
			failing = false
			return errors.New("no")
		}
		return nil
	}}
	cfg, _ := fakeRun(t, strings.Replace(fakeText, "[500]", "[500, 600]", 1), f, "")
	summary, err := runner.Run(context.Background(), cfg)
	if err != nil || summary.Failed != 1 || summary.Recorded != 2 {
		t.Fatalf("%+v, %v", summary, err)
	}
	records, err := cfg.Dir.Records()
	if err != nil {
		t.Errorf("%+v, %v", records, err)
	} else if d := difftest.Wrong(`records[0].Error == ""`, records[0].Error == "", `records[1].Error != ""`, records[1].Error != "", "records[1].Load == nil", records[1].Load == nil); d != "" {
		t.Errorf("%s: %+v, %v", d, records, err)
	}
}

// An interrupt in any phase ends the run, removes the deployment and keeps all records.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		phase    string
		recorded int
	}{{"deploy", 0}, {"verify", 0}, {"settle", 0}, {"warm-up", 0}, {"measure", 0}, {"drain", 0}, {"record", 1}} {
		t.Run(c.phase, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			text := fakeText
			if c.recorded > 0 { // a run whose last trial is recorded is done, not interrupted
				text = strings.Replace(text, "[500]", "[500, 600]", 1)
			}
			cfg, sink := fakeRun(t, text, f, "")
			ctx, cancel := context.WithCancelCause(context.Background())
			why := errors.New("interrupt signal")
			sink.on = func(e result.Event) {
				if e.Kind == result.KindPhase && e.Phase == c.phase {
					cancel(why)
				}
			}
			summary, err := runner.Run(ctx, cfg)
			interrupted, ok := errors.AsType[*runner.Interrupted](err)
			if !ok || !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
				t.Fatalf("error %v", err)
			}
			if interrupted.Recorded != c.recorded || summary.Recorded != c.recorded || !strings.Contains(interrupted.Hint(), "--resume "+cfg.Dir.Path()) {
				t.Errorf("%+v, hint %q, %+v", interrupted, interrupted.Hint(), summary)
			}
			if f.deployed != f.removed {
				t.Errorf("%d deployed, %d removed", f.deployed, f.removed)
			}
			noLoadLeft(t, f)
			records, err := cfg.Dir.Records()
			if err != nil || len(records) != c.recorded {
				t.Errorf("%d records, %v", len(records), err)
			}
			// The rest can be done.
			sink.on = nil
			if summary, err = runner.Run(context.Background(), cfg); err != nil || summary.Earlier != c.recorded || summary.Recorded != 1 {
				t.Errorf("resumed: %+v, %v", summary, err)
			}
		})
	}
}

// A removal that hangs ends at its deadline, or at the second interrupt. Both end the run.
func TestRemoveThatHangs(t *testing.T) {
	t.Parallel()
	hang := func(context.Context) error { select {} }
	t.Run("deadline", func(t *testing.T) {
		t.Parallel()
		cfg, _ := fakeConfig(t, &fake{remove: hang}, "")
		cfg.Timing.Remove = 300 * time.Millisecond
		summary, err := runner.Run(context.Background(), cfg)
		var h interface{ Hint() string }
		if err == nil || !strings.Contains(err.Error(), "it took too long") || !errors.As(err, &h) {
			t.Errorf("%v", err)
		} else if d := difftest.Wrong(`!strings.Contains(h.Hint(), "--resume")`, !strings.Contains(h.Hint(), "--resume")); d != "" {
			t.Errorf("%s: %v", d, err)
		}
		if summary.Recorded != 1 { // the measured trial is recorded
			t.Errorf("%+v", summary)
		}
	})
	t.Run("after an interrupt", func(t *testing.T) {
		t.Parallel()
		cfg, sink := fakeConfig(t, &fake{remove: func(context.Context) error { return errors.New("process 7 does not end") }}, "")
		ctx, cancel := context.WithCancel(context.Background())
		sink.on = func(e result.Event) {
			if e.Phase == "measure" {
				cancel()
			}
		}
		_, err := runner.Run(ctx, cfg)
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "process 7 does not end") {
			t.Errorf("%v", err)
		}
	})
	t.Run("second interrupt", func(t *testing.T) {
		t.Parallel()
		kill, stopNow := context.WithCancel(context.Background())
		ctx, cancel := context.WithCancel(context.Background())
		removing := make(chan struct{})
		cfg, sink := fakeConfig(t, &fake{remove: func(ctx context.Context) error { close(removing); return hang(ctx) }}, "")
		cfg.Kill = kill
		cfg.Timing.Remove = time.Hour
		sink.on = func(e result.Event) {
			if e.Phase == "measure" {
				cancel()
			}
		}
		go func() { <-removing; stopNow() }()
		if _, err := runner.Run(ctx, cfg); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "remove trial") {
			t.Errorf("%v", err) // the remains are reported
		}
	})
}

// unfit are the warnings that make r invalid. One is excluded: on a busy machine the
// generator of such a short trial may end before its last reading.
func unfit(r result.Record) (all []result.Warning) {
	for _, w := range r.Warnings {
		if w.Code == "record-contradicts" && r.Load != nil && r.Load.Slices != nil {
			continue // the fake load ignores slices
		}
		if w.Invalidates && (w.Code != "task-missing" || !strings.HasPrefix(w.Message, "load/load: not read at the end")) {
			all = append(all, w)
		}
	}
	return all
}

// The wall clock is stepped: differences are correct, and the record has a warning.
func TestClockStepped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		when  func(result.Event) bool
		valid bool
	}{
		{"while the load starts", func(e result.Event) bool { return e.Phase == "measure" }, false},
		{"while it is measured", func(e result.Event) bool { return e.Kind == result.KindSample }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg, sink := fakeConfig(t, &fake{}, "")
			var step atomic.Int64
			cfg.Wall = func() time.Time { return time.Now().Add(time.Duration(step.Load())) }
			sink.on = func(e result.Event) {
				if c.when(e) {
					step.Store(int64(-time.Hour))
				}
			}
			began := time.Now()
			must.Get(runner.Run(context.Background(), cfg))(t)
			took := time.Since(began)
			records := must.Get(cfg.Dir.Records())(t)
			r := records[0]
			i := slices.IndexFunc(r.Warnings, func(w result.Warning) bool { return w.Code == "clock-stepped" })
			if i < 0 || !strings.Contains(r.Warnings[i].Message, "-1h0m0s") || (len(unfit(r)) == 0) != c.valid {
				t.Errorf("valid %v, warnings %+v", r.Valid, r.Warnings)
			} else if d := difftest.Wrong(`r.Warnings[i].Hint == ""`, r.Warnings[i].Hint == ""); d != "" {
				t.Errorf("%s: valid %v, warnings %+v", d, r.Valid, r.Warnings)
			}
			for _, u := range r.Tasks {
				// Both edges are between the trial's begin and end. The second edge is after the measure phase.
				if d := difftest.Wrong("u.Start.At.Before(r.Started)", u.Start.At.Before(r.Started), "!u.Start.At.Before(u.End.At)", !u.Start.At.Before(u.End.At), "u.End.At.After(r.Ended)", u.End.At.After(r.Ended), "u.End.At.Before(r.Load.Start.Add(time.Duration(cfg.Experiment.Phases.Measure)))", u.End.At.Before(r.Load.Start.Add(time.Duration(cfg.Experiment.Phases.Measure)))); d != "" {
					t.Errorf("%s: task %s: from %v to %v, of a trial from %v to %v", d, u.ID, u.Start.At, u.End.At, r.Started, r.Ended)
				}
			}
			if length := r.Ended.Sub(r.Started); length > took {
				t.Errorf("a trial of %v in a run of %v", length, took)
			}
			if r.Ended.Before(r.Started) {
				t.Error("the trial ended before it began")
			}
		})
	}
}

// A record that cannot be written ends the run with the directory's error.
func TestDirectoryThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	f := &fake{}
	cfg, sink := fakeConfig(t, f, "")
	var blocked string
	sink.on = func(e result.Event) {
		if e.Phase == "record" {
			// A directory blocks the path of the record.
			blocked = cfg.Dir.TrialFile(e.Trial, result.RecordFile)
			if err := os.Mkdir(blocked, 0o700); err != nil {
				t.Error(err)
			}
		}
	}
	summary, err := runner.Run(context.Background(), cfg)
	if _, ok := errors.AsType[*result.Error](err); !ok || summary.Recorded != 0 {
		t.Errorf("%+v, %v", summary, err)
	}
	if f.deployed != 1 || f.removed != 1 {
		t.Errorf("%d deployed, %d removed", f.deployed, f.removed)
	}
	must.OK(t, os.Remove(blocked))
	if records, err := cfg.Dir.Records(); err != nil || len(records) != 0 {
		t.Errorf("%v, %v", records, err)
	}
}

type deaf struct{ events int }

func (d *deaf) Event(result.Event) error {
	d.events++
	return errors.New("terminal is gone")
}

func TestSinkThatFailsIsLeftOut(t *testing.T) {
	t.Parallel()
	cfg, sink := fakeConfig(t, &fake{}, "")
	d := &deaf{}
	cfg.Sinks = []result.Sink{d, sink}
	if summary, err := runner.Run(context.Background(), cfg); err != nil || summary.Recorded != 1 {
		t.Fatalf("%+v, %v", summary, err)
	}
	if d.events != 1 {
		t.Errorf("it got %d events", d.events)
	}
	if !slices.ContainsFunc(sink.list(), func(e result.Event) bool { return strings.Contains(e.Message, "terminal is gone") }) {
		t.Error("the other sink got no event")
	}
}

// In a closed loop there is no rate to miss.
func TestClosedLoop(t *testing.T) {
	t.Parallel()
	cfg, _ := fakeRun(t, strings.Replace(fakeText, "[500]", "[max]", 1), &fake{}, "slow")
	records := ran(t, cfg, -1, -1)
	if len(records) != 1 || records[0].Load == nil {
		t.Fatalf("%+v", records)
	}
	for _, w := range records[0].Warnings {
		if w.Code == "rate-missed" {
			t.Errorf("%+v", w)
		}
	}
}
