package loadpage

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/stats"
)

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
