package live

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

var update = flag.Bool("update", false, "write the frames in testdata")

// stored is a study that every test reads.
var stored = struct {
	sync.Once
	dir       *result.Dir
	headlines []*Headline // after each block
}{}

func TestMain(m *testing.M) {
	code := m.Run()
	if stored.dir != nil {
		_ = os.RemoveAll(stored.dir.Path())
	}
	os.Exit(code)
}

func quickstart(t *testing.T) *result.Dir {
	t.Helper()
	stored.Do(func() {
		dir := must.Get(os.MkdirTemp("", "tare-live-*"))(t)
		study := answertest.Quickstart()
		study.Measure, study.Rate = 2, 100
		stored.dir = study.Write(t, dir)
		for block := 1; block <= study.Blocks; block++ {
			r := must.Get(answer.Analyze(stored.dir, compare.Options{Blocks: block}))(t)
			stored.headlines = append(stored.headlines, HeadlineOf(r))
		}
	})
	return stored.dir
}

// interleaved is a study whose treatments of a block ran together, and its events up to the second
// second of block 5. One trial of block 2 is invalid.
func interleaved(t *testing.T) (plan.Plan, []result.Event) {
	t.Helper()
	p := quickstart(t).Plan()
	p.Trials = slices.Clone(p.Trials)
	var events []result.Event
	add := func(at time.Time, kind, trial string, more func(*result.Event)) {
		e := result.Event{Time: at, Kind: kind, Trial: trial}
		if more != nil {
			more(&e)
		}
		events = append(events, e)
	}
	add(t0, result.KindRun, "", func(e *result.Event) {
		e.Run = &result.Run{Experiment: p.Experiment, Dir: "runs/q", Trials: len(p.Trials), TrialTime: p.TrialTime, Measure: 5 * time.Second}
	})
	phase := func(name string) func(*result.Event) { return func(e *result.Event) { e.Phase = name } }
	for block := 1; block <= 5; block++ {
		at := t0.Add(time.Duration(block-1) * 10 * time.Second)
		var members []plan.Trial
		for i := range p.Trials {
			if p.Trials[i].Block == block {
				p.Trials[i].Round = block
				members = append(members, p.Trials[i])
			}
		}
		for _, m := range members {
			add(at, result.KindTrial, m.ID, nil)
		}
		for _, m := range members {
			add(at.Add(time.Second), result.KindPhase, m.ID, phase("measure"))
		}
		for second := range 5 {
			if block == 5 && second == 2 {
				return p, events
			}
			for i, m := range members {
				now := at.Add(time.Duration(2+second) * time.Second)
				share := 0.2
				add(now, result.KindProgress, m.ID, func(e *result.Event) {
					e.Progress = &result.Progress{Second: second, AskedRate: 300, Rate: float64(59 + (second+block)%3), Loaded: &share, P50MS: 0.2 + 0.1*float64(i), P99MS: 1 + float64(second)/4}
				})
				add(now, result.KindSample, m.ID, func(e *result.Event) {
					e.Sample = &result.Sample{Cores: map[string]float64{"app": 0.018 + 0.001*float64(second), "data": 0.01 * float64(i), "load": 0.006},
						Tasks: map[string]result.Reading{"echo-0/app": {At: now, CPU: int64(20e6 * (second + 1))}, "echo-0/sidecar": {At: now, CPU: int64(30e6 * (second + 1))}}}
				})
			}
		}
		for i, m := range members {
			if block == 2 && i == 1 {
				add(at.Add(8*time.Second), result.KindInvalid, m.ID, func(e *result.Event) {
					e.Message, e.Hint = "285 of 300 intended requests were answered within the measure phase (95.00 %, minimum 99.50 %)", "lower the rate, or raise connections"
				})
			}
			add(at.Add(8*time.Second), result.KindDone, m.ID, nil)
		}
	}
	return p, events
}

