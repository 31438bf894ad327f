package live

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/report"
)

// Status is the state of a trial.
type Status int

const (
	Planned Status = iota
	Running
	Valid
	Invalid
	Failed
)

// InWords names the state.
func (s Status) InWords() string {
	return [...]string{"not run yet", "running", "valid", "invalid", "failed"}[s]
}

const (
	mostPoints   = 600 // of a series
	mostDetailed = 200 // trials that keep their series, while others keep their means
	mostMessages = 2000
)

// Board is the state of a run, folded from its events. It has no clock and no terminal.
type Board struct {
	state
	plan     plan.Plan
	trials   map[string]*Trial
	grid     map[cell]*Trial
	detailed []*Trial // in order of their beginning
	messages []Message
	headline *Headline
	halves   map[string][]float64 // half widths of the intervals so far, by treatment
	over     bool
	names    map[string]string // of treatments, as reports have them
	warned   map[string]bool   // codes of warnings that were shown
}

type cell struct {
	treatment string
	block     int
}

// Message is a line of the log.
type Message struct {
	At         time.Time
	Trial      string
	Text, Hint string
	Warning    string // code of a warning about the run so far, empty for others
	Bad        bool
}

// Trial is a trial as far as its events go.
type Trial struct {
	plan.Trial
	nth      int // of the run
	Status   Status
	Why      string // it is failed or invalid
	Phase    string
	PhaseAt  time.Time
	Phases   []span
	Search   *result.Search // the probe under way
	Last     *result.Progress
	Errors   int64         // in the measure phase
	Total    *result.Total // of the measure phase, once it is recorded
	Rate     series
	P50, P99 series
	Planes   map[string]*series // cores
	tasks    map[string]*task
	cluster  *clusterUsage // nil: no sample listed tasks of a cluster
	Faults   []string
	Changes  int    // made so far
	Change   string // the latest
}

// span is a phase that has ended.
type span struct {
	name string
	took time.Duration
}

// task is a process or container by its cumulative counter.
type task struct {
	last  result.Reading
	cores series
}

// series is a quantity over time. Min, max and mean cover the measure phase once it began.
type series struct {
	values   []float64
	n        int
	sum      float64
	min, max float64
}

func (s *series) add(v float64) {
	if s.n == 0 {
		s.min, s.max = v, v
	}
	s.n++
	s.sum += v
	s.min, s.max = min(s.min, v), max(s.max, v)
	if s.values = append(s.values, v); len(s.values) > mostPoints {
		s.values = slices.Delete(s.values, 0, len(s.values)-mostPoints)
	}
}

// begin forgets min, max and mean, and keeps the values.
func (s *series) begin() { s.n, s.sum = 0, 0 }

func (s *series) now() float64 {
	if len(s.values) == 0 {
		return math.NaN()
	}
	return s.values[len(s.values)-1]
}

func (s *series) mean() float64 {
	if s.n == 0 {
		return math.NaN()
	}
	return s.sum / float64(s.n)
}

// NewBoard returns the board of a plan whose trials have not run.
func NewBoard(p plan.Plan) *Board {
	b := &Board{plan: p, trials: map[string]*Trial{}, grid: map[cell]*Trial{}, halves: map[string][]float64{}, warned: map[string]bool{}, names: report.TreatmentNames(p.Treatments, nil)}
	b.run = result.Run{Experiment: p.Experiment, Trials: p.Needed(), TrialTime: p.TrialTime}
	for _, t := range p.Trials {
		trial := &Trial{Trial: t, Planes: map[string]*series{}, tasks: map[string]*task{}}
		b.trials[t.ID], b.grid[cell{t.Treatment, t.Block}] = trial, trial
	}
	return b
}

// Recorded marks a trial that an earlier run recorded.
func (b *Board) Recorded(r result.Record) {
	t := b.trial(r.ID)
	switch {
	case r.Error != "":
		t.Status, t.Why = Failed, r.Error
	case !r.Valid:
		t.Status = Invalid
		for _, w := range r.Warnings {
			if w.Invalidates {
				t.Why = w.Message
			}
		}
	default:
		t.Status = Valid
	}
}

