package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/runner"
	"github.com/tare-mesh/tare/internal/stats"
)

// Opening is the input for opening a platform.
type Opening struct {
	Experiment *experiment.Experiment
	Results    string       // the run's directory
	Version    string       // of tare
	Note       func(string) // receives lines for the user
}

// Opened is a platform with everything that belongs to it.
type Opened struct {
	Platform    platform.Platform
	Meter       meter.Meter
	Timing      runner.Timing
	Environment result.Environment // of the place where the trials run
	// End removes what the run shares between its trials. Nil removes nothing.
	End func(context.Context) error
}

// Run is a study with an open platform and results directory.
type Run struct {
	*Opened
	Dir *result.Dir

	study      *Study
	generators map[string]generator.Generator // by the level of the factor generator
	notices    *notices
}

// Results returns the directory of a new run: out, by default one below runs/.
func (s *Study) Results(out string) string {
	return cmp.Or(out, newDir(s.Experiment.Metadata.Name, time.Now().UTC()))
}

// Open finds the programs and secrets of a study. Then it opens the platform, and the directory of a new run, or with resume the directory of an earlier one. An error leaves no directory behind.
func (s *Study) Open(ctx context.Context, path string, resume bool) (*Run, error) {
	if err := generator.CheckAgent(ctx, s.Program.Version); err != nil {
		return nil, err
	}
	generators, err := s.generators()
	if err != nil {
		return nil, err
	}
	if err := generator.Missing(generator.FindAll(ctx, used(s.Plan, generators))); err != nil {
		return nil, err
	}
	if err := runner.CheckSecrets(s.Experiment); err != nil {
		return nil, err
	}
	n := &notices{note: s.Program.Note}
	on, err := s.Program.platform(s.Experiment.Platform.Kind).Open(ctx, Opening{Experiment: s.Experiment, Results: path, Version: s.Program.Version, Note: n.post})
	if err != nil {
		return nil, err
	}
	if err := runner.Refused(s.Experiment, s.Meshes, on.Platform); err != nil {
		return nil, err
	}
	dir, err := s.openResults(path, resume, on.Environment)
	if err != nil {
		return nil, err
	}
	s.ReadTrialTimes(filepath.Dir(path))
	return &Run{Opened: on, Dir: dir, study: s, generators: generators, notices: n}, nil
}

// generators returns the load generators of an experiment, by the level of the factor generator.
func (s *Study) generators() (map[string]generator.Generator, error) {
	all := s.Program.GeneratorsByName()
	if s.Experiment.Platform.Kind != mesh.OnKubernetes || s.Experiment.Outside() {
		return all, nil
	}
	return s.Program.Kubernetes.Generators(s.Experiment, all)
}

func used(p *plan.Plan, all map[string]generator.Generator) (used []generator.Generator) {
	levels := lists.Set(p.Treatments, func(t plan.Treatment) string { return t.Levels.Generator })
	names := lists.Where(slices.Sorted(maps.Keys(all)), func(name string) bool { return levels[name] })
	return lists.Map(names, func(name string) generator.Generator { return all[name] })
}

// newDir returns a directory for results that does not exist: a second run of one second has the suffix -2.
func newDir(name string, now time.Time) string {
	base := filepath.Join(result.RunsDir, name+"-"+now.Format("20060102T150405Z"))
	dir := base
	for n := 2; ; n++ {
		if _, err := os.Lstat(dir); err != nil {
			return dir
		}
		dir = fmt.Sprintf("%s-%d", base, n)
	}
}

// openResults makes the directory of a new run, or opens the directory of an earlier one.
func (s *Study) openResults(path string, resume bool, env result.Environment) (*result.Dir, error) {
	text, err := s.Experiment.YAML()
	if err != nil {
		return nil, err
	}
	env.Time = time.Now().UTC()
	env.Tare = s.Program.Version
	env.Command = os.Args
	env.Platform = s.Experiment.Platform.Kind
	if env.Meshes, err = s.meshDigests(); err != nil {
		return nil, err
	}
	env.Provides = s.provides()
	env.Variants = s.Variants()
	env.Options = s.options()
	if resume {
		return result.Resume(path, text, env)
	}
	return result.Create(path, text, s.Plan, env)
}

// notices are lines for the user: shown in the live view while there is one.
type notices struct {
	mu   sync.Mutex
	note func(string)
	view result.Sink
}

// show sets the view. Nil means none.
func (n *notices) show(view result.Sink) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.view = view
}

func (n *notices) post(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.view == nil {
		n.note(line)
		return
	}
	_ = n.view.Event(result.Event{Time: time.Now(), Kind: result.KindLog, Message: line})
}

