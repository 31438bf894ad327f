package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/generator"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// loadRun is the load of one trial: its profile, its generator and the edges that follow from its start.
type loadRun struct {
	setup      *setup
	journal    *journal
	deployment *platform.Deployment
	sampler    *sampler // its refresh interval sets the warm-up

	generator generator.Generator
	profile   load.Profile
	loading   *loading // nil before it is started
	edges     edges

	mu       sync.Mutex // of progress, which the generator's output reaches
	progress []load.Progress
}

// edges are the two moments at which counters are read.
type edges struct {
	begin, end time.Time // with their monotonic readings
	// drift of the wall clock when the generator was told its schedule, and at the begin.
	told, began time.Duration
}

// begin starts the generator. The edges follow from the start of its schedule, on the monotonic clock.
func (lr *loadRun) begin(ctx context.Context) error {
	if err := lr.schedule(); err != nil {
		return err
	}
	lr.longer()
	lr.edges.told = lr.setup.clock.drift()
	var err error
	if lr.loading, err = startLoad(ctx, lr.deployment, lr.generator, lr.profile, lr.heard); err != nil {
		return err
	}
	lr.profile.Start = lr.loading.start
	lr.edges.begin = lr.profile.Start.Add(lr.profile.Warmup)
	lr.edges.end = lr.edges.begin.Add(lr.profile.Measure)
	return lr.keepProfile()
}

// result waits for the generator to end and returns its results.
func (lr *loadRun) result(ctx context.Context) (result.Load, error) {
	deadline := lr.edges.end.Add(lr.profile.Tail + lr.profile.Drain + lr.profile.Timeout + lr.setup.Timing.Overtime)
	l, err := lr.loading.wait(ctx, deadline)
	if err != nil {
		return l, err
	}
	if err := lr.loading.early(lr.edges.end); err != nil { // nothing checks it in the last moments of the measure phase
		return l, err
	}
	lr.foreign(&l)
	return l, nil
}

// schedule makes the load profile. The generator gets a time of the wall clock
// to start at, or, where it begins when its process does, none.
func (lr *loadRun) schedule() error {
	hdr, err := filepath.Abs(lr.setup.dir.Path(result.LatencyFile))
	if err != nil {
		return fmt.Errorf("find latency file: %w", err)
	}
	levels := lr.setup.treatment.Levels
	lr.profile = profileOf(lr.setup.Experiment, levels, lr.generator, lr.setup.Timing.Tail)
	lr.profile.Protocol = lr.setup.entryProtocol()
	if loadWorkers(lr.deployment) > 0 {
		lr.profile.Workers = 1 // each has one thread
	}
	lr.fitToRefresh()
	lr.profile.Targets, lr.profile.ExpectSize, lr.profile.Seed, lr.profile.HDRPath = lr.deployment.Entry(), lr.answerSize(), lr.setup.of.Seed, hdr
	if !needs(lr.generator).AtOnce {
		lr.profile.Start = time.Now().Add(lr.setup.Timing.Lead + time.Duration(levels.Connections)*time.Millisecond)
	}
	return nil
}

// keepProfile keeps the load as it was, among the trial's provenance.
func (lr *loadRun) keepProfile() error {
	b, err := json.MarshalIndent(lr.profile, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(lr.setup.dir.Provenance(), "load-profile.json"), append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write load profile: %w", err)
	}
	return nil
}

// answerSize is the size every answer must have, bytes; negative: any, as where
// statuses are expected that may come without the service's answer.
func (lr *loadRun) answerSize() int64 {
	entry, ok := lr.setup.topology.Service(lr.setup.topology.Entry)
	other := slices.ContainsFunc(lr.profile.ExpectStatus, func(s string) bool { return s[0] != '2' && s != "grpc-0" })
	if !ok || other || lr.setup.entryProtocol() == app.TCP {
		return -1 // an echo is as long as what was sent
	}
	return lr.setup.topology.AnswerSize(entry, int64(lr.setup.treatment.Levels.ResponseSize))
}

// entryProtocol is what the entry speaks, the treatment's where it does not say.
func (su *setup) entryProtocol() string {
	entry, _ := su.topology.Service(su.topology.Entry)
	return cmp.Or(entry.Protocol, su.treatment.Levels.Protocol)
}

