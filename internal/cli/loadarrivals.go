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
	return errors.Join(errs...)
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
