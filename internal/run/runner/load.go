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

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// loadRun is the load of one trial: its profile, its generator, and the edges that follow from its
// start.
type loadRun struct {
	setup      *setup
	journal    *journal
	deployment *platform.Deployment
	sampler    *sampler // its refresh interval sets the warm-up

	inRound *roundSchedule // nil if the load has a schedule of its own
	rate    float64        // chosen by a search, 0 for the rate of the treatment
	probes  uint64         // of that search
	warming warming        // of the loads before the warm-up
	warmup  time.Duration  // 0: of the experiment
	profile load.Profile
	answers string   // path of the file of answers, of load or probe, empty without changes
	loading *loading // nil before it is started
	beside  *changeProbe
	edges   edges

	mu       sync.Mutex // of progress, which the generator's output reaches
	progress []load.Progress
}

// edges are the two moments at which counters are read.
type edges struct {
	begin, end time.Time // with their monotonic readings
	// drift of the wall clock when the generator got its schedule, and at begin.
	scheduled, began time.Duration
}

func (lr *loadRun) begin(ctx context.Context) error {
	if err := lr.launch(ctx); err != nil {
		return err
	}
	return lr.release(startAfter(time.Now(), lr.profile.Warmup, 1))
}

// launch starts the generator. It returns when a load that is held is ready.
func (lr *loadRun) launch(ctx context.Context) error {
	if err := lr.schedule(); err != nil {
		return err
	}
	lr.warnRaisedWarmup()
	lr.edges.scheduled = lr.setup.clock.drift()
	profile, err := withSecrets(lr.profile)
	if err != nil {
		return err
	}
	planned := lr.profile // release changes the other: the generator's figures may come before it is done
	onProgress := func(p load.Progress) { lr.onProgress(&planned, p) }
	if lr.loading, err = startLoad(ctx, lr.deployment, lr.setup.generator, profile, onProgress); err != nil {
		return err
	}
	if err := lr.loading.awaitReady(ctx, lr.setup.Timing.Deploy); err != nil {
		return err
	}
	return lr.beside.launch(ctx)
}

// release lets a load that is held begin at an instant. The edges follow from the start of the schedule, on the
// monotonic clock.
func (lr *loadRun) release(start time.Time) error {
	if lr.profile.Hold {
		lr.edges.scheduled = lr.setup.clock.drift()
		if err := lr.loading.release(start); err != nil {
			return err
		}
		lr.profile.Hold = false // in the provenance: it can be repeated
	}
	lr.profile.Start = lr.loading.start
	if err := lr.beside.release(lr.profile.Start); err != nil {
		return err
	}
	lr.edges.begin = lr.profile.Start.Add(lr.profile.Warmup)
	lr.edges.end = lr.edges.begin.Add(lr.profile.Measure)
	return lr.keepProfile()
}

// endTail ends the tail of a load with slices that was held. Nothing is sent in it, and all readings are made.
// Requests in flight are waited for.
func (lr *loadRun) endTail(ctx context.Context) {
	if lr.loading.gate != nil {
		lr.loading.stop(ctx, lr.profile.Drain+lr.profile.Timeout+lr.setup.Timing.Overtime)
	}
}

// result waits for the generator to end and returns its results.
func (lr *loadRun) result(ctx context.Context) (result.Load, error) {
	deadline := lr.edges.end.Add(lr.profile.Tail + lr.profile.Drain + lr.profile.Timeout + lr.setup.Timing.Overtime)
	l, err := lr.loading.wait(ctx, deadline)
	if err != nil {
		return l, err
	}
	if err := lr.early(); err != nil { // nothing checks it in the last moments of the measure phase
		return l, err
	}
	if lr.journal.record.ChangeProbe, err = lr.beside.result(ctx, deadline); err != nil {
		return l, err
	}
	lr.foreign(&l)
	return l, nil
}