// shown is the screen after the events, with the headlines of the real report between trials.
func shown(t *testing.T, width, height int) *screen {
	t.Helper()
	p, events := interleaved(t)
	s := &screen{board: NewBoard(p), queue: &queue{}, plain: true, look: look{follow: true},
		clock: func() time.Time { return events[len(events)-1].Time }}
	for i, e := range events {
		if e.Kind == result.KindTrial && events[i-1].Kind == result.KindDone {
			s.queue.put(news{headline: stored.headlines[s.board.trial(events[i-1].Trial).Block-1]})
		}
		s.queue.put(news{event: &e})
	}
	press(s, tea.WindowSizeMsg{Width: width, Height: height})
	press(s, tick{})
	return s
}

func press(s *screen, msgs ...tea.Msg) {
	for _, m := range msgs {
		s.Update(m)
	}
}

func key(r rune) tea.Msg { return tea.KeyPressMsg{Code: r, Text: string(r)} }

func TestFrames(t *testing.T) {
	for _, size := range [][2]int{{40, 12}, {80, 24}, {120, 40}, {300, 80}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			s := shown(t, size[0], size[1])
			golden(t, s, fmt.Sprintf("frame-%dx%d.txt", size[0], size[1]))
		})
	}
}

// The first sentence about the trials so far is on the screen, and all of them are in a snapshot. A ranking is the grid.
func TestAnswerSoFar(t *testing.T) {
	two := []string{"Two envoy sidecars use 414 ±3 µs of CPU a request.", "The median response goes from 0.12 ms to 0.77 ms."}
	for _, c := range []struct {
		answer []string
		height int
		want   bool
	}{{two, 24, true}, {two, 20, false}, {[]string{"Least first:", "  envoy: 414 ±3 µs"}, 24, false}} {
		s := shown(t, 80, c.height)
		h := *s.board.headline
		h.Answer = c.answer
		s.board.headline = &h
		if got := s.View().Content; strings.Contains(got, c.answer[0]) != c.want || strings.Count(got, "\n") != c.height-1 {
			t.Errorf("%q: want %v in\n%s", c.answer, c.want, got)
		}
		if got := (&Watched{board: s.board}).Snapshot(t0).Answer; !slices.Equal(got, c.answer) {
			t.Errorf("snapshot %q", got)
		}
	}
}

// Without a screen the whole first result follows with the first interval, and again after twice as many blocks.
func TestAnswerInLines(t *testing.T) {
	p, events := interleaved(t)
	var out bytes.Buffer
	var asked []int
	v := New(&out, Options{Plan: p, Plain: true, Analyze: func(block int) (*answer.Report, error) {
		asked = append(asked, block)
		return answer.Analyze(quickstart(t), compare.Options{Blocks: block})
	}})
	defer v.Close()
	v.mu.Lock()
	v.silence = math.MaxInt64
	v.mu.Unlock()
	for _, e := range events {
		v.answers.cost = 0
		must.OK(t, v.Event(e))
	}
	got := out.String()
	_, after, found := strings.Cut(got, "\nafter 3 blocks: ")
	if !slices.Equal(asked, []int{3}) || !found || strings.Count(got, "\nafter ") != 1 {
		t.Fatalf("reports after blocks %v:\n%s", asked, got)
	}
	before, rest := got[:len(got)-len(after)], strings.Split(after, "\n")
	if strings.Count(before, "\ntrial ") != 15 || strings.Count(after, "\n  envoy") != 3 || len(rest) < 5 || !strings.HasPrefix(rest[4], "trial 16 of 30 ") {
		t.Errorf("not between blocks, or not three rows:\n%s", got)
	}
}

