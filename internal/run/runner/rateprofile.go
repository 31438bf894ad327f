package runner

import (
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/load"
)

// vary changes p's rate as the experiment's profile does, from the start of the measure phase.
// The warm-up has the mean rate. p.Rate becomes the mean.
func vary(p *load.Profile, by experiment.RateProfile) {
	if p.Rate == 0 || by.Cycle() == 0 {
		return
	}
	var cycle []load.Segment
	switch {
	case by.Sine.Period > 0:
		p.Sine = &load.Sine{Amplitude: float64(by.Sine.Swing) * p.Rate, Period: time.Duration(by.Sine.Period)}
		return
	case by.Bursts.Every > 0:
		cycle = load.Bursts(p.Rate, time.Duration(by.Bursts.Every), time.Duration(by.Bursts.For), by.Bursts.Times)
	}
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
