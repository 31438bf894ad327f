package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/engine"
	"github.com/tare-mesh/tare/internal/load/host"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/platform/local"
	"github.com/tare-mesh/tare/internal/run/runner"
)

const (
	// searchTime is the duration of each load of the search.
	searchTime = 1500 * time.Millisecond
	// searchShare is the share of the slowest treatment's capacity that is tried first. The
	// machine also runs the load, and the next deployment of a block.
	searchShare = 0.25
	// waitingShare is tried if programs that use less than waitingCores at full load wait rather than work.
	waitingShare, waitingCores = 0.6, 0.3
	// searchTries bounds the halvings of the rate.
	searchTries = 3
	// clearlyLess is the missing share of the answers that halves the rate at once.
	clearlyLess = 0.1
	// slowCapacity is the capacity below which a second load decides, requests per second.
	slowCapacity = 200
	// maxWeighRate is enough for narrow intervals, requests per second.
	maxWeighRate = 1000
	// promptRatio is the share of a slice in which 95 % of the answers must arrive. The others may be
	// late: in a load as short as the search's, one stall of the machine delays them.
	promptRatio = 0.25
	// startAlone is about the time to deploy and remove a treatment, without the start of the program.
	startAlone = 500 * time.Millisecond
	// Bounds of the number of blocks. Three are the least for an interval.
	minWeighBlocks = 3
	maxWeighBlocks = 30
)

// sliceLengths are tried in order. Slower answers have whole trials in random order.
var sliceLengths = []time.Duration{100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond}

// search finds a rate that every treatment serves.
type search struct {
	study      *Study
	on         platform.Platform
	files      string
	deployment *platform.Deployment // of the current treatment
	start      time.Duration        // the longest start of a treatment
	capacity   float64              // of the slowest treatment, requests per second, 0 if unknown
	meter      meter.Meter
	cores      float64 // most that a treatment used at full load
}

// fit chooses rate, slices and blocks by deploying each treatment once. It returns the longest start of a treatment.
func fit(ctx context.Context, w *WeighStudy) (start time.Duration, err error) {
	if w.file.Batch != nil {
		return 0, w.fitEnding(ctx)
	}
	found, err := searchRate(ctx, w.Study, w.Out, w.o.Rate)
	if err != nil {
		return 0, startHint(err, w.file)
	}
	w.file.Factors.Rate[0] = found.rate
	w.file.slice(found.slowest)
	w.file.Blocks = repeated(blocksWithin(w.o.Time, len(w.Study.Plan.Treatments), found.start))
	return found.start, nil
}

type foundRate struct {
	rate    float64       // requests per second
	slowest float64       // p95 of the slowest treatment, ms
	start   time.Duration // the longest of a treatment
}

// searchRate finds a rate that every treatment serves, unless one is given, and the times of the answers. The logs of a failed
// search stay beside the results directory out.
func searchRate(ctx context.Context, study *Study, out string, rate float64) (found foundRate, err error) {
	if err := generator.CheckAgent(ctx, study.Program.Version); err != nil {
		return found, err
	}
	opened, err := study.Program.openLocal(ctx, Opening{Experiment: study.Experiment, Note: study.Program.Note})
	if err != nil {
		return found, err
	}
	s := &search{study: study, on: opened.Platform, meter: opened.Meter}
	if err = os.MkdirAll(filepath.Dir(out), 0o750); err == nil {
		s.files, err = os.MkdirTemp(filepath.Dir(out), filepath.Base(out)+"-search-")
	}
	if err != nil {
		return found, fmt.Errorf("search for a rate: %w", err)
	}
	defer func() {
		s.leave(err != nil && ctx.Err() == nil && !errors.Is(err, local.ErrHTTP2) && !errors.Is(err, local.ErrTLS))
	}()
	var meshes []mesh.Definition
	var treatments []plan.Treatment
	for _, t := range study.Plan.Treatments {
		if !t.Control {
			treatments, meshes = append(treatments, t), append(meshes, study.Meshes[t.Levels.Mesh])
		}
	}
	if _, err := s.on.Prepare(ctx, meshes); err != nil {
		return found, err
	}
	host.TuneProcess(1)
	for _, t := range treatments {
		p95, err := s.treatment(ctx, t, rate)
		if err != nil {
			return found, err
		}
		found.slowest = max(found.slowest, p95)
	}
	if found.rate = rate; rate == 0 {
		found.rate = s.rate()
		s.notef("load: %s requests/s, below %.0f %% of the lowest max, since this machine runs the load too; --rate sets another", tidy(found.rate), 100*s.share())
	}
	found.start = s.start
	return found, nil
}

// leave removes the logs of the search. Those of a failed one stay, and their place is printed.
func (s *search) leave(failed bool) {
	if failed && s.hasLogs() {
		s.notef("logs of the failed search: %s", s.files)
		return
	}
	_ = os.RemoveAll(s.files)
}

