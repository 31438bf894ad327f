package live

import (
	"fmt"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// state is the sum of the events so far. It draws itself without a clock
// and no terminal, so that a stored run replays exactly.
type state struct {
	run      result.Run
	trial    string
	nth      int // trials begun, recorded ones of an earlier run included
	done     int
	problems int // trials failed or invalid
	phase    string
	began    time.Time        // of the first trial of this run
	progress *result.Progress // the last second
	measured []float64        // answers in each second of the measure phase
	errors   int64            // in the measure phase
	cores    map[string]float64
	spent    time.Duration // of finished trials of this run
	trialAt  time.Time
	finished int // trials of this run, for the mean duration
}

// apply folds one event in and returns the lines that remain.
func (s *state) apply(e result.Event) []string {
	switch e.Kind {
	case result.KindRun:
		if e.Run != nil {
			s.run = *e.Run
			s.nth, s.done = e.Run.Recorded, e.Run.Recorded
			return []string{s.opening()}
		}
	case result.KindTrial:
		s.nth++
		s.trial, s.phase, s.trialAt = e.Trial, "deploy", e.Time
		s.progress, s.cores, s.measured, s.errors = nil, nil, nil, 0
		if s.began.IsZero() {
			s.began = e.Time
		}
	case result.KindPhase:
		s.phase = e.Phase
	case result.KindProgress:
		s.progress = e.Progress
		if s.phase == "measure" && e.Progress != nil {
			s.measured = append(s.measured, e.Progress.Rate)
			s.errors += e.Progress.Errors
		}
	case result.KindSample:
		if e.Sample != nil && e.Sample.Cores != nil {
			s.cores = e.Sample.Cores
		}
	case result.KindError, result.KindInvalid:
		if e.Kind == result.KindError || e.Trial != "" {
			s.problems++
		}
		lines := []string{fmt.Sprintf("%s: %s: %s", e.Trial, failure[e.Kind], e.Message)}
		if e.Hint != "" {
			lines = append(lines, "hint: "+e.Hint)
		}
		return lines
	case result.KindLog:
		lines := []string{e.Message}
		if e.Hint != "" {
			lines = append(lines, "hint: "+e.Hint)
		}
		return lines
	case result.KindDone:
		s.done++
		s.finished++
		s.spent += e.Time.Sub(s.trialAt)
		return []string{s.closing(e.Time)}
	}
	return nil
}

var failure = map[string]string{result.KindError: "failed", result.KindInvalid: "invalid"}

func (s *state) opening() string {
	left := time.Duration(s.run.Trials-s.run.Recorded) * s.run.TrialTime
	text := fmt.Sprintf("%s: %d trials, about %s", s.run.Experiment, s.run.Trials, round(left))
	if s.run.Recorded > 0 {
		text += fmt.Sprintf(", %d already recorded", s.run.Recorded)
	}
	if s.run.Dir != "" {
		text += ", into " + s.run.Dir
	}
	return text
}

// closing is the line a trial leaves behind.
func (s *state) closing(now time.Time) string {
	parts := []string{fmt.Sprintf("trial %*d of %d  %s", len(fmt.Sprint(s.run.Trials)), s.nth, s.run.Trials, s.trial)}
	if len(s.measured) > 0 {
		parts = append(parts, fmt.Sprintf("%.0f req/s  %s", mean(s.measured), count(s.errors, "error")))
	}
	if c := s.planes(); c != "" {
		parts = append(parts, c)
	}
	if left := s.left(now); left > 0 {
		parts = append(parts, round(left).String()+" left")
	}
	return strings.Join(parts, "  ")
}

// live is the line redrawn in place: the most perishable news first, cut to width.
func (s *state) live(now time.Time, width int) string {
	if s.trial == "" {
		return ""
	}
	parts := []string{fmt.Sprintf("%d/%d", s.nth, s.run.Trials), s.trial, s.phase}
	if left := s.left(now); left > 0 {
		parts = append(parts, round(left).String()+" left")
	}
	if s.progress != nil {
		parts = append(parts, s.load())
	}
	if c := s.planes(); c != "" {
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

func (s *state) load() string {
	p := s.progress
	return fmt.Sprintf("%.0f req/s  %s  p50 %.2f ms", p.Rate, count(p.Errors, "error"), p.P50MS)
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

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// planes is CPU by plane in cores, in the order of all reports.
func (s *state) planes() string {
	var parts []string
	for _, plane := range metric.Planes() {
		if c, ok := s.cores[string(plane)]; ok && c >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s %.2f", plane, c))
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
	if s.nth > s.done {
		left -= min(now.Sub(s.trialAt), each)
	}
	return left
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Minute {
		return d.Round(time.Minute)
	}
	return d.Round(time.Second)
}