// Apply folds one event in, and returns the lines that a log of the run has for it.
func (b *Board) Apply(e result.Event) []string {
	lines := b.apply(e)
	if e.Trial != "" {
		b.ofTrial(b.trial(e.Trial), e)
	}
	switch e.Kind {
	case result.KindError, result.KindInvalid:
		b.message(Message{At: e.Time, Trial: e.Trial, Text: failure[e.Kind] + ": " + e.Message, Hint: e.Hint, Bad: true})
	case result.KindLog, result.KindFault, result.KindByHand:
		b.message(Message{At: e.Time, Trial: e.Trial, Text: e.Message, Hint: e.Hint})
	case result.KindEnd:
		b.over = true
	}
	return lines
}

func (b *Board) message(m Message) {
	if b.messages = append(b.messages, m); len(b.messages) > mostMessages {
		b.messages = slices.Delete(b.messages, 0, len(b.messages)-mostMessages)
	}
}

func (b *Board) ofTrial(t *Trial, e result.Event) {
	switch e.Kind {
	case result.KindTrial:
		t.Status, t.Phase, t.PhaseAt = Running, "deploy", e.Time
		b.detail(t)
	case result.KindPhase:
		t.Search = nil
		t.phase(e.Phase, e.Time)
	case result.KindSearch:
		t.Search = e.Search
	case result.KindProgress:
		if e.Progress != nil {
			t.second(e.Progress)
		}
	case result.KindSample:
		if e.Sample != nil {
			t.sample(e.Sample)
		}
	case result.KindFault:
		t.Faults = append(t.Faults, "fault: "+e.Message)
	case result.KindByHand:
		t.Faults = append(t.Faults, e.Message)
	case result.KindChange:
		t.Changes++
		t.Change = e.Message
	case result.KindError:
		t.Status, t.Why = Failed, e.Message
	case result.KindInvalid:
		if t.Status != Failed {
			t.Status, t.Why = Invalid, e.Message
		}
	case result.KindDone:
		t.phase("", e.Time)
		t.Total = e.Total
		if t.Status == Running {
			t.Status = Valid
		}
	}
}

// detail keeps the series of the latest trials only.
func (b *Board) detail(t *Trial) {
	b.detailed = append(b.detailed, t)
	if len(b.detailed) <= mostDetailed {
		return
	}
	old := b.detailed[0]
	b.detailed = slices.Delete(b.detailed, 0, 1)
	old.tasks = map[string]*task{}
	for _, s := range slices.Concat([]*series{&old.Rate, &old.P50, &old.P99}, planesOf(old), old.cluster.series()) {
		s.values = nil
	}
}

func (t *Trial) phase(name string, at time.Time) {
	if name == t.Phase {
		return // a trial begins with the phase that its next event begins
	}
	if t.Phase != "" && !t.PhaseAt.IsZero() {
		t.Phases = append(t.Phases, span{t.Phase, at.Sub(t.PhaseAt)})
	}
	t.Phase, t.PhaseAt = name, at
	if name != measurePhase {
		return
	}
	t.Errors = 0
	for _, s := range slices.Concat([]*series{&t.Rate, &t.P50, &t.P99}, planesOf(t), t.cluster.series()) {
		s.begin()
	}
	for _, of := range t.tasks {
		of.cores.begin()
	}
}

func planesOf(t *Trial) (all []*series) {
	for _, plane := range metric.Planes() {
		if s := t.Planes[string(plane)]; s != nil {
			all = append(all, s)
		}
	}
	return all
}

func (t *Trial) second(p *result.Progress) {
	if !t.counts() {
		return // the last second of the measure phase remains in sight
	}
	t.Last = p
	t.Errors += p.Errors
	if p.HasLoad() { // a second of another treatment's slice has no rate
		t.Rate.add(p.WhileLoaded())
	}
	if p.P50MS > 0 {
		t.P50.add(p.P50MS)
		t.P99.add(p.P99MS)
	}
}

func (t *Trial) sample(s *result.Sample) {
	counts := t.counts()
	if counts {
		for plane, c := range s.Cores {
			of := t.Planes[plane]
			if of == nil {
				of = &series{}
				t.Planes[plane] = of
			}
			of.add(c)
		}
	}
	for id, r := range s.Tasks {
		of := t.tasks[id]
		if of == nil {
			t.tasks[id] = &task{last: r}
			continue
		}
		if passed := r.At.Sub(of.last.At); passed > 0 && r.CPU >= of.last.CPU && counts {
			of.cores.add(float64(r.CPU-of.last.CPU) / float64(passed))
		}
		of.last = r
	}
	if t.cluster == nil && len(s.Listed) > 0 {
		t.cluster = &clusterUsage{map[string]mesh.Task{}, map[string]*nodeUsage{}, make([]usage, len(sums)), map[component]*usage{}}
	}
	if t.cluster != nil {
		t.cluster.add(s, t.tasks, counts)
	}
}

