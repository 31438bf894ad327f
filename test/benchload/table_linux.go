package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/tare-mesh/tare/internal/stats"
)

// confidence of every interval.
const confidence = 0.95

// Verdicts. An interval that contains the target is inconclusive.
const (
	met       = "met"
	notMet    = "not met"
	undecided = "undecided"
	reported  = "reported" // a line without a target
	notBuilt  = "not built"
	failed    = "failed"
)

// line is one line of the table.
type line struct {
	figure  string
	ours    string
	peer    string
	compare string // ours beside the peer, with its interval
	target  string
	verdict string
	beside  *stats.Interval // the compared figure, nil if there is none
}

// below judges an interval against "at most limit": by both its ends.
func below(i stats.Interval, limit float64) string {
	switch {
	case !i.Known():
		return undecided
	case *i.High <= limit:
		return met
	case *i.Low > limit:
		return notMet
	}
	return undecided
}

// above judges an interval against "at least limit".
func above(i stats.Interval, limit float64) string {
	switch {
	case !i.Known():
		return undecided
	case *i.Low >= limit:
		return met
	case *i.High < limit:
		return notMet
	}
	return undecided
}

// show prints an interval with digits digits after the point.
func show(i stats.Interval, digits int) string {
	if !i.Known() {
		return fmt.Sprintf("%.*f (no interval)", digits, i.Estimate)
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, i.Estimate, digits, *i.Low, digits, *i.High)
}

func write(w io.Writer, lines []line) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }
	row("FIGURE", "OURS", "PEER", "OURS BESIDE PEER (95 %)", "TARGET", "VERDICT", "BEFORE")
	for _, l := range lines {
		row(l.figure, l.ours, l.peer, l.compare, l.target, l.verdict, l.before())
	}
	_ = t.Flush()
}