type RunOptions struct {
	View result.Sink // shows the events of the run
	// Resume are arguments of the command that resumes the run, besides its directory.
	Resume []string
	// Kill ends at the second interrupt. Nil never ends.
	Kill context.Context
}

// Trials runs the trials that have no record yet.
func (r *Run) Trials(ctx context.Context, o RunOptions) (_ runner.Summary, err error) {
	s := r.study
	topologies, err := s.Topologies()
	if err != nil {
		return runner.Summary{}, err
	}
	r.notices.show(o.View)
	defer r.notices.show(nil)
	if r.End != nil {
		// The mesh is uninstalled in spite of a first interrupt. After a second one the next run uninstalls it.
		late := cmp.Or(o.Kill, context.WithoutCancel(ctx))
		defer func() { err = errors.Join(err, r.End(late)) }()
	}
	services := &runner.Services{}
	if stop, err := serveServices(ctx, r.Dir.Path(), services); err != nil {
		r.notices.post(fmt.Sprintf("services cannot be changed by hand: %v", err))
	} else {
		defer stop()
	}
	planned := s.Program.platform(s.Experiment.Platform.Kind).refreshOf(s.Experiment)
	if s.Times != nil {
		planned = 0 // earlier trials had the interval of their cluster
	}
	return runner.Run(ctx, runner.Config{
		Experiment: s.Experiment,
		Topologies: topologies,
		Meshes:     s.Meshes,
		Platform:   r.Platform,
		Generators: r.generators,
		Meter:      r.Meter,
		Timing:     r.Timing,
		Dir:        r.Dir,
		TrialTime:  s.Expected() / time.Duration(max(1, len(s.Plan.Trials))),
		Refresh:    planned,
		Stop:       orUnstartable(r.Dir, stopRule(r.Dir, s.Experiment, r.notices.post)),
		Resume:     Command(s.definitions, append([]string{"--resume", r.Dir.Path()}, o.Resume...)...),
		Sinks:      []result.Sink{o.View},
		Kill:       o.Kill,
		Services:   services,
	})
}

// Command returns the command line of `tare run` with files of mesh definitions, for a person to copy.
func Command(definitions []string, args ...string) string {
	words := append([]string{"run"}, args...)
	for _, file := range definitions {
		words = append(words, "--mesh", file)
	}
	return proc.Command{Path: "tare", Args: words}.String()
}

// Change is a change of the services of a running trial by hand.
type Change struct {
	Trial  string `json:"trial,omitempty"` // empty: all that run now
	Target string `json:"target"`          // a service, or one of its replicas
	Patch  string `json:"patch"`           // JSON merge patch of its configuration
}

// Limits of the socket of a run.
const (
	maxServicesBody    = 1 << 20 // bytes
	servicesTimeout    = time.Minute
	servicesHeaderTime = 5 * time.Second
)

// Replicas returns the replicas of services in the trials that a run, of another process, has now. dir is its results
// directory.
func Replicas(ctx context.Context, dir string) (all []runner.Replica, err error) {
	return all, callRun(ctx, dir, http.MethodGet, nil, &all)
}

// ChangeServices changes services of a run of another process.
func ChangeServices(ctx context.Context, dir string, c Change) (made []result.ByHand, err error) {
	return made, callRun(ctx, dir, http.MethodPatch, c, &made)
}

// callRun sends a request to the run of a results directory. The socket has mode 0700 of this user's directory.
func callRun(ctx context.Context, dir, method string, body, answer any) error {
	socket, err := servicesSocket(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, servicesTimeout)
	defer cancel()
	over := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	err = httpserver.Call(ctx, over, "", method, "http://run/services", body, maxServicesBody, answer)
	_, refused := errors.AsType[*httpserver.Refused](err)
	switch {
	case errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED):
		return hint.New("`tare run` of this user must be running it on this machine, with the same TMPDIR", "no run of %s answers", dir)
	case err == nil || refused:
		return err
	}
	return fmt.Errorf("call the run of %s: %w", dir, err)
}

// servicesSocket is the path of the socket of a run, in a directory of this user alone.
func servicesSocket(dir string) (string, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", dir, err)
	}
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
	}
	sum := sha256.Sum256([]byte(at))
	return filepath.Join(os.TempDir(), "tare-services-"+strconv.Itoa(os.Getuid()), hex.EncodeToString(sum[:8])), nil
}