// hasLogs reports whether any treatment of the search has left a file.
func (s *search) hasLogs() bool {
	treatments, _ := os.ReadDir(s.files)
	return slices.ContainsFunc(treatments, func(t os.DirEntry) bool {
		logs, _ := os.ReadDir(filepath.Join(s.files, t.Name()))
		return len(logs) > 0
	})
}

// treatment deploys a treatment, checks its answers, measures its capacity, and lowers the rate until it serves it. It returns the p95
// of the answers, ms.
func (s *search) treatment(ctx context.Context, treatment plan.Treatment, rate float64) (p95 float64, err error) {
	topology, err := s.study.Experiment.TopologyOf(treatment.Levels)
	if err != nil {
		return 0, err
	}
	name := cmp.Or(treatment.Levels.Application, "mesh "+treatment.Levels.Mesh)
	dir := filepath.Join(s.files, treatment.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, fmt.Errorf("search for a rate: %w", err)
	}
	s.notef("starting the program: %s", name)
	began := time.Now()
	host, err := experiment.WithSecrets(s.study.Experiment.Load.Host())
	if err != nil {
		return 0, err
	}
	d, err := s.on.Deploy(ctx, platform.Spec{LoadHost: host, Trial: plan.Trial{ID: treatment.ID}, Treatment: treatment, Topology: topology,
		Mesh: s.study.Meshes[treatment.Levels.Mesh], Provenance: dir})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Remove(ctx)) }()
	s.deployment = d
	s.start = max(s.start, time.Since(began))
	p := load.Profile{Targets: d.Entry(), Protocol: treatment.Levels.Protocol, Connections: treatment.Levels.Connections,
		Warmup: searchTime / 5, Measure: searchTime, Drain: time.Second, Timeout: 10 * time.Second, Workers: 1, Rate: rate, ExpectSize: -1}
	entry, _ := topology.Service(topology.EntryName())
	if entry.Secure() {
		p.TLS = &load.TLS{Insecure: true}
	}
	if p, err = runner.WithRequests(p, &s.study.Experiment.Load, entry, d.Entry()); err != nil {
		return 0, err
	}
	if d.Host != "" && p.Protocol != app.TCP {
		p.Headers = append([]string{"Host: " + d.Host}, p.Headers...) // a Host of the file replaces it
	}
	verified, err := d.Verify(ctx, platform.Probe{Load: p, ErrorRatio: s.study.Experiment.Validity.ErrorRatio})
	if err != nil {
		return 0, err
	}
	for _, c := range verified.Checks {
		if !c.OK {
			return 0, hint.New(searchHint(c.Hint, dir), "%s: %s: %s", name, c.Name, c.Detail)
		}
	}
	if rate == 0 {
		most, err := s.most(ctx, p)
		if err != nil {
			return 0, err
		}
		s.notef("%s: max %s requests/s on %d connections", name, tidy(most), p.Connections)
		if s.capacity == 0 || most < s.capacity {
			s.capacity = most
		}
	}
	var failed error
	for try := range searchTries {
		if rate == 0 {
			p.Rate = s.rate()
		}
		r, err := s.send(ctx, p)
		if err != nil {
			return 0, err
		}
		p95 = r.ResponseMS.P95
		failed = failures(r)
		lacks, p50 := float64(r.Intended-r.Completed), time.Duration(r.ResponseMS.P50*float64(time.Millisecond))
		if rate != 0 || failed == nil && lacks <= runner.MayLack(r.Intended, p.Rate, p50, s.study.Experiment.Validity) {
			break
		}
		if failed != nil || try > 0 || lacks > clearlyLess*float64(r.Intended) { // otherwise a stall of the machine may be the cause
			s.capacity /= 2
		}
	}
	return p95, failed
}

func (s *search) notef(format string, args ...any) {
	s.study.Program.Note(fmt.Sprintf(format, args...))
}

// searchHint is the hint of a check in terms of the flags of weigh, and of the directory of the logs.
func searchHint(text, logs string) string {
	text = strings.NewReplacer("factors.route or load.requests has the path, load.headers the Host, and load.checks the status of its answers", "--path is a path, and -H 'Host: NAME' a Host, that it answers with status 2xx", "exchange has the request and its whole answer", "--data is the request and --expect-body its whole answer", "the trial's provenance directory", logs).Replace(text)
	return HintInFlags(text)
}

// most is the rate of answers at full load, requests per second. A low one is measured again: a stall of
// the machine has the same effect as a slow program.
func (s *search) most(ctx context.Context, p load.Profile) (float64, error) {
	r, cores, err := s.full(ctx, p)
	if err != nil {
		return 0, err
	}
	most := succeeded(r)
	if most == 0 {
		return 0, failures(r)
	}
	if most < slowCapacity {
		again, warmer, err := s.full(ctx, p)
		if err != nil && (s.ended() != nil || ctx.Err() != nil) {
			return 0, err
		}
		if most = max(most, succeeded(again)); err == nil { // the first had answers
			cores = min(cores, warmer)
		}
	}
	s.cores = max(s.cores, cores)
	return most, nil
}

