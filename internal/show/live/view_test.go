package live

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

var t0 = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// story is a run of three trials, the second of which is invalid.
func story() []result.Event {
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	return []result.Event{
		{Time: at(0), Kind: result.KindRun, Run: &result.Run{Experiment: "quickstart", Dir: "runs/q", Trials: 3, TrialTime: 8 * time.Second}},
		{Time: at(0), Kind: result.KindTrial, Trial: "001-none-b1"},
		{Time: at(1), Kind: result.KindPhase, Trial: "001-none-b1", Phase: "measure"},
		{Time: at(2), Kind: result.KindProgress, Trial: "001-none-b1", Progress: &result.Progress{Second: 1, Rate: 999.6, P50MS: 0.123}},
		{Time: at(2), Kind: result.KindSample, Trial: "001-none-b1", Sample: &result.Sample{Cores: map[string]float64{"app": 0.051, "load": 0.11}}},
		{Time: at(9), Kind: result.KindPhase, Trial: "001-none-b1", Phase: "drain"},
		{Time: at(9), Kind: result.KindSample, Trial: "001-none-b1", Sample: &result.Sample{Cores: map[string]float64{"app": 0.02}}}, // idle
		{Time: at(10), Kind: result.KindDone, Trial: "001-none-b1", Total: &result.Total{Rate: 1000.2}},                              // of the record, unlike its seconds
		{Time: at(10), Kind: result.KindTrial, Trial: "002-envoy-b1"},
		{Time: at(12), Kind: result.KindInvalid, Trial: "002-envoy-b1", Message: "the data plane is not in the path", Hint: "look at provenance/"},
		{Time: at(12), Kind: result.KindDone, Trial: "002-envoy-b1"},
		{Time: at(12), Kind: result.KindTrial, Trial: "003-none-b2"},
		{Time: at(13), Kind: result.KindPhase, Trial: "003-none-b2", Phase: "warm up"},
	}
}

// Faults and changes are whole in 80 columns.
func TestEventsOfATrialFit(t *testing.T) {
	b := NewBoard(plan.Plan{Trials: []plan.Trial{{ID: "001-none-b1", Treatment: "none", Block: 1}}, Treatments: []plan.Treatment{{ID: "none"}}})
	for _, e := range append(story()[:4], result.Event{Kind: result.KindFault, Trial: "001-none-b1", Message: "kill of server-0"},
		result.Event{Kind: result.KindFault, Trial: "001-none-b1", Message: "scale of server by -1, 1 of 10 replicas"},
		result.Event{Kind: result.KindChange, Trial: "001-none-b1", Message: "route-changed, accepted after 1.3 ms"}) {
		b.Apply(e)
	}
	lines := strings.Join(frame(b, look{width: 80, height: 24, follow: true}, true, t0.Add(3*time.Second)), "\n")
	must.Contain(t, lines, "\n  fault: scale of server by -1, 1 of 10 replicas", "\n  change 1: route-changed, accepted after 1.3 ms")
	if strings.Contains(lines, "fault: kill of") {
		t.Errorf("an earlier fault takes room:\n%s", lines)
	}
}