// schedule makes the load profile. Its start is a wall-clock time, or zero for a generator that
// begins with its process.
func (lr *loadRun) schedule() error {
	hdr, err := filepath.Abs(lr.setup.dir.Path(result.LatencyFile))
	if err != nil {
		return fmt.Errorf("find latency file: %w", err)
	}
	lr.profile = lr.base()
	lr.profile.HDRPath = hdr
	if lr.setup.Experiment.Changing() {
		lr.answers = filepath.Join(filepath.Dir(hdr), answersFile)
	}
	if !lr.beside.asked() {
		lr.profile.AnswersPath = lr.answers
	}
	lr.profile.Warmup = cmp.Or(lr.warmup, lr.profile.Warmup)
	lr.fitToRefresh()
	vary(&lr.profile, lr.setup.Experiment.Load.Profile)
	lr.profile.Hold = lr.holds()
	switch {
	case lr.inRound != nil:
		lr.inRound.apply(&lr.profile)
	case !lr.profile.Hold && !lr.setup.generator.Abilities().Needs.AtOnce:
		lr.profile.Start = lr.soon()
	}
	return nil
}

// holds reports whether the load begins when its generator is ready. Generators on load workers, and generators of other
// makers, get their start before.
func (lr *loadRun) holds() bool {
	return lr.setup.generator.Abilities().Holds && loadWorkers(lr.deployment) == 0
}

// verification returns the probes of the verification: the requests of the load. Its start comes later.
func (lr *loadRun) verification() (probe platform.Probe, err error) {
	probe.ErrorRatio = lr.setup.Experiment.Validity.ErrorRatio
	probe.Load, err = withSecrets(lr.base())
	return probe, err
}

// base is the profile of the treatment on the deployment, without start and interval log.
func (lr *loadRun) base() load.Profile {
	p := profileOf(lr.setup.Experiment, lr.setup.treatment.Levels, lr.setup.generator, lr.setup.Timing.Tail)
	p.Protocol = lr.setup.entryProtocol()
	if loadWorkers(lr.deployment) > 0 {
		p.Workers = 1 // each has one thread
	}
	if lr.rate > 0 {
		p.Rate = lr.rate
	}
	p.ExpectSize, p.Seed = lr.answerSize(p.ExpectStatus), lr.setup.of.Seed
	addRequests(&p, &lr.setup.Experiment.Load, lr.deployment.Entry())
	if host := lr.deployment.Host; host != "" && p.Protocol != app.TCP {
		p.Headers = append([]string{"Host: " + host}, p.Headers...) // a Host of the file replaces it
	}
	entry, _ := lr.setup.topology.Service(lr.setup.topology.Entry)
	if entry.Secure() {
		p.TLS = &load.TLS{Insecure: true}
	}
	addExchange(&p, entry)
	if p.Protocol == app.WebSocket {
		addWebSocket(&p, lr.setup.Experiment.Load.WebSocket, entry)
	}
	return p
}

// soon is a start that leaves the generator time for its connections.
func (lr *loadRun) soon() time.Time {
	return time.Now().Add(lr.setup.Timing.Lead + time.Duration(lr.setup.treatment.Levels.Connections)*time.Millisecond)
}

// keepProfile writes the load profile into the trial's provenance, with the placeholders of
// secrets.
func (lr *loadRun) keepProfile() error {
	b, err := json.MarshalIndent(lr.profile, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(lr.setup.dir.Provenance(), "load-profile.json"), append(b, '\n'), 0o600)
	}
	return hint.Prefix(err, "write load profile")
}

// answerSize is the required size of every answer, bytes. -1: any size, for example if the
// experiment expects error statuses, which a proxy may answer.
func (lr *loadRun) answerSize(statuses []string) int64 {
	entry, ok := lr.setup.topology.Service(lr.setup.topology.Entry)
	other := slices.ContainsFunc(statuses, func(s string) bool { return s[0] != '2' && s != "grpc-0" })
	if !ok || other || lr.setup.entryProtocol() == app.TCP || lr.setup.entryProtocol() == app.WebSocket && lr.setup.Experiment.Load.WebSocket.Answer != load.AnswerMessage {
		return -1 // an echo has the length of the request
	}
	return lr.setup.topology.AnswerSize(entry, int64(lr.setup.treatment.Levels.ResponseSize))
}