// healthy ends with an error as soon as a task has died or the generator has ended before the edge.
func (lr *loadRun) healthy(ctx context.Context, edge time.Time) error {
	for time.Until(edge) > watchPeriod {
		if err := await(ctx, time.Now().Add(watchPeriod)); err != nil {
			return err
		}
		if err := broken(lr.deployment); err != nil {
			return err
		}
		if err := lr.loading.early(lr.edges.end); err != nil {
			return err
		}
	}
	return nil
}

// heard passes on what the generator says of one second.
func (lr *loadRun) heard(p load.Progress) {
	lr.mu.Lock()
	lr.progress = append(lr.progress, p)
	lr.mu.Unlock()
	lr.journal.emit(result.Event{Kind: result.KindProgress, Progress: &result.Progress{
		Second: p.Second, AskedRate: lr.profile.Rate, Rate: float64(p.Completed), Errors: p.Errors, P50MS: p.P50MS, P99MS: p.P99MS,
	}})
}

// foreign says of a generator that is not tare's own what a reader of its figures must know.
func (lr *loadRun) foreign(l *result.Load) {
	if _, ok := lr.generator.(generator.Foreign); !ok {
		return
	}
	if l.Version == "" {
		l.Version = lr.setup.versions[lr.generator.Name()]
	}
	if len(l.Warnings) > 0 {
		lr.journal.warn(result.Warning{Code: "generator-" + l.Generator, Message: strings.Join(l.Warnings, "; "),
			Hint: "docs/reference/generators.md says what each generator's figures are", Metrics: latencies})
	}
}

// longer says that the warm-up is longer than asked for, for the generator's sake.
func (lr *loadRun) longer() {
	g := lr.generator
	asked := time.Duration(lr.setup.Experiment.Phases.Warmup)
	if need := needs(g).Warmup; need <= asked || need < lr.profile.Warmup {
		return
	}
	lr.journal.warn(result.Warning{Code: "warm-up-raised-" + g.Name(),
		Message: fmt.Sprintf("%s needs a warm-up of %v: it had that in place of the %v asked for", g.Name(), lr.profile.Warmup, asked),
		Hint:    fmt.Sprintf("set phases.warmup to %v, so that every generator has the same", lr.profile.Warmup)})
}

// fitToRefresh fits the schedule of the load to the counters.
func (lr *loadRun) fitToRefresh() {
	if !lr.sampler.refreshed() {
		return
	}
	refresh := lr.sampler.refresh()
	warmup, tail := PacedPhases(lr.setup.Experiment.Phases, refresh)
	lr.profile.Tail = max(lr.profile.Tail, tail)
	if short := ShortMeasure(lr.setup.Experiment.Phases, refresh); short != "" {
		lr.journal.warn(result.Warning{Code: "measure-short", Message: short, Metrics: cpus,
			Hint: fmt.Sprintf("set phases.measure to %v or more", LeastMeasure(refresh))})
	}
	if warmup <= lr.profile.Warmup {
		return
	}
	lr.profile.Warmup = warmup
	lr.journal.warn(result.Warning{Code: "warm-up-raised",
		Message: fmt.Sprintf("the counters are refreshed every %v at least: the warm-up was %v in place of the %v asked for, so that each was refreshed under load before the measure phase",
			refresh, warmup, time.Duration(lr.setup.Experiment.Phases.Warmup)),
		Hint: fmt.Sprintf("set phases.warmup to %v or more", warmup)})
}

// mergeMeasured writes the measure window of the latency log as one histogram a
// tag, beside it. It saves whoever reads the results work and is no part of the
// record: where it cannot be written, the log says the same.
func (lr *loadRun) mergeMeasured() {
	if err := mergeWindow(lr.setup.dir, lr.journal.record.Load); err != nil && !errors.Is(err, fs.ErrNotExist) {
		lr.journal.emit(result.Event{Kind: result.KindLog, Message: err.Error()})
	}
}

func mergeWindow(dir *result.TrialDir, l *result.Load) (err error) {
	log, err := os.Open(dir.Path(result.LatencyFile))
	if err != nil {
		return err
	}
	defer log.Close()
	path := dir.Path(result.MeasuredFile)
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := out.Close(); err == nil {
			err = closed
		}
		if err != nil {
			_ = os.Remove(path) // half of it would be worse than none
		}
	}()
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	from := seconds(l.WarmupSeconds)
	return record.MergeWindow(log, out, l.Start.Add(-from), from, from+seconds(l.MeasureSeconds))
}