// While a run goes on, no sentence has the command of a longer run.
func TestAnswerSoFarHasNoCommand(t *testing.T) {
	r := must.Get(answer.Analyze(quickstart(t), compare.Options{}))(t)
	r.Decisions = []compare.Decision{{Gate: "cpu_us_per_request/data < +2%", Metric: "cpu_us_per_request/data", Treatment: "envoy-tcp", Baseline: "envoy", Outcome: compare.Undecided, Unit: "%", Upper: true, Limit: 2,
		Change: &stats.Interval{Estimate: 1}, Pairs: 6, Max: 6, MorePairs: 5, Minutes: 2}}
	const command = "would settle it: `"
	if ended := strings.Join(report.Answer(r), " "); !strings.Contains(ended, command) {
		t.Fatalf("no undecided gate: %s", ended)
	}
	if got := strings.Join(HeadlineOf(r).Answer, " "); got == "" || strings.Contains(got, command) {
		t.Errorf("%q", got)
	}
}

// The tutorial shows the frame of 80 columns.
func TestTutorialShowsTheScreen(t *testing.T) {
	page := must.Get(os.ReadFile("../../../docs/tutorial/first-answer.md"))(t)
	text := must.Get(os.ReadFile("testdata/frame-80x24.txt"))(t)
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(string(page), strings.TrimRight("    "+line, " \n")+"\n") {
			t.Errorf("the tutorial lacks %q", line)
		}
	}
}