// entryProtocol is the protocol of the entry service, by default the protocol of the treatment.
func (su *setup) entryProtocol() string {
	entry, _ := su.topology.Service(su.topology.Entry)
	return cmp.Or(entry.Protocol, su.treatment.Levels.Protocol)
}

// healthy returns an error as soon as a task has died, or the generator has ended before the edge.
func (lr *loadRun) healthy(ctx context.Context, edge time.Time) error {
	for time.Until(edge) > watchPeriod {
		if err := await(ctx, time.Now().Add(watchPeriod)); err != nil {
			return err
		}
		if err := broken(lr.deployment); err != nil {
			return err
		}
		if err := lr.early(); err != nil {
			return err
		}
	}
	return nil
}

// early returns an error if load or probe ended before the end of the measure phase.
func (lr *loadRun) early() error {
	return cmp.Or(lr.loading.early(lr.edges.end), lr.beside.early(lr.edges.end))
}

func (lr *loadRun) stop(ctx context.Context) {
	if lr.loading != nil {
		lr.loading.stop(ctx, lr.setup.Timing.LoadGrace)
	}
	lr.beside.stop(ctx, lr.setup.Timing.LoadGrace)
}

// onProgress passes on the generator's figures of one second. Another goroutine calls it.
func (lr *loadRun) onProgress(planned *load.Profile, p load.Progress) {
	lr.mu.Lock()
	lr.progress = append(lr.progress, p)
	lr.mu.Unlock()
	if p.Completed == 0 && p.Errors == 0 && planned.Measure > 0 &&
		time.Duration(p.Second)*time.Second >= planned.Warmup+planned.Measure+planned.Tail {
		return // nothing was due any more, and nothing ended
	}
	var loaded *float64
	if s := planned.Slices; s != nil {
		from := time.Duration(p.Second) * time.Second
		loaded = new(s.Loaded(from, from+time.Second).Seconds())
	}
	lr.journal.emit(result.Event{Kind: result.KindProgress, Progress: &result.Progress{
		Second: p.Second, AskedRate: planned.Rate, Rate: float64(p.Completed), Loaded: loaded, Errors: p.Errors, P50MS: p.P50MS, P99MS: p.P99MS,
	}})
}

// foreign adds the version and the warnings of a generator other than tare's own.
func (lr *loadRun) foreign(l *result.Load) {
	if !lr.setup.generator.Abilities().Foreign() {
		return
	}
	if l.Version == "" {
		l.Version = lr.setup.versions[lr.setup.generator.Name()]
	}
	if len(l.Warnings) > 0 {
		lr.journal.warn(result.Warning{Code: "generator-" + l.Generator, Message: strings.Join(l.Warnings, "; "),
			Hint: "docs/reference/generators.md explains the figures of each generator", Metrics: latencies})
	}
}

// warnRaisedWarmup warns that the generator needs a longer warm-up than the file has.
func (lr *loadRun) warnRaisedWarmup() {
	g := lr.setup.generator
	asked := time.Duration(lr.setup.Experiment.Phases.Warmup)
	if need := g.Abilities().Needs.Warmup; need <= asked || need < lr.profile.Warmup {
		return
	}
	lr.journal.warn(result.Warning{Code: "warm-up-raised-" + g.Name(),
		Message: fmt.Sprintf("%s needs a warm-up of %v, which replaced the %v of the file", g.Name(), lr.profile.Warmup, asked),
		Hint:    fmt.Sprintf("set phases.warmup to %v, so that all generators have the same", lr.profile.Warmup)})
}

