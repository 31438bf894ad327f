package answer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/stats"
)

// reportWarnings are one line a code for the whole report, the gravest first.
func reportWarnings(run *compare.Run, r *Report) []figures.Warning {
	ws := append([]figures.Warning{}, answersDiffer(run)...)
	imported := run.File.Platform.Kind == compare.ImportPlatform
	if imported {
		ws = append(ws, importWarnings(run)...)
	} else {
		ws = append(ws, floorWarnings(r)...)
	}
	ws = append(ws, orderWarnings(run)...)
	ws = append(ws, unequal(run)...)
	ws = append(ws, foreign(run)...)
	ws = append(ws, lostTrials(run, r.Count)...)
	ws = append(ws, short(r.Treatments)...)
	ws = append(ws, memoryGrows(r.Treatments)...)
	ws = append(ws, outsideDiffers(r.Comparisons)...)
	ws = append(ws, r.Stopping.warnings()...)
	var t figures.Tally
	for _, trial := range r.Trials {
		if trial.Error != "" {
			continue
		}
		for _, w := range trial.Warnings {
			if !imported || w.Code != "tasks-unknown" { // a load generator measures no tasks
				t.Add(trial.ID, w)
			}
		}
	}
	return append(ws, t.Warnings()...)
}

func floorWarnings(r *Report) []figures.Warning {
	if len(r.Floor) == 0 {
		return []figures.Warning{{Code: "no-floor", Message: "the baseline was not measured twice: the noise is unknown",
			Hint: "measure the baseline twice: `control: true` in the experiment file"}}
	}
	var differ []string
	for _, f := range r.Floor {
		if f.Verdict == compare.Higher || f.Verdict == compare.Lower {
			differ = append(differ, f.Metric)
		}
	}
	if differ == nil {
		return nil
	}
	return []figures.Warning{{Code: "aa-differs", Metrics: differ,
		Message: "the baseline differs from itself, but must not: " + printable.Listed(differ, 4) + "; ignore differences of that size elsewhere",
		Hint:    "the machine was not steady: stop other programs, pin CPUs, warm up longer, run more blocks; `tare doctor` searches for the cause"}}
}

// lostTrials names the planned trials that no estimate uses.
func lostTrials(run *compare.Run, c compare.Count) []figures.Warning {
	var invalid []string
	var failed causes
	for _, t := range run.Trials {
		switch {
		case t.Error != "":
			failed.add(t.ID, headOf(t.Error), t.Warnings)
		case !t.Valid:
			invalid = append(invalid, t.ID+reasons(&t.Trial))
		}
	}
	var ws []figures.Warning
	if len(failed) > 0 {
		ws = append(ws, figures.Warning{Code: "failed-trials", Trials: c.Failed,
			Message: "left out of every figure: " + failed.listed(3),
			Hint:    failed.hint() + "the logs are in each trial's provenance directory"})
	}
	if len(invalid) > 0 {
		ws = append(ws, figures.Warning{Code: "invalid-trials", Trials: c.Invalid,
			Message: "left out of every estimate: " + printable.Listed(invalid, 3),
			Hint:    "the reasons and fixes are among the warnings below"})
	}
	if c.Missing > 0 {
		ws = append(ws, figures.Warning{Code: "missing-trials", Trials: c.Missing,
			Message: "not recorded: the run is in progress, or was interrupted",
			Hint:    "finish it with `tare run --resume DIR`"})
	}
	return ws
}

// cause is the error of a trial, and the number of others with the same text but for words with digits: names and numbers.
type cause struct {
	trial, text, pattern string
	hint                 string // "": none
	more                 int
}

type causes []cause

func (c *causes) add(trial, text string, of []figures.Warning) {
	words := slices.DeleteFunc(strings.Fields(text), func(word string) bool { return strings.ContainsAny(word, "0123456789") })
	pattern := strings.Join(words, " ")
	for i := range *c {
		if (*c)[i].pattern == pattern {
			(*c)[i].more++
			return
		}
	}
	one := cause{trial: trial, text: text, pattern: pattern}
	if i := slices.IndexFunc(of, func(w figures.Warning) bool { return w.Code == "failed" }); i >= 0 {
		one.hint = of[i].Hint
	}
	*c = append(*c, one)
}

// hint returns the first hint of a cause, ready to precede further text.
func (c causes) hint() string {
	for _, one := range c {
		if one.hint != "" {
			return one.hint + "; "
		}
	}
	return ""
}

// listed names at most n causes.
func (c causes) listed(n int) string {
	if more := len(c) - n; more > 0 {
		word := "causes"
		if more == 1 {
			word = "cause"
		}
		return fmt.Sprintf("%s and %d more %s", strings.Join(c.texts()[:n], ", "), more, word)
	}
	return strings.Join(c.texts(), ", ")
}

func (c causes) texts() (all []string) {
	for _, one := range c {
		trials := one.trial
		if one.more > 0 {
			trials += fmt.Sprintf(" and %d more", one.more)
		}
		all = append(all, trials+": "+one.text)
	}
	return all
}

// headOf is the first line of an error, the first of its causes, which are indented below it, and the last line of the
// log below that.
func headOf(s string) string {
	line, rest, _ := strings.Cut(s, "\n")
	cause, log, _ := strings.Cut(rest, "\n")
	if !strings.HasPrefix(cause, "  ") {
		return line
	}
	line += ": " + strings.TrimSpace(cause)
	last := ""
	for below := range strings.Lines(log) {
		logged, ok := strings.CutPrefix(strings.TrimSpace(below), "| ")
		if !ok {
			break
		}
		last = logged
	}
	if last != "" {
		line += "; its log ends: " + last
	}
	return line
}

// reasons are the causes that made the trial invalid.
func reasons(t *figures.Trial) string {
	var words []string
	for _, w := range t.Warnings {
		if cause := figures.Cause(w.Code); w.Invalidates && !slices.Contains(words, cause) {
			words = append(words, cause)
		}
	}
	if words == nil {
		return " (no reason recorded)"
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// short names the treatments that have too few valid trials.
func short(ts []compare.Treatment) []figures.Warning {
	var few []string
	for _, t := range ts {
		if t.N < stats.MinN {
			few = append(few, fmt.Sprintf("%s has %d", t.ID, t.N))
		}
	}
	if few == nil {
		return nil
	}
	return []figures.Warning{{Code: "few-trials", Message: fmt.Sprintf("an interval needs %d valid trials: %s", stats.MinN, printable.Listed(few, 4)),
		Hint: compare.MoreBlocks}}
}
