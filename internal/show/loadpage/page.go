// Package loadpage shows one load: a page of text, a line while it runs, and the JSON of
// other load generators.
package loadpage

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// Options of a page.
type Options struct {
	Width int  // columns, 0 for defaultWidth
	Color bool // by ANSI escape sequences
	// Gates are checks of the result, one line each.
	Gates []Gate
}

// Gate is one check of the result.
type Gate struct {
	Text      string
	Holds     bool
	Undecided bool
}

const (
	defaultWidth = 80
	minWidth     = 60
	maxWidth     = 200
)

// page is a text under construction.
type page struct {
	strings.Builder
	width int
	paint palette
}

// Write writes the page of r, the result of p: the answer in the first line, then the
// details, the most important first.
func Write(w io.Writer, p *load.Profile, r *load.Report, o Options) error {
	width := cmp.Or(o.Width, defaultWidth)
	t := &page{width: min(max(width, minWidth), maxWidth), paint: palette{on: o.Color}}
	t.answer(p, r)
	t.describe(p, r)
	t.percentiles(r)
	t.failures(p, r)
	t.routes(r)
	t.phases(r)
	t.account(p, r)
	t.gates(o.Gates)
	t.generator(r)
	_, err := io.WriteString(w, t.String())
	return err
}

// Answer is the first line of the page without colors, and a second one if the generator was the limit.
func Answer(p *load.Profile, r *load.Report) []string {
	t := &page{width: 1000}
	t.answer(p, r)
	return strings.Split(strings.TrimSuffix(t.String(), "\n"), "\n")
}

// BriefOf is the answer of a load: its gates, and its median response time, or without a rate the answers per second. ended is the
// error with which the command ends, with its exit code.
func BriefOf(p *load.Profile, r *load.Report, gates []Gate, ended error, exit int) answer.Brief {
	b := answer.Brief{Sentence: strings.Join(Answer(p, r), " "), Verdict: answer.Measured, ExitCode: exit}
	if r.Result.Success == nil {
		b.Verdict = compare.Insufficient
	}
	if len(gates) > 0 {
		b.Verdict = compare.Verdict(compare.Holds)
	}
	switch {
	case ended == nil:
	case slices.ContainsFunc(gates, func(g Gate) bool { return !g.Holds && !g.Undecided }) || len(gates) == 0 && exit != 0 && r.Result.Success != nil:
		b.Verdict = compare.Verdict(compare.Breached)
	case slices.ContainsFunc(gates, func(g Gate) bool { return g.Undecided }):
		b.Verdict = compare.Verdict(compare.Undecided)
	}
	if ended != nil {
		b.Reason = ended.Error()
	}
	switch {
	case r.Loop == "open" && r.ResponseMS.Count > 0:
		b.Metric, b.Unit, b.Figure = metric.Of(metric.Latency, "p50"), "ms", &stats.Interval{Estimate: r.ResponseMS.P50}
	case r.Loop != "open" && r.Completed > 0:
		b.Metric, b.Unit, b.Figure = metric.Rate, "1/s", &stats.Interval{Estimate: r.Rate}
	}
	return b
}

// answer is the first line.
func (t *page) answer(p *load.Profile, r *load.Report) {
	if r.Result.Success == nil {
		why := strings.Join(r.Warnings, ", ")
		if r.NoneDue() {
			why = ""
		}
		t.fold(t.paint.bad("No request was measured: ")+cmp.Or(why, "none was due"), "")
		return
	}
	rate := figure(r.Rate) + " req/s"
	if rateMissed(p, r) {
		rate = fmt.Sprintf("%s of %s req/s", figure(r.Rate), figure(p.Rate))
	}
	t.fold(strings.Join(append([]string{t.paint.bold(rate), t.success(r)}, t.shortTimes(r)...), ", "), "")
	if !r.Generator.OK {
		t.fold(t.paint.bad("The generator was the limit: the times are not those of the server."), "")
	}
}

// rateMissed reports whether clearly fewer answers came than the rate asks for.
func rateMissed(p *load.Profile, r *load.Report) bool {
	return r.Loop == "open" && len(p.Segments) == 0 && r.Intended > 0 &&
		float64(r.Completed) < 0.995*float64(r.Intended)
}

