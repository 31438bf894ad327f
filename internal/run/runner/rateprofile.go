package runner

import (
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/load"
)

// interleave gives the slices of a round the rates that p has without the others: all members have
// the same rates in their slices of one row. from is the length of the warm-up without them. It
// needs p's slices, and the warm-up of the round.
func interleave(p *load.Profile, from time.Duration, members int) {
	if len(p.Segments) == 0 {
		return
	}
	own := p.Segments
	if from > 0 {
		own = own[1:] // without the warm-up
	}
	length, left := p.Slices.Length, p.Measure/time.Duration(members)
	rates := []load.Segment{{For: p.Warmup, From: p.Rate, To: p.Rate}}
	if p.Warmup == 0 {
		rates = nil
	}
	at, into := 0, time.Duration(0)                            // segment, and how far it is over
	loaded := float64(length-p.Slices.Guard) / float64(length) // the guard has no requests, so the rates of a slice end before it
	for ; left > 0; left -= length {
		var slice []load.Segment
		quiet := length
		for rest := min(length, left); rest > 0; {
			g := own[at%len(own)]
			part := min(rest, g.For-into)
			if d := time.Duration(float64(part) * loaded); d > 0 {
				slice = append(slice, load.Segment{For: d, From: rateAt(g, into), To: rateAt(g, into+part)})
				quiet -= d
			}
			rest -= part
			if into += part; into == g.For {
				at, into = at+1, 0
			}
		}
		if n := len(slice); n > 0 && quiet > 0 {
			slice = append(slice, load.Segment{For: quiet, From: slice[n-1].To, To: slice[n-1].To})
		}
		for range members {
			for _, g := range slice {
				rates = joined(rates, g)
			}
		}
	}
	p.Segments, p.Repeat = rates, 0
}

// rateAt is the rate of a segment after a time. A mean of its ends is never below zero.
func rateAt(g load.Segment, after time.Duration) float64 {
	if g.From == g.To {
		return g.From
	}
	over := float64(after) / float64(g.For)
	return g.From*(1-over) + g.To*over
}

// joined appends a segment, to the last one if both have one rate.
func joined(rates []load.Segment, g load.Segment) []load.Segment {
	if n := len(rates); n > 0 && rates[n-1].From == rates[n-1].To && rates[n-1].To == g.From && g.From == g.To {
		rates[n-1].For += g.For
		return rates
	}
	return append(rates, g)
}

// vary changes p's rate as the experiment's profile does, from the start of the measure phase.
// The warm-up has the mean rate. p.Rate becomes the mean.
func vary(p *load.Profile, by experiment.RateProfile) {
	if p.Rate == 0 || by.Cycle() == 0 {
		return
	}
	var cycle []load.Segment
	for _, s := range by.Steps {
		from, to := s.Ends()
		cycle = append(cycle, load.Segment{For: time.Duration(s.For), From: from * p.Rate, To: to * p.Rate})
	}
	p.Rate = load.MeanRate(cycle)
	p.Repeat = len(cycle)
	if p.Warmup > 0 {
		p.Segments = []load.Segment{{For: p.Warmup, From: p.Rate, To: p.Rate}}
	}
	p.Segments = append(p.Segments, cycle...)
}
