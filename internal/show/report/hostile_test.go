package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/answer/effective"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// hostile sets the title of a terminal, clears its screen by a C1 control and
// reverses what follows.
const hostile = "x\x1b]0;owned\x07\u009b2J\u202eevil"

// No format passes on terminal escapes and bidirectional controls of names,
// messages and machines.
func TestHostileNames(t *testing.T) {
	s := answertest.Quickstart()
	s.Name, s.Blocks = "hostile", 3
	s.Treatments = s.Treatments[:3]
	s.Treatments[2].Factors = plan.Factors{"mesh": hostile}
	s.Change = func(r *result.Record) {
		if r.Block == 1 && r.Treatment == "none" {
			r.Valid, r.Error = false, "died: "+hostile
		}
		r.Warnings = append(r.Warnings, result.Warning{Code: "cpu-stolen", Message: hostile, Hint: hostile})
	}
	d := s.Write(t, t.TempDir())
	r := must.Get(answer.Analyze(d, compare.Options{}))(t)
	r.Experiment, r.Description, r.Setup.CPUModel, r.Setup.Kernel, r.Setup.Tare = hostile, hostile, hostile, hostile, hostile
	check := func(format string, write func(*bytes.Buffer) error) {
		t.Helper()
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		text := b.String()
		if printable.Text(text) != text {
			t.Errorf("%s has controls:\n%q", format, text)
		}
		if format == "json" {
			if !json.Valid(b.Bytes()) || !strings.Contains(text, `\u202e`) {
				t.Errorf("JSON: valid %v:\n%.300s", json.Valid(b.Bytes()), text)
			}
		} else if !strings.Contains(text, "evil") {
			t.Errorf("%s does not have the name at all: the test is vacuous", format)
		}
	}
	r.Decisions = []compare.Decision{{Gate: hostile, Metric: hostile, Treatment: hostile, Baseline: hostile, Unit: hostile, Outcome: compare.Undecided, Why: hostile}}
	r.Configurations = []answer.Configuration{{A: hostile, B: hostile, Versions: [2]string{hostile, ""}, Differences: []effective.Difference{{Files: []string{hostile}, Path: hostile, A: hostile, B: hostile}}}}
	for _, f := range Formats(Options{All: true}) {
		if f.Write != nil {
			check(f.Name, func(b *bytes.Buffer) error { return f.Write(b, r) })
		}
	}
	check("text with colours", func(b *bytes.Buffer) error {
		var c bytes.Buffer
		err := Formats(Options{Color: true})[0].Write(&c, r)
		b.WriteString(strings.NewReplacer("\x1b[1m", "", "\x1b[2m", "", "\x1b[1;33m", "", "\x1b[0m", "").Replace(c.String()))
		return err
	})
	across := must.Get(compare.CompareRuns([]*result.Dir{d}, d, compare.AcrossOptions{}))(t)
	across.Base.Dir = hostile
	for _, f := range AcrossForms(Options{All: true}) {
		check(f.Name, func(b *bytes.Buffer) error { return f.Write(b, across) })
	}
	across.History = &compare.History{Runs: []compare.HistoryRun{{Dir: hostile}, {Dir: hostile}}, Obstacles: []compare.RunDistinction{{Distinction: compare.Distinction{What: hostile}}}}
	for _, f := range AcrossForms(Options{}) {
		check(f.Name, func(b *bytes.Buffer) error { return f.Write(b, across) })
	}
}

// A name in a comment notifies nobody and leaves no trace in another thread.
func TestMentions(t *testing.T) {
	for in, want := range map[string]string{"@team": "@&#8203;team", "see #17": "see #&#8203;17", "a@b": "a@&#8203;b", "#": "#", "@ 5": "@ 5"} {
		if got := escapeMarkdown(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