func TestPlainLinesTellTheStory(t *testing.T) {
	var out bytes.Buffer
	v := New(&out, Options{Plain: true})
	for _, e := range story() {
		must.OK(t, v.Event(e))
	}
	v.Close()
	want := `quickstart: 3 trials, about 24s, into runs/q
trial 1 of 3  001-none-b1  1000 req/s  no errors  cores: app 0.05 load 0.11  20s left
002-envoy-b1: invalid: the data plane is not in the path
hint: look at provenance/
trial 2 of 3  002-envoy-b1  6s left
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Without a terminal a trial shows that it goes on: 2 s after the last line, and then ever less often.
func TestLinesOfALongTrial(t *testing.T) {
	var out bytes.Buffer
	v := New(&out, Options{Plain: true})
	defer v.Close()
	v.mu.Lock()
	defer v.mu.Unlock()
	var seconds []int
	for _, e := range story()[:4] {
		v.board.Apply(e)
	}
	v.written = t0
	for second := range 147 {
		before := out.Len()
		if v.speak(t0.Add(time.Duration(second) * time.Second)); out.Len() > before {
			seconds = append(seconds, second)
		}
	}
	if want := []int{2, 6, 14, 30, 62, 122}; !slices.Equal(seconds, want) {
		t.Errorf("lines at %d s, want %d:\n%s", seconds, want, out.String())
	}
	must.Contain(t, out.String(), "1/3  001-none-b1  measure  22s left  1000 req/s  no errors  p50 0.12 ms")
}

// The measured counter refresh interval corrects the remaining time before the first trial.
func TestTimesCorrected(t *testing.T) {
	s := NewBoard(plan.Plan{})
	s.Apply(story()[0])
	for trial, want := range map[time.Duration]string{2 * time.Second: "about 6s in all, since trials take longer than planned or end sooner", 2100 * time.Millisecond: ""} {
		s.run.TrialTime = 8 * time.Second
		if want == "" {
			s.run.TrialTime = 2 * time.Second
		}
		lines := s.Apply(result.Event{Time: t0, Kind: result.KindTimes, Run: &result.Run{Trials: 3, TrialTime: trial}})
		if got := strings.Join(lines, "\n"); got != want || s.run.TrialTime != trial || s.run.Trials != 3 {
			t.Errorf("%q, want %q; %+v", got, want, s.run)
		}
	}
}

// A run that ends with a decision has no more than its limit, and time for the trials that run.
func TestLeftWithinALimit(t *testing.T) {
	for _, c := range []struct{ within, after, want time.Duration }{
		{0, 10 * time.Second, 790 * time.Second}, {10 * time.Minute, 10 * time.Second, 590 * time.Second},
		{time.Hour, 10 * time.Second, 790 * time.Second}, {time.Minute, 58 * time.Second, 8 * time.Second},
	} {
		s := NewBoard(plan.Plan{})
		s.Apply(result.Event{Time: t0, Kind: result.KindRun, Run: &result.Run{Trials: 100, TrialTime: 8 * time.Second, Within: c.within}})
		s.nth, s.trialAt = 100, t0
		if got := s.left(t0.Add(c.after)); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestLiveLine(t *testing.T) {
	s := NewBoard(plan.Plan{})
	for _, e := range story()[:5] {
		s.Apply(e)
	}
	now := t0.Add(3 * time.Second)
	want := "1/3  001-none-b1  measure  21s left  1000 req/s  no errors  p50 0.12 ms  cores: app 0.05 load 0.11"
	if got := s.live(now, 200); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, width := range []int{2, 10, 40, 80} {
		if got := []rune(s.live(now, width)); len(got) > width-1 {
			t.Errorf("width %d: %d columns: %q", width, len(got), string(got))
		}
	}
	if got := s.live(now, 40); !strings.HasSuffix(got, "…") {
		t.Errorf("a cut line has no ellipsis: %q", got)
	}
}

// A search shows its probe until the next phase.
func TestSearchInSight(t *testing.T) {
	b := NewBoard(plan.Plan{Trials: []plan.Trial{{ID: "001-none-b1", Treatment: "none", Block: 1}}})
	for _, e := range story()[:2] {
		b.Apply(e)
	}
	for _, test := range []struct {
		event result.Event
		want  string
	}{
		{result.Event{Kind: result.KindPhase, Phase: "search"}, "search"},
		{result.Event{Kind: result.KindSearch, Search: &result.Search{Probes: 12}}, "search: closed loop"},
		{result.Event{Kind: result.KindSearch, Search: &result.Search{Probe: 7, Probes: 12, Rate: 3210.4}}, "search 7 of 12, 3210 req/s"},
		{result.Event{Kind: result.KindPhase, Phase: "warm-up"}, "warm-up"},
	} {
		test.event.Time, test.event.Trial = t0.Add(time.Second), "001-none-b1"
		b.Apply(test.event)
		if got := b.place(t0.Add(time.Second)); got[len(got)-1] != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
		if got := b.live(t0.Add(time.Second), 200); !strings.Contains(got, "  "+test.want+"  ") && !strings.HasSuffix(got, "  "+test.want) {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// The time left never goes below nothing for a trial that takes longer than the others.
func TestTimeLeftOfAnOverdueTrial(t *testing.T) {
	s := NewBoard(plan.Plan{})
	for _, e := range story() {
		s.Apply(e)
	}
	if left := s.left(t0.Add(time.Hour)); left != 0 {
		t.Errorf("left = %v, want 0", left)
	}
}

func TestResumedRunCountsFromWhatIsRecorded(t *testing.T) {
	s := NewBoard(plan.Plan{})
	lines := s.Apply(result.Event{Time: t0, Kind: result.KindRun,
		Run: &result.Run{Experiment: "q", Trials: 10, Recorded: 7, TrialTime: 10 * time.Second}})
	if want := "q: 10 trials, about 30s, 7 already recorded"; len(lines) != 1 || lines[0] != want {
		t.Errorf("got %q, want %q", lines, want)
	}
	s.Apply(result.Event{Time: t0, Kind: result.KindTrial, Trial: "008-none-b3"})
	if got := s.live(t0, 100); !strings.HasPrefix(got, "8/10  008-none-b3") {
		t.Errorf("got %q", got)
	}
}

// The trials of a round begin together; each has figures and a closing line of its own, and the
// time left counts the round once.
func TestRound(t *testing.T) {
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	s := NewBoard(plan.Plan{})
	var lines []string
	share := 0.3
	for _, e := range []result.Event{
		{Time: at(0), Kind: result.KindRun, Run: &result.Run{Experiment: "q", Trials: 4, TrialTime: 8 * time.Second}},
		{Time: at(0), Kind: result.KindTrial, Trial: "001-none-b1"},
		{Time: at(0), Kind: result.KindTrial, Trial: "002-envoy-b1"},
		{Time: at(1), Kind: result.KindPhase, Trial: "001-none-b1", Phase: "measure"},
		{Time: at(1), Kind: result.KindPhase, Trial: "002-envoy-b1", Phase: "measure"},
		{Time: at(2), Kind: result.KindProgress, Trial: "001-none-b1", Progress: &result.Progress{Second: 1, Rate: 1000}},
		{Time: at(2), Kind: result.KindProgress, Trial: "002-envoy-b1", Progress: &result.Progress{Second: 1, Rate: 297, Loaded: &share, Errors: 1, P50MS: 0.5}},
	} {
		lines = append(lines, s.Apply(e)...)
	}
	if got, want := s.live(at(2), 200), "1-2/4  2 trials at once  measure  30s left  990 req/s  1 error  p50 0.50 ms"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	lines = append(lines, s.Apply(result.Event{Time: at(20), Kind: result.KindDone, Trial: "001-none-b1", Total: &result.Total{Rate: 150}})...)
	lines = append(lines, s.Apply(result.Event{Time: at(20), Kind: result.KindDone, Trial: "002-envoy-b1", Total: &result.Total{Rate: 150.4, Errors: 2}})...)
	want := []string{"q: 4 trials, about 32s",
		"trial 1 of 4  001-none-b1  150 req/s  no errors",
		"trial 2 of 4  002-envoy-b1  150 req/s  2 errors  20s left"}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	s.Apply(result.Event{Time: at(20), Kind: result.KindTrial, Trial: "003-none-b2"})
	if got := s.live(at(20), 100); !strings.HasPrefix(got, "3/4  003-none-b2  deploy") {
		t.Errorf("got %q", got)
	}
}

// A reason that trials of a round share is printed once. The next round prints it again.
func TestReasonsOfARound(t *testing.T) {
	b := NewBoard(plan.Plan{})
	of := func(kind, trial, message string) (lines []string) {
		return b.Apply(result.Event{Time: t0, Kind: kind, Trial: trial, Phase: "measure", Message: message, Hint: map[string]string{"stalled": "run it again"}[message]})
	}
	var lines []string
	for _, round := range []string{"1", "2"} {
		for _, mesh := range []string{"none", "envoy", "nginx", "caddy"} {
			of(result.KindTrial, mesh+"-b"+round, "")
		}
		of(result.KindPhase, "none-b"+round, "")
		for _, x := range [][2]string{{"none", "stalled"}, {"envoy", "stalled"}, {"nginx", "errors"}, {"caddy", "errors"}} {
			lines = append(lines, of(result.KindInvalid, x[0]+"-b"+round, x[1])...)
		}
	}
	first := []string{"none-b1: invalid: stalled", "hint: run it again", "envoy-b1: invalid, as none-b1", "nginx-b1: invalid: errors", "caddy-b1: invalid, as nginx-b1"}
	want := strings.Join(first, "\n")
	if got := strings.Join(lines, "\n"); got != want+"\n"+strings.ReplaceAll(want, "-b1", "-b2") {
		t.Errorf("got\n%s", got)
	}
	if m := b.messages[1]; m.Text != "invalid: stalled" || m.Hint != "run it again" {
		t.Errorf("the screen has not the whole reason of each trial: %+v", m)
	}
}

// Spare blocks, for repetitions of invalid trials, are drawn as they begin.
func TestSpareBlocks(t *testing.T) {
	p := plan.Plan{Until: "valid", MinBlocks: 2, Blocks: 4, Treatments: []plan.Treatment{{ID: "none"}}}
	for block := range 4 {
		p.Trials = append(p.Trials, plan.Trial{ID: fmt.Sprintf("none-b%d", block+1), Treatment: "none", Block: block + 1})
	}
	b := NewBoard(p)
	if got := b.Blocks(); got != 2 {
		t.Errorf("%d blocks before the run, want 2", got)
	}
	b.Apply(result.Event{Kind: result.KindTrial, Trial: "none-b3"})
	if got := b.Blocks(); got != 3 {
		t.Errorf("%d blocks with a repetition, want 3", got)
	}
}

// Treatments have the names of reports. The first report has the names of levels.
func TestNamesOfTreatments(t *testing.T) {
	at := func(mesh string) plan.Factors { return plan.Factors{"mesh": mesh, "rate": 100.0} }
	control := at("none")
	control[plan.ControlFactor] = true
	p := plan.Plan{Treatments: []plan.Treatment{{ID: "none-rate100", Factors: at("none")}, {ID: "none-rate100-control", Factors: control, Control: true, Baseline: "none-rate100"}, {ID: "envoy-rate100", Factors: at("envoy")}}}
	b := NewBoard(p)
	names := func() (all []string) {
		for _, of := range p.Treatments {
			all = append(all, b.rowName(of))
		}
		return all
	}
	if got, want := names(), []string{"no mesh", "no mesh (again)", "envoy"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	b.Answer(&Headline{Levels: map[string]string{"envoy": "new build"}})
	if got := names()[2]; got != "new build" {
		t.Error(got)
	}
}