// fitToRefresh fits warm-up and tail to the refresh interval of the counters.
func (lr *loadRun) fitToRefresh() {
	if !lr.sampler.refreshed() || lr.inRound != nil { // the slices of a round are long enough
		return
	}
	refresh := lr.sampler.refresh()
	warmup, tail := PhasesForRefresh(lr.setup.Experiment.Phases, refresh)
	lr.profile.Tail = max(lr.profile.Tail, tail, NodeTail(lr.setup.Experiment.Phases, max(warmup, lr.profile.Warmup), lr.sampler.nodeRefresh()))
	if short := ShortMeasure(lr.setup.Experiment.Phases, refresh); short != "" {
		lr.journal.warn(result.Warning{Code: "measure-short", Message: short, Metrics: cpus,
			Hint: fmt.Sprintf("set phases.measure to %v or more", MinMeasure(refresh))})
	}
	if warmup <= lr.profile.Warmup {
		return
	}
	lr.profile.Warmup = warmup
	lr.journal.warn(result.Warning{Code: "warm-up-raised",
		Message: fmt.Sprintf("the counter refresh interval is up to %v: the warm-up was %v, not the %v of the file, so that each counter was refreshed under load before the measure phase",
			refresh, warmup, time.Duration(lr.setup.Experiment.Phases.Warmup)),
		Hint: fmt.Sprintf("set phases.warmup to %v or more", warmup)})
}

// mergeMeasured writes one histogram per tag, of the measure phase, beside the latency log.
// Readers of the results need not merge it themselves. If it cannot be written, the log has the
// same data.
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
	out, err := dir.Create(result.MeasuredFile)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			_ = dir.Remove(result.MeasuredFile) // a partial file would mislead
		}
	}()
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	from := seconds(l.WarmupSeconds)
	return record.MergeWindow(log, out, l.Start.Add(-from), from, from+seconds(l.MeasureSeconds))
}

// searches reports whether the trial finds its rate by a search.
func (t *trial) searches() bool { return t.setup.treatment.Levels.Capacity.Objective != "" }

// search finds the highest rate with the objective. Its probes precede every reading of counters, so
// that they are in no figure of the measure phase. They run as the load does: the same generator, at
// the same place.
func (t *trial) search(ctx context.Context) error {
	c := t.setup.treatment.Levels.Capacity
	found, err := capacity.Find(ctx, capacity.Options{Objective: c.Objective, Probes: c.Probes, Length: time.Duration(c.Length), Seed: t.setup.of.Seed}, t.load.probe)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("search for the highest rate that meets %s: %w", c.Objective, err)
	}
	if err := t.judgeSearch(found); err != nil {
		return err
	}
	t.found, t.load.rate = &found, float64(c.Share)*found.Rate
	rate, low, high := found.Rounded()
	t.journal.emit(result.Event{Kind: result.KindLog, Message: fmt.Sprintf("%s: the highest rate that meets %s is %.0f requests/s (%.0f to %.0f); measuring at %v of it, %.0f",
		t.setup.of.Treatment, c.Objective, rate, low, high, c.Share, t.load.rate)})
	return t.idle.settle(ctx)
}

// judgeSearch returns an error if the search found no rate.
func (t *trial) judgeSearch(found capacity.Found) error {
	const hint = "`tare load --find-max` shows the probes of one search; reserve a CPU for the generator (" + reserve + "), or use fewer connections"
	switch {
	case found.Rate == 0:
		return unusable("capacity-unknown", fmt.Sprintf("no probe shows whether %s holds: %s", found.Objective, found.Note), hint)
	case found.Open == capacity.OpenBelow:
		return unusable("capacity-unknown", fmt.Sprintf("no rate meets %s: even %.0f requests/s misses it", found.Objective, found.Rate), "loosen the objective")
	case found.Open == capacity.OpenAbove:
		t.journal.warn(result.Warning{Code: "capacity-open", Message: fmt.Sprintf("no probe missed %s: the highest rate is %.0f requests/s or more", found.Objective, found.Low),
			Hint: "tighten the objective, or raise load.connections", Withholds: true, Metrics: []string{metric.Capacity}})
	}
	return nil
}

