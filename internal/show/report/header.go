package report

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/answer/effective"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
)

// headerSection is the experiment, its trials, its load and its machine.
func headerSection(t text) {
	r := t.view.r
	title := r.Experiment
	if words := Subtitle(r); words != "" {
		title += ": " + words
	}
	t.page.prose(title)
	for _, line := range Header(r) {
		t.page.prose(line)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Setup.Variants)) {
		t.page.prose("Variant " + name + ": " + r.Setup.Variants[name])
	}
	for _, line := range append(VerifiedLines(r), OutsideLine(r)) {
		if line != "" {
			t.page.prose(line)
		}
	}
}

// Subtitle is a run in a line: its description, or else the sides of its gates.
func Subtitle(r *answer.Report) string {
	if r.Description != "" || len(r.Decisions) == 0 {
		return strings.Join(strings.Fields(r.Description), " ")
	}
	return sidesWords(r, r.Decisions[0])
}

// sidesWords are both sides of a gate, and the variant of each: "envoy-b (envoy with accessLog=true) against envoy-a (envoy)".
func sidesWords(r *answer.Report, d compare.Decision) string {
	side := func(id string) string {
		name := nameOf(newView(r), id)
		return sideWords(name, r.Setup.Variants[name])
	}
	return side(d.Treatment) + " against " + side(d.Baseline)
}

// sideWords is a treatment with its definition if that is known.
func sideWords(name, definition string) string {
	if definition == "" {
		return name
	}
	return name + " (" + definition + ")"
}

// LoadLine is the load that all treatments have, and the processors of this machine: "Load: 1000 requests/s, 16 connections,
// response size 1 KiB; 2 CPUs (AMD EPYC)." It is "" if nothing is known.
func LoadLine(r *answer.Report) string {
	var load []string
	for _, f := range []string{experiment.RateFactor, "connections", "requestSize", "responseSize"} {
		level, known := commonLevel(r, f)
		if !known {
			continue
		}
		words := spacedLevel(f, level)
		switch f {
		case experiment.RateFactor:
			load = append(load, words+" requests/s")
		case "connections":
			load = append(load, words+" "+printable.Plural(int(level), "connection"))
		default:
			load = append(load, factorWords(f)+" "+words)
		}
	}
	var parts []string
	if load != nil {
		parts = append(parts, "Load: "+strings.Join(load, ", "))
	}
	if s := r.Setup; s.Platform == "local" && s.CPUs > 0 {
		parts = append(parts, strings.TrimSuffix(printable.Counted(s.CPUs, "CPU")+" ("+s.CPUModel+")", " ()"))
	}
	if parts == nil {
		return ""
	}
	return strings.Join(parts, "; ") + "."
}

// commonLevel is the number that a factor has in all treatments, if it is one.
func commonLevel(r *answer.Report, factor string) (level float64, known bool) {
	for i, tr := range r.Treatments {
		x, number := tr.Factors[factor].(float64)
		if !number || i > 0 && x != level {
			return 0, false
		}
		level, known = x, true
	}
	return level, known
}

// trialsSentence is the number of trials, and of lost trials.
func trialsSentence(t text) string {
	c := t.view.r.Count
	s := fmt.Sprintf("%s, %s of %s %s", printable.Counted(c.Planned, "trial"), printable.Counted(c.Blocks, "block"), printable.Counted(len(t.view.r.Treatments), "treatment"), orderWords(t.view.r.Order, t.view.r.Setup))
	if x := t.view.r.Stopping; x != nil && x.Reached {
		s += fmt.Sprintf(" (max %d; ", x.Max) + x.Words() + ")"
	}
	if t.view.imported() {
		s = fmt.Sprintf("%s of %s, in the order of the original runs", printable.Counted(c.Planned, "run"), printable.Counted(len(t.view.r.Treatments), "treatment"))
	}
	if c.Used == c.Planned {
		return s + ", all valid"
	}
	var lost []string
	for _, l := range []struct {
		n    int
		what string
	}{{c.Invalid, "invalid"}, {c.Failed, "failed"}, {c.Missing, "not recorded"}} {
		if l.n > 0 {
			lost = append(lost, fmt.Sprintf("%d %s", l.n, l.what))
		}
	}
	return s + fmt.Sprintf("; %d used, %s", c.Used, strings.Join(lost, ", "))
}

// orderWords is the order of the trials in words.
func orderWords(order string, s compare.Setup) string {
	if order == experiment.OrderInterleaved && s.Executions > 0 {
		return fmt.Sprintf("in turn, in balanced random order (seed %d), %d executions", s.Seed, s.Executions)
	}
	switch order {
	case experiment.OrderBalanced:
		return fmt.Sprintf("in balanced random order (seed %d)", s.Seed)
	case plan.ByMesh:
		return "in random order, one mesh after another within each block"
	case experiment.OrderInterleaved:
		return "interleaved: the treatments of a comparison are deployed at once, and the load alternates between them in time slices"
	case experiment.OrderOnce:
		return "in random order within each mesh, one mesh after another over all blocks"
	}
	return "in random order"
}

func loadSentence(t text) string {
	s := t.view.r.Setup
	if s.Loop == "" {
		return ""
	}
	out := s.Loop + " loop"
	if s.Loop == "open" && s.Arrivals != "" {
		out += ", " + s.Arrivals + " arrivals"
	}
	if s.MeasureS != nil && s.WarmupS != nil {
		if t.view.imported() {
			return out + fmt.Sprintf(", load for %s", time.Duration(*s.MeasureS*float64(time.Second)).Round(time.Second))
		}
		out += fmt.Sprintf(", %s measured after %s of warm-up", seconds(*s.MeasureS), seconds(*s.WarmupS))
	}
	return out
}