// success is the share of successful requests, and of the others the two main causes.
func (t *page) success(r *load.Report) string {
	share := percentText(*r.Result.Success) + " ok"
	if len(r.Result.Failures) == 0 {
		return t.paint.good(share)
	}
	var main []string
	for _, c := range r.Result.Failures[:min(2, len(r.Result.Failures))] {
		name := c.Cause
		if name == load.FailureNotSent.String() {
			name = c.String() // the reason is the failure of the connections
		}
		main = append(main, fmt.Sprintf("%s %s", percentText(float64(c.Count)/float64(r.Requests)), name))
	}
	if len(r.Result.Failures) > 2 {
		main = append(main, "others")
	}
	return t.paint.bad(share + " (" + strings.Join(main, ", ") + ")")
}

func (t *page) shortTimes(r *load.Report) []string {
	if r.ResponseMS.Count == 0 {
		return nil
	}
	return []string{"p50 " + short(r.ResponseMS.P50) + " ms", "p99 " + short(r.ResponseMS.P99) + " ms"}
}

// protocolNames are the protocols that a page names.
var protocolNames = map[string]string{
	load.ProtocolHTTP2: "HTTP/2", load.ProtocolGRPC: "gRPC", load.ProtocolWebSocket: "WebSocket",
}

// describe is the load that was sent.
func (t *page) describe(p *load.Profile, r *load.Report) {
	t.WriteByte('\n')
	const mostTargets = 5
	for i, target := range p.Targets {
		if i == mostTargets {
			t.fold(fmt.Sprintf("and %d other URLs", len(p.Targets)-mostTargets), "")
			break
		}
		t.line("%s", t.cut(target, t.width))
	}
	measured := r.MeasureEnd.Sub(r.MeasureStart)
	words := []string{fmt.Sprintf("%s in %v", printable.Counted(int(r.Requests), "request"), measured.Round(time.Millisecond))}
	if r.Loop == "open" {
		words = append(words, fmt.Sprintf("open loop at %s/s", figure(p.Rate)), r.Arrivals+" arrivals")
	} else {
		words = append(words, "closed loop: the capacity, with service times under saturation")
	}
	if r.Seed != 0 {
		words = append(words, fmt.Sprintf("seed %d", r.Seed))
	}
	connections := printable.Counted(p.Connections, "connection")
	if name := protocolNames[r.Protocol]; name != "" {
		connections = name + ", " + connections
		if r.Protocol != load.ProtocolWebSocket {
			connections += " of up to " + printable.Counted(p.Streams, "stream")
		}
	}
	if r.TLS != "" {
		connections += " over " + r.TLS
	}
	words = append(words, connections, printable.Counted(max(1, p.Workers), "worker"))
	if p.Warmup > 0 {
		words = append(words, fmt.Sprintf("warm-up %v", p.Warmup))
	}
	t.fold(strings.Join(words, ", "), "")
}

// gates lists the checks.
func (t *page) gates(gates []Gate) {
	if len(gates) == 0 {
		return
	}
	t.heading("Gates", "")
	for _, g := range gates {
		mark := t.paint.good("✓ ")
		if !g.Holds {
			mark = t.paint.bad("✗ ")
		}
		t.fold("  "+mark+g.Text, "    ")
	}
}

// generator ends the page: whether the figures describe the server, or were limited by the generator.
func (t *page) generator(r *load.Report) {
	t.heading("Generator", "")
	state := t.paint.good("ok")
	if !r.Generator.OK {
		state = t.paint.bad("limit reached")
	}
	measured := r.MeasureEnd.Sub(r.MeasureStart).Seconds()
	used := "CPU unknown"
	if measured > 0 {
		used = fmt.Sprintf("%s s of CPU (%s of a core), busiest thread %s", figure(r.CPUSeconds), percentText(r.CPUSeconds/measured), percentText(r.ThreadCPURatio))
	}
	t.fold("  "+state+": "+used, "  ")
	for _, limit := range r.Generator.Limits {
		t.fold("  "+t.paint.bad("limit")+"    "+limit, "           ")
	}
	for _, note := range r.Generator.Notes {
		t.fold("  "+t.paint.faint("note")+"     "+note, "           ")
	}
	for _, warning := range r.Warnings {
		if !slices.Contains(r.Generator.Limits, warning) && !slices.Contains(r.Generator.Notes, warning) {
			t.fold("  "+t.paint.warn("warning")+"  "+warning, "           ")
		}
	}
}

// heading begins a part, and about follows in a fainter colour.
func (t *page) heading(title, about string) {
	t.WriteByte('\n')
	if about != "" {
		about = t.paint.faint("  " + t.cut(about, t.width-len(title)-2))
	}
	t.line("%s%s", t.paint.bold(title), about)
}

func (t *page) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

// Capacity is the highest rate at which an objective holds.
type Capacity struct {
	capacity.Found
	Probes []Probe `json:"probes"`
}