const measurePhase = "measure"

// measured reports whether the measure phase has begun.
func (t *Trial) measured() bool {
	return t.Phase == measurePhase || slices.ContainsFunc(t.Phases, func(s span) bool { return s.name == measurePhase })
}

// counts reports whether figures enter min, max and mean: later ones are of an idle application.
func (t *Trial) counts() bool { return t.Phase == measurePhase || !t.measured() }

// Blocks is the number of blocks to run: spare blocks, for repetitions of invalid trials, count as they begin.
func (b *Board) Blocks() int {
	if b.plan.Until == experiment.UntilValid {
		return max(b.plan.MinBlocks, b.latest())
	}
	return b.plan.Blocks
}

// Counts are the numbers of trials by status.
func (b *Board) Counts() map[Status]int {
	n := map[Status]int{}
	for _, t := range b.plan.Trials {
		n[b.trials[t.ID].Status]++
	}
	return n
}

// latest is the block of the running trials, or of the last one that ran.
func (b *Board) latest() int {
	last := 0
	for _, t := range b.plan.Trials {
		if b.trials[t.ID].Status != Planned {
			last = max(last, t.Block)
		}
	}
	return last
}

// progressWords are the place in the plan and in the trial: "trials 7-9 of 18, block 3 of 6, measure 2 of 3 s".
func (b *Board) place(now time.Time) []string {
	running := b.running
	if len(running) == 0 {
		return []string{fmt.Sprintf("%d of %s", b.done, printable.Counted(b.run.Trials, "trial"))}
	}
	first, last := running[0].nth, running[len(running)-1].nth
	which := fmt.Sprintf("trial %d of %d", last, b.run.Trials)
	if first != last {
		which = fmt.Sprintf("trials %d-%d of %d", first, last, b.run.Trials)
	}
	t := running[len(running)-1]
	phase := t.Phase + probe(t.Search)
	if measure := b.run.Measure * time.Duration(len(running)); t.Phase == measurePhase && measure > 0 { // members of a round share the time
		phase = fmt.Sprintf("%s %.0f of %.0f s", phase, min(now.Sub(t.PhaseAt), measure).Seconds(), measure.Seconds())
	}
	return []string{which, fmt.Sprintf("block %d of %d", t.Block, b.Blocks()), phase}
}

// trial returns the trial called id. One outside the plan is not in the grid.
func (b *Board) trial(id string) *Trial {
	t := b.trials[id]
	if t == nil {
		t = &Trial{Trial: plan.Trial{ID: id}, Planes: map[string]*series{}, tasks: map[string]*task{}}
		b.trials[id] = t
	}
	return t
}

// state is the place in the run.
type state struct {
	run       result.Run
	running   []*Trial // begun and not done: several in a round
	nth       int      // trials begun, recorded ones of an earlier run included
	done      int
	problems  int          // trials failed or invalid
	printed   result.Event // the last problem of these trials
	beginning bool         // trials begin, and none is in a phase
	begun     time.Time
	spent     time.Duration // by trials of this run
	trialAt   time.Time     // when the running trials began, or the last trial ended, whichever is later
	finished  int           // trials of this run, for the mean duration
}

// longestPause is the longest pause between two trials of one run. A longer one is an interruption.
const longestPause = 5 * time.Minute