// full runs one load of the search. cores are the processors that the treatment used.
func (s *search) full(ctx context.Context, p load.Profile) (r load.Report, cores float64, err error) {
	used, began := s.used(ctx), time.Now()
	r, err = s.send(ctx, p)
	return r, (s.used(ctx) - used).Seconds() / time.Since(began).Seconds(), err
}

// used is the CPU time of all tasks of the treatment, 0 if it is not known.
func (s *search) used(ctx context.Context) (sum time.Duration) {
	if s.deployment == nil || s.meter == nil {
		return 0
	}
	tasks, err := s.deployment.Tasks(ctx)
	if err != nil {
		return 0
	}
	at, err := s.meter.Read(ctx, tasks, meter.Clocks)
	if err != nil {
		return 0
	}
	for _, r := range at.Tasks {
		sum += time.Duration(r.CPU)
	}
	return sum
}

// succeeded is the rate of the answers that did not fail. A proxy answers for a program that does not.
func succeeded(r load.Report) float64 {
	return r.Rate * float64(r.Classes[load.OK]) / float64(max(1, r.Requests))
}

// ended returns the error of a program that ended during the search, with its exit code and its last lines.
func (s *search) ended() error {
	if s.deployment == nil {
		return nil
	}
	return s.deployment.Broken()
}

func (s *search) send(ctx context.Context, p load.Profile) (load.Report, error) {
	r, err := engine.Run(ctx, p.WithDefaults(), nil)
	if gone := s.ended(); gone != nil && ctx.Err() == nil {
		return r, fmt.Errorf("search for a rate: %w", gone)
	}
	switch {
	case err != nil:
		return r, fmt.Errorf("search for a rate: %w", err)
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	case r.Completed == 0:
		return r, hint.New("the path may be slow: try another with --path, or --rate 1", "search for a rate: no request was answered in %v: %v", p.Measure, r.Errors)
	}
	return r, nil
}

// failures returns an error for a load whose failed requests would make a trial invalid.
func failures(r load.Report) error {
	failed := r.Requests - r.Classes[load.OK]
	if float64(failed) <= 0.001*float64(r.Requests) {
		return nil
	}
	kinds := lists.Map(slices.Sorted(maps.Keys(r.Errors)), func(kind string) string { return fmt.Sprintf("%d %s", r.Errors[kind], kind) })
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		if status[0] != '2' && status != "grpc-0" {
			kinds = append(kinds, fmt.Sprintf("%d with status %s", r.Statuses[status], status))
		}
	}
	return hint.New("choose another path with --path, fewer --connections, or a --rate that the program can serve",
		"search for a rate: %d of %d requests failed at %s requests/s: %s", failed, r.Requests, tidy(r.Rate), strings.Join(kinds, ", "))
}

// rate is a share of the capacity, with one or two digits.
func (s *search) rate() float64 { return roundDown(min(maxWeighRate, s.capacity*s.share())) }

func (s *search) share() float64 {
	if s.cores > 0 && s.cores < waitingCores {
		return waitingShare
	}
	return searchShare
}

// roundDown is the next lower of 1, 1.5, 2, 3, 5, 7 and their multiples of ten.
func roundDown(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(x)))
	best := unit
	for _, digit := range []float64{1.5, 2, 3, 5, 7} {
		if digit*unit <= x {
			best = digit * unit
		}
	}
	return max(0.5, best)
}

func tidy(rate float64) string {
	if rate < 10 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// slice chooses slices that are long against the answers. If none is, whole trials take turns.
func (w *weighFile) slice(p95 float64) {
	switch length, ok := sliceFor(p95); {
	case !ok:
		w.Order = experiment.OrderBalanced
	case length != sliceLengths[0]:
		w.Slices = &experiment.Slices{Length: experiment.Duration(length), Guard: experiment.Duration(length / 10)}
	}
}

// sliceFor is the shortest slice that is long against answers with a p95 in ms. It is not ok if none is.
func sliceFor(p95 float64) (length time.Duration, ok bool) {
	return lists.First(sliceLengths, func(length time.Duration) bool { return p95 < promptRatio*float64(length.Milliseconds()) })
}

// repeated are n blocks of valid trials. Up to half as many are repeated, and two at least.
func repeated(n int) experiment.Blocks {
	var until experiment.Precision
	_ = until.UnmarshalScalar(experiment.UntilValid)
	return experiment.Blocks{Min: n, Max: n + max(2, n/2), Until: &until}
}

// blocksWithin is the number of blocks that take about a given time.
func blocksWithin(limit time.Duration, treatments int, start time.Duration) int {
	block := time.Duration(treatments) * (weighWarmup + weighMeasure + start + startAlone)
	return min(maxWeighBlocks, max(minWeighBlocks, int((limit+block/2)/block)))
}