// golden compares the frame with a file, and its size with the terminal's.
func golden(t *testing.T, s *screen, name string) {
	t.Helper()
	got := s.View().Content
	lines := strings.Split(got, "\n")
	if len(lines) != s.look.height {
		t.Errorf("%d lines, want %d", len(lines), s.look.height)
	}
	for i, line := range lines {
		if w := ansi.StringWidth(line); w > s.look.width {
			t.Errorf("line %d has %d columns of %d: %q", i+1, w, s.look.width, line)
		}
	}
	path := filepath.Join("testdata", name)
	if *update {
		must.OK(t, os.WriteFile(path, []byte(got+"\n"), 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
	if got+"\n" != string(want) {
		t.Errorf("the frame differs from %s (go test -update writes it):\n%s", path, got)
	}
}

// Every size between the smallest and the largest has its lines and no more columns.
func TestEverySize(t *testing.T) {
	s := shown(t, 80, 24)
	for _, keys := range [][]tea.Msg{nil, {tea.KeyPressMsg{Code: tea.KeyEnter}}, {tea.KeyPressMsg{Code: tea.KeyEscape}, key('l')}} {
		press(s, keys...)
		for width := 1; width <= 300; width += 13 {
			for height := 1; height <= 80; height += 5 {
				press(s, tea.WindowSizeMsg{Width: width, Height: height})
				lines := strings.Split(s.View().Content, "\n")
				if len(lines) != height {
					t.Fatalf("%dx%d: %d lines", width, height, len(lines))
				}
				for _, line := range lines {
					if w := ansi.StringWidth(line); w > width {
						t.Fatalf("%dx%d: %d columns: %q", width, height, w, line)
					}
				}
			}
		}
	}
}

func TestKeys(t *testing.T) {
	s := shown(t, 80, 24)
	has := func(want string) {
		t.Helper()
		if got := s.View().Content; !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	press(s, tea.KeyPressMsg{Code: tea.KeyUp}, tea.KeyPressMsg{Code: tea.KeyLeft}, tea.KeyPressMsg{Code: tea.KeyLeft})
	if got := s.look.cell(s.board); got != (cell{"none-control", 3}) {
		t.Errorf("chosen: %v", got)
	}
	press(s, tea.KeyPressMsg{Code: tea.KeyEnter})
	has("none-control")
	has("valid  block 3")
	has("Phases: deploy 1.0 s, measure 7.0 s")
	press(s, tea.KeyPressMsg{Code: tea.KeyEscape}, tea.KeyPressMsg{Code: tea.KeyEscape})
	if !s.look.follow {
		t.Error("esc does not follow the run again")
	}
	press(s, key('l'))
	has("285 of 300 intended requests were answered")
	has("hint: lower the rate")
	press(s, key('l'))
	has("BLOCKS")
	for _, k := range []rune{'?', 'h'} {
		press(s, key(k))
		has("hold this display")
		press(s, key(k))
		has("BLOCKS")
	}

	press(s, tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
	s.queue.put(news{event: &result.Event{Time: t0, Kind: result.KindLog, Message: "later"}})
	press(s, tick{})
	has("display paused, the run continues")
	if strings.Contains(s.View().Content, "later") {
		t.Error("the paused view changed")
	}
	press(s, tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
	has("later")

	_, cmd := s.Update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
	if cmd == nil || !s.ending {
		t.Error("ctrl+c does not end the screen")
	}
}

// A report uses CPU, so none is made while a trial is deployed.
func TestReportsAreMadeBetweenTrials(t *testing.T) {
	p, events := interleaved(t)
	deployed, made := map[string]bool{}, 0
	var due answers
	o := Options{Plan: p, Analyze: func(int) (*answer.Report, error) {
		made++
		if len(deployed) > 0 {
			t.Errorf("a report while %v are deployed", deployed)
		}
		return nil, os.ErrNotExist
	}}
	for _, e := range events {
		due.cost = 0
		due.before(e, o)
		switch e.Kind {
		case result.KindTrial:
			deployed[e.Trial] = true
		case result.KindDone:
			delete(deployed, e.Trial)
		}
	}
	if made != 4 {
		t.Errorf("%d reports between 5 blocks", made)
	}
	due.cost = time.Hour
	due.before(result.Event{Kind: result.KindDone, Trial: p.Trials[0].ID}, o)
	due.before(result.Event{Kind: result.KindTrial, Trial: p.Trials[1].ID}, o)
	if made != 4 {
		t.Error("reports take more than their part of the run's time")
	}
}

// The rate and the errors of a trial that has ended are those of its report, not of its last second.
func TestEndedTrialHasTheRateOfItsReport(t *testing.T) {
	p := plan.Plan{Treatments: []plan.Treatment{{ID: "none"}}, Trials: []plan.Trial{{ID: "001", Treatment: "none", Block: 1, Ordinal: 1}}}
	b := NewBoard(p)
	for _, e := range []result.Event{{Kind: result.KindTrial}, {Kind: result.KindPhase, Phase: measurePhase},
		{Kind: result.KindProgress, Progress: &result.Progress{AskedRate: 60, Rate: 54, P50MS: 1, P99MS: 2}}, {Kind: result.KindDone, Total: &result.Total{Rate: 60, Errors: 7}}} {
		e.Time, e.Trial = t0, "001"
		if b.Apply(e); e.Kind == result.KindProgress {
			must.Contain(t, strings.Join(drawing{painter{true}, b, look{width: 80, follow: true}, t0}.loadLines(), "\n"), " 54 ")
		}
	}
	d := drawing{painter{true}, b, look{width: 80, treatment: "none", block: 1}, t0}
	if line := strings.Fields(d.loadLine(b.trial("001"), 8, true)); len(line) < 4 || line[2] != "60" || line[3] != "7" {
		t.Errorf("%q", line)
	}
}

// Names and messages of others cannot move the cursor or color the screen.
func TestControlsAreNotDrawn(t *testing.T) {
	p := plan.Plan{Experiment: "x\x1b[2Jy", Blocks: 1, Treatments: []plan.Treatment{{ID: "a\x1b[31m"}}, Trials: []plan.Trial{{ID: "001", Treatment: "a\x1b[31m", Block: 1, Ordinal: 1}}}
	b := NewBoard(p)
	b.Apply(result.Event{Time: t0, Kind: result.KindTrial, Trial: "001"})
	b.Apply(result.Event{Time: t0, Kind: result.KindInvalid, Trial: "001", Message: "bad\x1b]0;title\x07\nnext"})
	for _, page := range []page{overview, trialPage, logPage} {
		for _, line := range frame(b, look{width: 80, height: 24, follow: true, page: page}, true, t0) {
			if strings.ContainsAny(line, "\x1b\x07\n") {
				t.Errorf("a control in %q", line)
			}
		}
	}
}

// Without color every state of a trial has a mark of its own.
func TestMarksDifferWithoutColor(t *testing.T) {
	seen := map[string]Status{}
	for status, m := range marks {
		if other, twice := seen[m.shape]; twice {
			t.Errorf("%v and %v are both %s", status, other, m.shape)
		}
		seen[m.shape] = status
	}
}

// A warning that no A/A pair was run waits for the trials of the plan's pair.
func TestPrematureWarnings(t *testing.T) {
	warn := []figures.Warning{{Code: "no-floor", Message: "no pair"}, {Code: "few-trials", Message: "few"}, {Code: "generator-late", Message: "late"}}
	for control, want := range map[bool]int{true: 1, false: 2} {
		b := NewBoard(plan.Plan{Treatments: []plan.Treatment{{ID: "none"}, {ID: "x", Control: control}}})
		b.Answer(&Headline{Warnings: warn})
		if len(b.messages) != want {
			t.Errorf("control %v: %d messages: %v", control, len(b.messages), b.messages)
		}
	}
}

// A warning that later trials refute goes, and comes again if they do not.
func TestRefutedWarning(t *testing.T) {
	differs := &Headline{Warnings: []figures.Warning{{Code: "aa-differs", Message: "the A/A pair differs"}}}
	b := NewBoard(plan.Plan{})
	for i, step := range []struct {
		headline *Headline
		messages int
	}{{differs, 1}, {differs, 1}, {&Headline{}, 0}, {differs, 1}} {
		if b.Answer(step.headline); len(b.messages) != step.messages {
			t.Errorf("report %d: %d messages, want %d: %v", i+1, len(b.messages), step.messages, b.messages)
		}
	}
}

// A resumed run has the difference of what was recorded before its first trial.
func TestResumedRunHasItsDifference(t *testing.T) {
	r := must.Get(answer.Analyze(quickstart(t), compare.Options{}))(t)
	o := Options{Analyze: func(int) (*answer.Report, error) { return r, nil }}
	begins := result.Event{Kind: result.KindTrial, Trial: "8-none-b2"}
	if new(answers).before(begins, o) != nil {
		t.Error("a new run has a difference before its first trial")
	}
	o.Recorded = []result.Record{{Block: 1}}
	if h := new(answers).before(begins, o); h == nil || len(h.Of) == 0 {
		t.Errorf("%+v", h)
	}
}

// A replay gives every event in order, and skips long gaps.
func TestReplay(t *testing.T) {
	d := quickstart(t)
	var out bytes.Buffer
	v := New(&out, Options{Plain: true})
	_ = v.Event(d.Opening(5 * time.Second))
	must.OK(t, NewPlayer(0).Play(t.Context(), d.Replay(), v))
	v.Close()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if want := 1 + len(d.Plan().Trials); len(lines) != want {
		t.Errorf("%d lines, want %d:\n%s", len(lines), want, out.String())
	}
	if got := lines[len(lines)-1]; !strings.HasPrefix(got, "trial 30 of 30") {
		t.Errorf("the last line is %q", got)
	}
}

// The clock of a replay stands while it is paused.
func TestPausedReplay(t *testing.T) {
	p := NewPlayer(1024)
	must.OK(t, p.until(t.Context(), t0))
	p.pause(true)
	was := p.Now()
	reached := make(chan error, 1)
	go func() { reached <- p.until(t.Context(), t0.Add(9*time.Second)) }()
	select {
	case <-reached:
		t.Fatal("a paused replay went on")
	case <-time.After(50 * time.Millisecond): // 51 s of the replay
	}
	if p.Now() != was {
		t.Error("the clock went on")
	}
	p.pause(false)
	if err := <-reached; err != nil {
		t.Fatal(err)
	}
}