// apply folds one event into the place in the run, and returns the lines that remain. Each trial folds its own events.
func (b *Board) apply(e result.Event) []string {
	s := &b.state
	switch e.Kind {
	case result.KindRun:
		if e.Run != nil {
			s.run, s.begun = *e.Run, e.Time
			s.nth, s.done = e.Run.Recorded, e.Run.Recorded
			return []string{s.opening()}
		}
	case result.KindTimes:
		if e.Run != nil {
			return s.retimed(e.Run.TrialTime)
		}
	case result.KindTrial:
		s.begin(b.trial(e.Trial), e.Time)
	case result.KindPhase:
		s.beginning = false
	case result.KindError, result.KindInvalid:
		if e.Kind == result.KindError || e.Trial != "" {
			s.problems++
		}
		return s.problem(e)
	case result.KindLog, result.KindByHand:
		return hinted(e.Message, e.Hint)
	case result.KindDone:
		s.done++
		s.finished++
		s.spent += e.Time.Sub(s.trialAt)
		s.trialAt = e.Time
		t := b.trial(e.Trial)
		line := s.closing(t, e)
		s.running = slices.DeleteFunc(s.running, func(of *Trial) bool { return of == t })
		return []string{line}
	}
	return nil
}

// begin begins a trial. The trials of a round begin before its first phase. All others that were
// running have ended, some without a record.
func (s *state) begin(t *Trial, at time.Time) {
	if slices.Contains(s.running, t) { // the round is run again
		s.nth = t.nth - 1
	}
	if !s.beginning {
		s.running, s.printed = nil, result.Event{}
		if pause := at.Sub(s.trialAt); s.finished > 0 && pause <= longestPause {
			s.spent += pause // the trial before was removed, or a mesh installed
		}
	}
	s.nth++
	s.run.Trials = max(s.run.Trials, s.nth) // repetitions of invalid trials
	t.nth = s.nth
	s.running = append(s.running, t)
	s.beginning, s.trialAt = true, at
}

var failure = map[string]string{result.KindError: "failed", result.KindInvalid: "invalid"}

// problem is why a trial failed or is invalid, with a hint. The trials of a block often share it: it is printed once.
func (s *state) problem(e result.Event) []string {
	if p := s.printed; e.Trial != "" && p.Kind == e.Kind && p.Message == e.Message && p.Hint == e.Hint && p.Trial != e.Trial {
		return []string{e.Trial + ": " + failure[e.Kind] + ", as " + p.Trial}
	}
	s.printed = e
	return hinted(e.Trial+": "+failure[e.Kind]+": "+e.Message, e.Hint)
}

// hinted are a line and its hint.
func hinted(line, hint string) []string {
	if hint == "" {
		return []string{line}
	}
	return []string{line, "hint: " + hint}
}

func (s *state) opening() string {
	left := time.Duration(s.run.Trials-s.run.Recorded) * s.run.TrialTime
	text := fmt.Sprintf("%s: %s, about %s", s.run.Experiment, printable.Counted(s.run.Trials, "trial"), round(left))
	if s.run.Recorded > 0 {
		text += fmt.Sprintf(", %d already recorded", s.run.Recorded)
	}
	if s.run.Dir != "" {
		text += ", into " + s.run.Dir
	}
	return text
}

// retimed takes another expected duration of a trial, and reports one that differs by more than a tenth.
func (s *state) retimed(trial time.Duration) []string {
	before := s.run.TrialTime
	s.run.TrialTime = trial
	all := time.Duration(s.run.Trials-s.run.Recorded) * trial
	if (trial-before).Abs() <= before/10 || s.run.Within > 0 && all > s.run.Within {
		return nil
	}
	return []string{fmt.Sprintf("about %s in all, since trials take longer than planned or end sooner", round(all))}
}

// closing is the line a trial leaves behind.
func (s *state) closing(t *Trial, done result.Event) string {
	parts := []string{fmt.Sprintf("trial %*d of %d  %s", len(fmt.Sprint(s.run.Trials)), cmp.Or(t.nth, s.nth), s.run.Trials, t.ID)}
	if total := done.Total; total != nil {
		parts = append(parts, fmt.Sprintf("%.0f req/s  %s", total.Rate, count(total.Errors, "error")))
	}
	if c := t.planes((*series).mean); c != "" && t.measured() {
		parts = append(parts, c)
	}
	// The last trial of a round has the time of all.
	if left := s.left(done.Time); left > 0 && len(s.running) < 2 {
		parts = append(parts, round(left).String()+" left")
	}
	return strings.Join(parts, "  ")
}

