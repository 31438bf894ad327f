package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// state is the place in the run.
type state struct {
	run       result.Run
	running   []*Trial // begun and not done: several in a round
	nth       int      // trials begun, recorded ones of an earlier run included
	done      int
	problems  int           // trials failed or invalid
	beginning bool          // trials begin, and none is in a phase
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
			s.run = *e.Run
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
		lines := []string{fmt.Sprintf("%s: %s: %s", e.Trial, failure[e.Kind], e.Message)}
		if e.Hint != "" {
			lines = append(lines, "hint: "+e.Hint)
		}
		return lines
	case result.KindLog, result.KindByHand:
		lines := []string{e.Message}
		if e.Hint != "" {
			lines = append(lines, "hint: "+e.Hint)
		}
		return lines
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
		s.running = nil
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
	if (trial - before).Abs() <= before/10 {
		return nil
	}
	return []string{fmt.Sprintf("about %s in all, since trials take longer than planned or end sooner", round(time.Duration(s.run.Trials-s.run.Recorded)*trial))}
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

// left is the remaining time: by the mean of the trials so far once there is one, else by the plan.
func (s *state) left(now time.Time) time.Duration {
	each := s.run.TrialTime
	if s.finished > 0 {
		each = s.spent / time.Duration(s.finished)
	}
	left := time.Duration(s.run.Trials-s.done) * each
	if n := s.nth - s.done; n > 0 {
		left -= min(now.Sub(s.trialAt), time.Duration(n)*each)
	}
	return left
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Minute {
		return d.Round(time.Minute)
	}
	return d.Round(time.Second)
}