func seconds(v float64) string {
	return time.Duration(v * float64(time.Second)).Round(time.Millisecond).String()
}

func machineSentence(t text) string {
	s := t.view.r.Setup
	var parts []string
	add := func(ok bool, format string, args ...any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(s.CPUModel != "", "%s", s.CPUModel)
	add(s.CPUs > 0, "%s", printable.Counted(s.CPUs, "CPU"))
	add(s.OS != "", "%s", strings.TrimSpace(s.OS+" "+s.Kernel))
	add(s.Platform != "", "platform %s", s.Platform)
	add(s.Tare != "", "tare %s", s.Tare)
	for _, name := range slices.Sorted(maps.Keys(s.Versions)) {
		add(true, "%s %s", name, s.Versions[name])
	}
	return strings.Join(parts, ", ")
}

// sentence joins the nonempty parts.
func sentence(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// VerifiedLines are sentences about proxies without counters: how their traffic was verified.
func VerifiedLines(r *answer.Report) (lines []string) {
	for _, v := range r.Verified {
		var by []string
		if v.Nonces {
			by = append(by, "random answers before the load")
		}
		if v.Arrivals {
			by = append(by, "requests that arrived one by one before the load")
		}
		if v.Sockets {
			by = append(by, "the kernel's sockets during it")
		}
		if v.Counters || len(by) == 0 {
			continue
		}
		if v.Served && v.Bytes {
			by = append(by, "the bytes that your program's sockets carried")
		}
		line := "Traffic through " + strings.Join(v.Meshes, ", ") + " is verified by " + printable.And(by) + ": no counters of the proxy."
		if !v.Served {
			line += " Your program has none either: requests that the proxy answers itself under load, or repeats, are not detected."
		}
		lines = append(lines, line)
	}
	return lines
}

// OutsideLine is the CPU of this machine outside the trial, compared with the baseline. It is empty where
// it was not measured.
func OutsideLine(r *answer.Report) string {
	var parts []string
	v := newView(r)
	for _, c := range r.Comparisons {
		if c.Metric != metric.OutsideCPU || c.Difference == nil || !c.Difference.Known() {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %+.0f µs (%+.0f to %+.0f)", v.label.withControl(v.treatment(c.Treatment)), c.Difference.Estimate, *c.Difference.Low, *c.Difference.High))
	}
	if len(parts) == 0 {
		return ""
	}
	return "CPU of this machine outside the trial, per request, compared with the baseline: " + strings.Join(parts, ", ")
}

// mostDifferences of two configurations are printed, but the JSON has all.
const mostDifferences = 10

// configurationsSection prints what treatments of one mesh and its variants really ran differently.
func configurationsSection(t text) {
	for _, c := range t.view.r.Configurations {
		t.page.heading(fmt.Sprintf("Configuration of %s and %s", nameOf(t.view, c.A), nameOf(t.view, c.B)))
		for _, s := range ConfigurationLines(c) {
			t.page.item(s)
		}
	}
}

// ConfigurationLines are the differences of two configurations, at most ten lines.
func ConfigurationLines(c answer.Configuration) (lines []string) {
	if c.Versions[0] != c.Versions[1] {
		lines = append(lines, fmt.Sprintf("program: %s → %s", cmp.Or(c.Versions[0], "unknown"), cmp.Or(c.Versions[1], "unknown")))
	}
	if c.NotCompared != "" {
		lines = append(lines, "not compared: "+c.NotCompared)
	}
	differences := c.Differences
	if c.Versions[0] != c.Versions[1] { // the line of the program is enough, without its path on this machine
		differences = slices.DeleteFunc(slices.Clone(differences), func(d effective.Difference) bool {
			return d.Path == "command line" && isProgram(d.A) && isProgram(d.B)
		})
	}
	for i, d := range differences {
		if len(lines) == mostDifferences-1 && len(differences)-i > 1 {
			return append(lines, fmt.Sprintf("… and %d more (--format json has all)", len(differences)-i))
		}
		lines = append(lines, differenceLine(d))
	}
	if len(lines) == 0 {
		return []string{"the same"}
	}
	return lines
}

// isProgram reports whether the words in which a command line differs are the path of a program.
func isProgram(words string) bool { return filepath.IsAbs(words) && !strings.Contains(words, " ") }

// differenceLine is one difference: only in A "−", only in B "+", else both values.
func differenceLine(d effective.Difference) string {
	where := " (" + printable.Listed(d.Files, mostFiles) + ")"
	switch {
	case d.Path == "command line":
		return fmt.Sprintf("arguments: %s → %s%s", orNone(d.A), orNone(d.B), where)
	case d.A == "":
		return "+ " + partLine(shortPath(d.Path), d.B, d.Values) + where
	case d.B == "":
		return "− " + partLine(shortPath(d.Path), d.A, d.Values) + where
	}
	return fmt.Sprintf("%s: %s → %s%s", shortPath(d.Path), d.A, d.B, where)
}

func orNone(words string) string {
	if words == "" {
		return "none"
	}
	return words
}

func partLine(path, value string, values int) string {
	if values > 1 {
		return fmt.Sprintf("%s (%s)", path, printable.Counted(values, "value"))
	}
	return path + ": " + value
}

// mostPath is the largest number of characters of a path. Its end is kept.
const mostPath = 110

func shortPath(path string) string {
	if r := []rune(path); len(r) > mostPath {
		return "…" + string(r[len(r)-mostPath:])
	}
	return path
}

// mostFiles bounds the files that a line names.
const mostFiles = 3
