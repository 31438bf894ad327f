package generator

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// summaryText reads the text of hey and of oha, which has the same form. Times are in secs or sec, sizes in bytes or KiB.
type summaryText struct {
	o       Outcome
	d       *distribution
	section string
}

// summaryFigures are the lines of the summary.
var summaryFigures = map[string]struct {
	units map[string]float64
	set   func(*summaryText, float64)
}{
	"Total":        {timeUnits, func(s *summaryText, v float64) { s.o.Elapsed = span(v) }},
	"Slowest":      {timeUnits, func(s *summaryText, v float64) { s.d.max(v) }},
	"Fastest":      {timeUnits, func(s *summaryText, v float64) { s.d.min(v) }},
	"Average":      {timeUnits, func(s *summaryText, v float64) { s.d.mean(v) }},
	"Requests/sec": {countUnits, func(s *summaryText, v float64) { s.o.Rate = asRate(v) }},
	"Total data":   {sizeUnits, func(s *summaryText, v float64) { s.o.BytesIn = count(v) }},
}

func (s *summaryText) line(line string) error {
	t := strings.TrimSpace(line)
	if t != "" && t == strings.TrimRight(line, " \t") && strings.HasSuffix(t, ":") {
		s.section = strings.TrimSuffix(t, ":")
		return nil
	}
	name, value, _ := strings.Cut(t, ":")
	figure, known := summaryFigures[name]
	switch {
	case t == "":
	case s.section == "Summary" && known:
		if v, err := Quantity(value, figure.units); err == nil {
			figure.set(s, v)
		}
	case strings.HasSuffix(s.section, " distribution") && strings.Contains(t, "% in "): // of latencies, or of response times
		percent, value, _ := strings.Cut(t, "% in ")
		q, err := strconv.ParseFloat(strings.TrimRight(percent, "%"), 64)
		if v, ok := textSeconds(value); ok && err == nil {
			s.d.quantile(q/100, v)
		}
	case s.section == "Status code distribution", s.section == "Error distribution":
		key, rest, ok := strings.Cut(strings.TrimPrefix(t, "["), "]")
		if !ok {
			return nil
		}
		if s.section == "Status code distribution" {
			n, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			if v, ok := textInt(n); ok {
				s.o.Statuses[key] += v
			}
		} else if v, ok := textInt(key); ok {
			s.failed(strings.TrimSpace(rest), v)
		}
	}
	return nil
}

func (s *summaryText) failed(text string, n int64) {
	if s.o.Generator == "oha" && text == ohaDeadline {
		s.o.AllRequests = ptr(n) // completed below
		return
	}
	s.o.failed(errorKind(text), n)
}

// heyKept is the number of responses whose times and statuses hey keeps. Its rate and its mean are of all.
const heyKept = 1_000_000

// parseSummaryText reads the text of a generator. of is the kind of its latencies.
func parseSummaryText(r io.Reader, generator, of string) (Outcome, error) {
	s := summaryText{o: Outcome{Generator: generator, Statuses: map[string]int64{}}, d: latencyOf(of)}
	if err := eachLine(r, generator, s.line); err != nil {
		return s.o, err
	}
	o := &s.o
	if o.Elapsed == 0 {
		return *o, fmt.Errorf("read output of %s: it has no summary", generator)
	}
	all := sum(o.Statuses) + sum(o.Errors) + value(o.AllRequests)
	if o.Rate != nil {
		// The rate counts all requests. It and the time have four decimals.
		counted := *o.Rate * o.Elapsed.Seconds()
		kept := sum(o.Statuses)
		switch total := count(counted); {
		case generator == "hey" && kept == heyKept && total != nil && *total > all:
			answered := *total - sum(o.Errors)
			for code, n := range o.Statuses {
				o.Statuses[code] = int64(math.Round(float64(n) / heyKept * float64(answered)))
			}
			o.note(fmt.Sprintf("hey keeps times and statuses of its first %d responses only: quantiles are of them, and the statuses of all %d responses have their shares", heyKept, answered))
		case math.Abs(counted-float64(all)) > 1+float64(all)*1e-4/o.Elapsed.Seconds():
			return *o, fmt.Errorf("read output of %s: %g requests/s for %v are not %d: lines are missing", generator, *o.Rate, o.Elapsed, all)
		}
		if o.AllRequests != nil {
			o.AllRequests = &all
		}
		s.d.Count = kept
	}
	if s.d.Count > 0 {
		s.d.addTo(o)
	}
	return *o, nil
}

// ParseHey reads the text of hey.
func ParseHey(r io.Reader) (Outcome, error) { return parseSummaryText(r, "hey", ofService) }