// serveServices answers the requests of `tare services` to the run until stop is called.
func serveServices(ctx context.Context, dir string, services *runner.Services) (stop func(), err error) {
	socket, err := servicesSocket(dir)
	if err != nil {
		return nil, err
	}
	l, err := listenAlone(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("listen for `tare services`: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	server := &http.Server{Handler: servicesHandler(services), ReadHeaderTimeout: servicesHeaderTime, ReadTimeout: servicesTimeout}
	go routine.Guarded(func() {
		defer close(ended)
		_ = httpserver.Serve(ctx, l, server)
	})()
	return func() { cancel(); <-ended }, nil
}

// listenAlone listens on a socket in a directory that only this user can enter. A socket of a dead run is replaced: the
// results directory is locked, so that no other run has it.
func listenAlone(ctx context.Context, socket string) (net.Listener, error) {
	dir := filepath.Dir(socket)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || info.Mode().Perm() != 0o700 || !ok || int(owner.Uid) != os.Getuid() {
		return nil, fmt.Errorf("%s is not a directory of this user alone", dir)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return new(net.ListenConfig).Listen(ctx, "unix", socket)
}

func servicesHandler(services *runner.Services) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /services", func(w http.ResponseWriter, r *http.Request) {
		httpserver.Answer(w, http.StatusOK, services.Replicas(r.Context()))
	})
	mux.HandleFunc("PATCH /services", httpserver.Handle(maxServicesBody, func(r *http.Request, c Change) (any, error) {
		made, err := services.Change(r.Context(), c.Trial, c.Target, c.Patch)
		if err != nil {
			return nil, httpserver.Fail(http.StatusUnprocessableEntity, "%w", err)
		}
		return made, nil
	}))
	return mux
}

// stopRule returns why to stop after a block, or no reason to continue. A nil rule runs every block. It is here because
// neither the runner nor analysis may know the other: both know the results directory.
func stopRule(dir *result.Dir, x *experiment.Experiment, post func(string)) func(block int) (result.Stopped, error) {
	b := x.Blocks
	if len(x.Decide.Gates) > 0 && !x.Decide.AtEnd {
		return decisionRule(dir, x.Decide, post)
	}
	switch {
	case b.Until == nil:
		return nil
	case b.Until.Valid:
		return repetitionRule(dir, b, post)
	}
	return func(block int) (stop result.Stopped, err error) {
		reachedAt := block - stats.ExtraBlocks
		if reachedAt < b.Min {
			return stop, nil
		}
		r, err := answer.Analyze(dir, compare.Options{Blocks: reachedAt})
		if err != nil || r.Stopping == nil || !r.Stopping.Reached {
			return stop, err
		}
		stop.Why = fmt.Sprintf("after block %d %s; the stopping rule requires %s", reachedAt, r.Stopping.Words(), printable.Counted(stats.ExtraBlocks, "more block"))
		return stop, nil
	}
}

// repetitionRule ends the run at min blocks of valid trials, and reports which block is repeated. It depends on the validity
// of trials and on no figure, so that intervals keep their coverage.
func repetitionRule(dir *result.Dir, b experiment.Blocks, post func(string)) func(block int) (result.Stopped, error) {
	return func(block int) (stop result.Stopped, err error) {
		records, err := dir.Records()
		if err != nil {
			return stop, err
		}
		lost := map[int]*result.Record{}
		for i := range records {
			if r := &records[i]; !r.Valid && lost[r.Block] == nil {
				lost[r.Block] = r
			}
		}
		switch r := lost[block]; {
		case block-len(lost) >= b.Min && len(lost) > 0:
			stop.Why = fmt.Sprintf("%s have valid trials only, after %s", printable.Counted(b.Min, "block"), printable.Counted(len(lost), "repetition"))
		case block-len(lost) >= b.Min:
			stop.Why = "no block is to repeat"
		case r != nil && block < b.Max:
			post(fmt.Sprintf("block %d: trial %s is %s: repeated, at most %d times", block, r.ID, reasonOf(r), b.Max-b.Min))
		}
		return stop, nil
	}
}

// reasonOf is why a trial cannot be used.
func reasonOf(r *result.Record) string {
	if r.Error != "" {
		return "failed"
	}
	for _, w := range r.Warnings {
		if w.Invalidates {
			return "invalid (" + figures.Cause(w.Code) + ")"
		}
	}
	return "invalid"
}

// orUnstartable ends a run, beside its rule, if none of two or more trials has started, of a treatment or of all, for one
// reason: the next would fail of the same cause. Later than a few blocks it does not look: every treatment has had its
// chance, and the records of a long run take long to read. A nil rule continues.
func orUnstartable(dir *result.Dir, rule func(block int) (result.Stopped, error)) func(block int) (result.Stopped, error) {
	if rule == nil {
		rule = func(int) (result.Stopped, error) { return result.Stopped{}, nil }
	}
	return func(block int) (result.Stopped, error) {
		if block > startBlocks {
			return rule(block)
		}
		records, err := dir.Records()
		if err != nil {
			return result.Stopped{}, err
		}
		if unstartable(records) {
			return result.Stopped{Why: fmt.Sprintf("none of %d trials started: %s", len(records), records[0].Error)}, nil
		}
		trials := map[string][]result.Record{}
		for i := range records {
			trials[records[i].Treatment] = append(trials[records[i].Treatment], records[i])
		}
		for _, treatment := range slices.Sorted(maps.Keys(trials)) {
			if of := trials[treatment]; unstartable(of) {
				return result.Stopped{Why: fmt.Sprintf("none of %d trials of %s started: %s", len(of), treatment, of[0].Error)}, nil
			}
		}
		return rule(block)
	}
}