// probe runs one load of a search. Its last answers arrive before it returns, so that none is counted
// by the counters of the trial.
func (lr *loadRun) probe(ctx context.Context, rate float64, length time.Duration) (capacity.Figures, error) {
	if err := broken(lr.deployment); err != nil {
		return capacity.Figures{}, err
	}
	lr.journal.emit(result.Event{Kind: result.KindSearch, Search: &result.Search{Probe: int(lr.probes), Probes: lr.setup.treatment.Levels.Capacity.Probes, Rate: rate}})
	lr.probes++
	p := lr.base()
	p.Rate, p.Warmup, p.Measure, p.Tail, p.Drain = rate, length/4, length, 0, p.Timeout
	p.Seed, p.Start = p.Seed+lr.probes, lr.soon()
	p, err := withSecrets(p)
	if err != nil {
		return capacity.Figures{}, err
	}
	if lr.loading, err = startLoad(ctx, lr.deployment, lr.setup.generator, p, func(load.Progress) {}); err != nil {
		return capacity.Figures{}, err
	}
	l, err := lr.loading.wait(ctx, p.Start.Add(p.Warmup+p.Measure+p.Drain+p.Timeout+lr.setup.Timing.Overtime))
	if gone := broken(lr.deployment); gone != nil { // a proxy answers for a program that has ended
		return capacity.Figures{}, gone
	}
	if err != nil {
		return capacity.Figures{}, err
	}
	if rate == 0 && l.Classes[string(load.OK)] == 0 {
		return capacity.Figures{}, fmt.Errorf("no request succeeded in a closed loop: %s", l.FailureText())
	}
	return l.Figures, nil
}

// changeProbe are requests beside the load, at a rate of their own, whose answers show the effect of changes. They begin and end
// with the load, and are in none of its figures. Its methods do nothing without a probe.
type changeProbe struct {
	load    *loadRun
	loading *loading // nil before it is started
}

func (p *changeProbe) asked() bool { return p.load.setup.Experiment.Changes.Probe.Rate > 0 }

// launch starts the probe, and returns when it is ready.
func (p *changeProbe) launch(ctx context.Context) error {
	if !p.asked() {
		return nil
	}
	profile, err := withSecrets(p.profile())
	if err != nil {
		return err
	}
	if p.loading, err = startLoad(ctx, p.load.deployment, generator.Tare{Agent: generator.AgentPath()}, profile, func(load.Progress) {}); err != nil {
		return fmt.Errorf("changes.probe: %w", err)
	}
	return p.loading.awaitReady(ctx, p.load.setup.Timing.Deploy)
}

// profile is the load's, with the rate and the connections of the probe.
func (p *changeProbe) profile() load.Profile {
	of, probe := p.load.setup.Experiment.Changes.Probe, p.load.base()
	probe.Rate, probe.Connections, probe.ConnectionRate, probe.Workers = of.Rate, of.Connections, 0, 1
	probe.Arrivals = load.Constant
	probe.Warmup, probe.Tail = p.load.profile.Warmup, p.load.profile.Tail
	probe.AnswersPath, probe.Hold = p.load.answers, true
	return probe
}

// release lets the probe begin with the load.
func (p *changeProbe) release(start time.Time) error {
	if p.loading == nil {
		return nil
	}
	return p.loading.release(start)
}

// early returns an error if the probe ended before the end of the measure phase.
func (p *changeProbe) early(end time.Time) error {
	if p.loading == nil {
		return nil
	}
	return hint.Prefix(p.loading.early(end), "changes.probe")
}

// result waits for the end of the probe. It is nil without one.
func (p *changeProbe) result(ctx context.Context, deadline time.Time) (*result.ChangeProbe, error) {
	if p.loading == nil {
		return nil, nil
	}
	l, err := p.loading.wait(ctx, deadline)
	if err != nil {
		return nil, fmt.Errorf("changes.probe: %w", err)
	}
	of := p.load.setup.Experiment.Changes.Probe
	return &result.ChangeProbe{Rate: of.Rate, Connections: of.Connections, Completed: l.Completed, Whole: l.Whole}, nil
}

func (p *changeProbe) stop(ctx context.Context, grace time.Duration) {
	if p.loading != nil {
		p.loading.stop(ctx, grace)
	}
}
