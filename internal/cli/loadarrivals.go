package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// vary sets the changes of the rate over time.
func (f *loadFlags) vary(p *load.Profile) error {
	var errs []error
	var all time.Duration
	for _, r := range f.ramp {
		segment, err := parseSegment(r)
		if err != nil {
			errs = append(errs, err)
		}
		p.Segments = append(p.Segments, segment)
		all += segment.For
	}
	if all > 0 && !f.timed() && p.Requests == 0 {
		if !f.changed("warmup") {
			p.Warmup = 0
		}
		f.duration.d = max(0, all-p.Warmup)
	}
	if f.sine != "" {
		swing, err := parseSegment(f.sine)
		if err != nil || swing.From != swing.To {
			errs = append(errs, fmt.Errorf("sine %q is not of the form 30s@200, a period and by how many requests/s the rate swings", f.sine))
		}
		if p.Rate == 0 {
			errs = append(errs, errors.New("--sine needs --rate, its mean"))
		}
		p.Sine = &load.Sine{Amplitude: swing.From, Period: swing.For}
	}
	if f.bursts != "" {
		errs = append(errs, f.addBursts(p))
	}
	return errors.Join(errs...)
}

// addBursts sets bursts, written as 4x500ms/5s.
func (f *loadFlags) addBursts(p *load.Profile) error {
	times, rest, ok := strings.Cut(f.bursts, "x")
	long, every, ok2 := strings.Cut(rest, "/")
	factor, err1 := strconv.ParseFloat(times, 64)
	length, err2 := time.ParseDuration(long)
	period, err3 := time.ParseDuration(every)
	switch {
	case !ok || !ok2 || errors.Join(err1, err2, err3) != nil || !(factor > 0) || length <= 0 || period <= length:
		return fmt.Errorf("bursts %q are not of the form 4x500ms/5s: 4 times the rate, for 500 ms of every 5 s", f.bursts)
	case factor*length.Seconds() > period.Seconds():
		return fmt.Errorf("bursts %q have more requests than the rate: at most %.3g times for %v of every %v", f.bursts, period.Seconds()/length.Seconds(), length, period)
	case p.Rate == 0:
		return errors.New("--bursts needs a --rate, their mean")
	case len(p.Segments) > 0:
		return errors.New("--bursts and --ramp exclude each other")
	}
	p.Segments = load.Bursts(p.Rate, period, length, factor)
	p.Repeat = len(p.Segments)
	return nil
}

// parseSegment reads "30s@100" or "30s@100-500".
func parseSegment(text string) (s load.Segment, err error) {
	length, rates, ok := strings.Cut(text, "@")
	from, to, ramp := strings.Cut(rates, "-")
	if !ramp {
		to = from
	}
	if ok {
		s.For, err = time.ParseDuration(length)
		var errFrom, errTo error
		s.From, errFrom = strconv.ParseFloat(from, 64)
		s.To, errTo = strconv.ParseFloat(to, 64)
		err = errors.Join(err, errFrom, errTo)
	}
	if !ok || err != nil {
		return s, fmt.Errorf("ramp %q is not of the form 30s@100 or 30s@100-500", text)
	}
	return s, nil
}