// startBlocks are the blocks after which a treatment that has not started ends the run.
const startBlocks = 5

// numbers are the parts of a reason that differ from trial to trial: ports, process IDs.
var numbers = regexp.MustCompile(`[0-9]+`)

// unstartable reports whether none of two or more trials has started, for one reason.
func unstartable(trials []result.Record) bool {
	for i := range trials {
		r := &trials[i]
		if r.Load != nil || r.Error == "" || numbers.ReplaceAllString(r.Error, "N") != numbers.ReplaceAllString(trials[0].Error, "N") {
			return false
		}
	}
	return len(trials) > 1
}

// decisionRule ends the run when a gate is breached, when every gate holds, or when another block would last beyond the time given.
func decisionRule(dir *result.Dir, d experiment.Decide, post func(string)) func(block int) (result.Stopped, error) {
	var earlier time.Duration // of the sessions before a resume
	if records, err := dir.Records(); err == nil {
		earlier = result.Worked(records)
	}
	begun := time.Now()
	return func(block int) (result.Stopped, error) {
		looks, err := compare.NewLooks(dir, compare.Options{})
		if err != nil {
			return result.Stopped{}, err
		}
		passed := earlier + time.Since(begun)
		l := look{looks: looks, block: block, timeIsOver: isOver(block, passed, time.Duration(d.Within))}
		stop, err := l.decide()
		for i := range l.decisions {
			post(fmt.Sprintf("block %d: %s", block, l.decisions[i].Words()))
		}
		if stop.Why == timeOver {
			stop.Why = fmt.Sprintf("%s after %v, and another block would last beyond %v", compare.Decided(l.decisions), passed.Round(time.Second), d.Within)
		}
		return stop, err
	}
}

// isOver reports whether the next block would last beyond the time given, 0 for none. The fewest blocks that decide a gate were
// planned to fit: on a slower machine they run all the same, if half of the time more is enough.
func isOver(block int, passed, within time.Duration) bool {
	left := max(1, experiment.DecideFrom()-block)
	if within <= 0 {
		return false
	}
	if block < experiment.DecideFrom() {
		within += within / 2
	}
	return passed+passed*time.Duration(left)/time.Duration(max(block, 1)) > within
}

// timeOver is why a run without a decision ends.
const timeOver = "time is over"

// look is a look at the gates after a block, of a run or of its replay.
type look struct {
	looks      *compare.Looks
	block      int
	timeIsOver bool
	decisions  []compare.Decision // out
}

// decide ends the run if a gate is breached, if every gate holds, or if the time is over. Then it looks for the last time: the end does
// not depend on the results.
func (l *look) decide() (stop result.Stopped, err error) {
	if l.decisions, err = l.looks.At(l.block, false); err != nil {
		return stop, err
	}
	switch compare.Decided(l.decisions) {
	case compare.Breached:
		return result.Stopped{Why: "a gate is breached"}, nil
	case compare.Holds:
		return result.Stopped{Why: "every gate holds"}, nil
	}
	if !l.timeIsOver {
		return stop, nil
	}
	l.decisions, err = l.looks.At(l.block, true)
	return result.Stopped{Why: timeOver, Last: true}, err
}

// Replayed is a recorded run whose gates were decided again.
type Replayed struct {
	Dir       string             `json:"dir"`
	Block     int                `json:"block"`          // of the look that decided, or of the last one
	Last      bool               `json:"last,omitempty"` // no look follows
	Decisions []compare.Decision `json:"decisions"`
}

// Replay looks at the gates of one run until they are decided. within is the time to end at.
// 0 means the run's own end.
func Replay(dir string, o compare.Options, within time.Duration) (Replayed, error) {
	r := Replayed{Dir: dir}
	d, err := result.Open(dir)
	if err != nil {
		return r, err
	}
	defer d.Close()
	looks, err := compare.NewLooks(d, o)
	if err != nil {
		return r, err
	}
	for block := min(1, looks.To()); block <= looks.To(); block++ {
		l := look{looks: looks, block: block, timeIsOver: isOver(block, looks.Elapsed(block), within) || looks.EndsAt(block)}
		stop, err := l.decide()
		if err != nil {
			return r, err
		}
		r.Block, r.Last, r.Decisions = block, stop.Last, l.decisions
		if stop.Why != "" {
			break
		}
	}
	return r, nil
}