// live is the line redrawn in place: the most perishable news first, cut to width.
func (s *state) live(now time.Time, width int) string {
	if len(s.running) == 0 {
		return ""
	}
	t := s.running[len(s.running)-1]
	which, name := fmt.Sprint(t.nth), t.ID
	if n := len(s.running); n > 1 {
		which, name = fmt.Sprintf("%d-%d", s.running[0].nth, t.nth), fmt.Sprintf("%d trials at once", n)
	}
	parts := []string{which + "/" + fmt.Sprint(s.run.Trials), name, t.Phase + probe(t.Search)}
	if left := s.left(now); left > 0 {
		parts = append(parts, round(left).String()+" left")
	}
	if p := t.Last; p != nil {
		parts = append(parts, fmt.Sprintf("%.0f req/s  %s  p50 %.2f ms", p.WhileLoaded(), count(p.Errors, "error"), p.P50MS))
	}
	if c := t.planes((*series).now); c != "" {
		parts = append(parts, c)
	}
	if s.problems > 0 {
		parts = append(parts, fmt.Sprintf("%d failed or invalid", s.problems))
	}
	line := []rune(strings.Join(parts, "  "))
	if width > 1 && len(line) > width-1 {
		line = append(line[:width-2], '…')
	}
	return string(line)
}

// probe is the progress of a search: " 7 of 12, 3210 req/s".
func probe(s *result.Search) string {
	switch {
	case s == nil:
		return ""
	case s.Probe == 0:
		return ": closed loop"
	}
	return fmt.Sprintf(" %d of %d, %.0f req/s", s.Probe, s.Probes, s.Rate)
}

