package main

import "fmt"

// allowed is the loss beside earlier figures that still counts as none.
const allowed = 0.02

// former is an earlier figure of docs/lab/load-engine.md.
type former struct {
	estimate float64
	digits   int
	more     bool   // a higher figure is better
	unit     string // of a figure that another machine changes; empty: a ratio, which is compared
}

// formers are the figures of the last runs alone on a machine, by the line's figure: cpu and rate the mean of three runs
// of 23 November 2026, the others of 21 November.
var formers = map[string]former{
	"client CPU a request, closed loop, 64 connections, HTTP/1.1, nginx": {estimate: 0.845, digits: 3},
	"requests/s on one core, 64 connections, own server":                 {estimate: 1.303, digits: 3, more: true},
	"  CPU a request in the same rounds":                                 {estimate: 0.766, digits: 3},
	"client CPU a request, HTTP/2, 64 streams on 4 connections":          {estimate: 0.902, digits: 3},
	"client CPU a call, gRPC unary, 64 calls on 4 connections":           {estimate: 0.166, digits: 3},
	"median response at 5,000 requests/s: tare":                          {estimate: 49, unit: "µs"},
	"median response at 5,000 requests/s: tare, polling":                 {estimate: 8, unit: "µs"},
	"send lateness at 10,000 requests/s, a core to itself, p50":          {estimate: 0.5, digits: 1, unit: "µs"},
	"send lateness at 10,000 requests/s, a core to itself, p99":          {estimate: 39.5, digits: 1, unit: "µs"},
}

// before sets a line beside its earlier figure. A ratio is slower if its whole interval is, by more than allowed.
func (l line) before() string {
	f, ok := formers[l.figure]
	if !ok || l.beside == nil {
		return ""
	}
	text := fmt.Sprintf("%.*f", f.digits, f.estimate)
	if f.unit != "" {
		return text + " " + f.unit
	}
	verdict := below(*l.beside, f.estimate*(1+allowed))
	if f.more {
		verdict = above(*l.beside, f.estimate*(1-allowed))
	}
	words := map[string]string{met: "not slower", notMet: "slower", undecided: "undecided"}
	return fmt.Sprintf("%s, now %+.1f %%: %s", text, 100*(l.beside.Estimate/f.estimate-1), words[verdict])
}