// Probe is one load at one rate.
type Probe struct {
	capacity.Probe
	Result load.Quantiles `json:"latency_ms,omitzero"`
}

// Brief is the answer of a search. exit is the exit code of the command.
func (c *Capacity) Brief(exit int) answer.Brief {
	b := answer.Brief{Sentence: c.Answer(), Verdict: answer.Measured, Metric: "rate", Unit: "1/s", Reason: cmp.Or(c.Note, c.Open), ExitCode: exit}
	switch {
	case c.Rate == 0:
		b.Verdict, b.Reason = compare.Verdict(compare.Undecided), cmp.Or(c.Note, b.Sentence)
		return b
	case c.Open == capacity.OpenBelow:
		b.Verdict = compare.Verdict(compare.Breached)
	}
	b.Figure = &stats.Interval{Estimate: c.Rate, Low: &c.Low, High: &c.High}
	if c.Open == capacity.OpenAbove {
		b.Figure.High = nil
	}
	return b
}

// CapacityOf is the result of a search, with the times of each probe.
func CapacityOf(found capacity.Found, times []load.Quantiles) *Capacity {
	c := &Capacity{Found: found, Probes: []Probe{}}
	for i, p := range found.Probes {
		c.Probes = append(c.Probes, Probe{p, times[i]})
	}
	return c
}

// WriteCapacity writes the page of a search: the answer, then the probes by rate.
func WriteCapacity(w io.Writer, c *Capacity, o Options) error {
	width := cmp.Or(o.Width, defaultWidth)
	t := &page{width: min(max(width, minWidth), maxWidth), paint: palette{on: o.Color}}
	t.capacity(c)
	t.probes(c)
	_, err := io.WriteString(w, t.String())
	return err
}

// Answer is the result in one sentence.
func (c *Capacity) Answer() string {
	strong, rest, _ := c.answer()
	return strong + rest
}

func (t *page) capacity(c *Capacity) {
	strong, rest, found := c.answer()
	paint := t.paint.bad
	if found {
		paint = t.paint.bold
	}
	t.fold(paint(strong)+rest, "")
	if c.Note != "" {
		t.fold(t.paint.warn(c.Note), "")
	}
}

// answer has the part that is emphasised first, and whether a rate was found.
func (c *Capacity) answer() (strong, rest string, found bool) {
	rate, low, high := c.Rounded()
	switch {
	case c.Rate == 0:
		return "Undecided: no probe shows whether " + c.Objective + " holds.", "", false
	case c.Open == capacity.OpenAbove:
		return "At least " + rounded(low) + " req/s", " with " + c.Objective + ": no probe above it missed the objective.", true
	case c.Open == capacity.OpenBelow:
		return "No rate meets " + c.Objective, ": even " + rounded(c.Rate) + " req/s misses it.", false
	}
	return rounded(rate) + " req/s", fmt.Sprintf(" with %s (95%s%% interval %s to %s)", c.Objective, hardSpace, rounded(low), rounded(high)), true
}

// probes are sorted by rate, so that the edge is in sight.
func (t *page) probes(c *Capacity) {
	if len(c.Probes) == 0 {
		return
	}
	length := time.Duration(c.Probes[len(c.Probes)-1].Seconds * float64(time.Second)).Round(100 * time.Millisecond)
	t.heading("Probes", fmt.Sprintf("%d of about %v, by rate; times in ms", len(c.Probes), length))
	t.line("%s", t.paint.faint(fmt.Sprintf("%12s %12s %9s %9s %9s  objective", "rate", "answered/s", "p50", "p99", "errors")))
	for _, p := range slices.SortedStableFunc(slices.Values(c.Probes), func(a, b Probe) int { return int(a.Rate*1e3) - int(b.Rate*1e3) }) {
		words := t.paint.good("holds")
		switch {
		case p.Undecided != "":
			words = t.paint.warn("undecided")
		case !p.Holds:
			words = t.paint.bad("missed")
		}
		row := fmt.Sprintf("%12s %12s %9s %9s %9s  ", rounded(p.Rate), rounded(p.Answered), orDash(p.P50MS), orDash(p.P99MS), percentText(p.Errors))
		t.fold(row+words, strings.Repeat(" ", len(row)))
	}
}

func orDash(ms float64) string {
	if ms == 0 {
		return "-"
	}
	return figure(ms)
}

// rounded is a rate with four digits.
func rounded(rate float64) string {
	if rate >= 1000 {
		return fmt.Sprintf("%.0f", rate)
	}
	return fmt.Sprintf("%.4g", rate)
}