func count(n int64, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// planes is CPU by plane in cores, in the order of all reports.
func (t *Trial) planes(value func(*series) float64) string {
	var parts []string
	for _, plane := range metric.Planes() {
		if s := t.Planes[string(plane)]; s != nil && value(s) >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s %.2f", plane, value(s)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "cores: " + strings.Join(parts, " ")
}

// left is the remaining time: by the mean of the trials so far once there is one, else by the plan. A run that ends with a decision
// has no more than its limit.
func (s *state) left(now time.Time) time.Duration {
	each := s.run.TrialTime
	if s.finished > 0 {
		each = s.spent / time.Duration(s.finished)
	}
	left := time.Duration(s.run.Trials-s.done) * each
	if n := s.nth - s.done; n > 0 {
		left -= min(now.Sub(s.trialAt), time.Duration(n)*each)
	}
	if s.run.Within > 0 {
		left = min(left, max(each, s.run.Within-now.Sub(s.begun)))
	}
	return left
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Minute {
		return d.Round(time.Minute)
	}
	return d.Round(time.Second)
}

// answers decides when the report on the trials so far is made.
type answers struct {
	ended  int            // trials since the last report
	block  int            // of the last trial that ended
	blocks map[string]int // of trials
	cost   time.Duration  // of the last report
	at     time.Time      // of the last report
	next   int            // block after which the next lines without a screen follow
}

// soFar is the answer of the blocks before an event, for a view without a screen: with the first interval, and then after twice as
// many blocks each.
func (a *answers) soFar(e result.Event, o Options) (lines []string) {
	begins := e.Kind == result.KindTrial && a.blocks[e.Trial] > a.block && a.block >= max(leastBlocks, a.next)
	if e.Kind == result.KindEnd || e.Kind == result.KindTrial && !begins {
		return nil
	}
	h := a.before(e, o)
	if h == nil || !h.hasInterval() || len(h.Answer) == 0 {
		return nil
	}
	a.next = 2 * a.block
	for i, line := range h.Answer { // the first result: of several treatments, all rows
		if i == 0 {
			line = fmt.Sprintf("after %s: %s", printable.Counted(a.block, "block"), line)
		} else if !strings.HasPrefix(line, " ") {
			break
		}
		lines = append(lines, line)
	}
	return lines
}

// leastBlocks are the fewest with an interval.
const leastBlocks = 3

// mostOfTime bounds the time that reports may take: one part in mostOfTime of the run.
const mostOfTime = 50

// before returns the headline at the beginning of a trial after others have ended, and at the end
// of the run. No trial is deployed then, so that the report disturbs none.
func (a *answers) before(e result.Event, o Options) *Headline {
	if o.Analyze == nil {
		return nil
	}
	if a.blocks == nil {
		a.blocks = map[string]int{}
		for _, t := range o.Plan.Trials {
			a.blocks[t.ID] = t.Block
		}
		for _, r := range o.Recorded { // a resumed run has its difference so far at once
			a.ended, a.block = a.ended+1, max(a.block, r.Block)
		}
	}
	switch e.Kind {
	case result.KindDone:
		a.ended++
		a.block = max(a.block, a.blocks[e.Trial])
		return nil
	case result.KindTrial, result.KindEnd:
	default:
		return nil
	}
	if a.ended == 0 || e.Kind != result.KindEnd && time.Since(a.at) < mostOfTime*a.cost {
		return nil
	}
	began := time.Now()
	r, err := o.Analyze(a.block)
	a.ended, a.at, a.cost = 0, time.Now(), time.Since(began)
	if err != nil {
		return nil // tare report has the error
	}
	return HeadlineOf(r)
}

// Headline is one metric of the report on the trials so far.
type Headline struct {
	Title, Unit string
	Of          map[string]Difference // by treatment
	Levels      map[string]string     // names of levels
	Warnings    []figures.Warning
	Answer      []string
}

// Difference is a treatment's difference to its baseline, in the headline's unit.
type Difference struct {
	Text      string // as reports print it
	Verdict   string
	Estimate  float64
	Low, High float64 // NaN: too few pairs for an interval
	Control   bool
}

// headlines are the metrics in order of preference.
var headlines = []string{metric.Capacity, metric.Of(metric.CPUPerRequest, "total"), metric.Of(metric.Latency, "p50")}

// HeadlineOf is the headline of a report. It has no differences where nothing was compared.
func HeadlineOf(r *answer.Report) *Headline {
	words, underWay := report.WordsOf(r), *r
	underWay.Setup.FirstStart = nil // no sentence has a command that repeats the run
	h := &Headline{Of: map[string]Difference{}, Levels: r.Names, Warnings: report.Warnings(r), Answer: report.Answer(&underWay)}
	for _, name := range append(slices.Clone(headlines), words.Shown...) {
		i := slices.IndexFunc(words.Metrics, func(m report.MetricWords) bool { return m.Name == name })
		if i < 0 {
			continue
		}
		m := words.Metrics[i]
		for j, c := range r.Comparisons {
			if c.Metric != name || c.Difference == nil {
				continue
			}
			d := Difference{Text: words.Comparisons[j].Both(), Verdict: words.Comparisons[j].Verdict, Estimate: c.Difference.Estimate * m.Scale, Control: c.Control, Low: math.NaN(), High: math.NaN()}
			if c.Difference.Known() {
				d.Low, d.High = *c.Difference.Low*m.Scale, *c.Difference.High*m.Scale
			}
			h.Of[c.Treatment] = d
		}
		if len(h.Of) > 0 {
			h.Title, h.Unit = m.Title, m.Unit
			return h
		}
	}
	return h
}

// hasInterval reports whether a treatment's difference has one.
func (h *Headline) hasInterval() bool {
	for _, d := range h.Of {
		if !d.Control && !math.IsNaN(d.Low) {
			return true
		}
	}
	return false
}

// Answer sets the headline, and adds warnings with a new code to the messages. Warnings that later trials refute go.
func (b *Board) Answer(h *Headline) {
	b.headline = h
	b.names = report.TreatmentNames(b.plan.Treatments, h.Levels)
	for id, d := range h.Of {
		if half := (d.High - d.Low) / 2; half > 0 {
			b.halves[id] = append(b.halves[id], half)
		}
	}
	for code := range b.warned {
		if !slices.ContainsFunc(h.Warnings, func(w figures.Warning) bool { return w.Code == code }) {
			delete(b.warned, code)
			b.messages = slices.DeleteFunc(b.messages, func(m Message) bool { return m.Warning == code })
		}
	}
	for _, w := range h.Warnings {
		if b.warned[w.Code] || b.premature(w.Code) {
			continue
		}
		b.warned[w.Code] = true
		b.message(Message{Warning: w.Code, Text: "warning " + w.Code + ": " + w.Message, Hint: w.Hint})
	}
}

// premature reports whether a warning is of what the plan still has.
func (b *Board) premature(code string) bool {
	control := func(t plan.Treatment) bool { return t.Control }
	return ofUnfinished[code] || code == "no-floor" && slices.ContainsFunc(b.plan.Treatments, control)
}

// ofUnfinished are warnings that every run has before its end.
var ofUnfinished = map[string]bool{"missing-trials": true, "few-trials": true}
