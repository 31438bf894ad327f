package generator

import (
	"io"
	"strconv"
	"strings"
)

// ParseAB reads the text of ab, ApacheBench 2.3. Its times are whole milliseconds.
func ParseAB(r io.Reader) (Outcome, error) {
	o := Outcome{Generator: "ab", Loop: loopClosed}
	d := latencyOf(ofService)
	var broken map[string]int64
	whole := false
	l, err := readLabelled(r, o.Generator, func(line string) {
		if v, ok := strings.CutPrefix(line, "This is ApacheBench, Version "); ok {
			o.Version, _, _ = strings.Cut(v, " ")
		}
		f := strings.Fields(line)
		switch {
		case len(f) > 1 && f[0] == "(Connect:":
			broken = abFailures(strings.Trim(strings.TrimSpace(line), "()"))
		case len(f) == 6 && f[0] == "Total:": // min, mean, standard deviation, median, maximum
			for _, x := range []struct {
				set  func(float64)
				text string
			}{{d.min, f[1]}, {d.mean, f[2]}, {d.max, f[5]}} {
				if v, err := strconv.ParseFloat(x.text, 64); err == nil {
					x.set(v / 1e3)
				}
			}
		case strings.HasSuffix(line, "(longest request)"):
			whole = true
		case len(f) >= 2 && strings.HasSuffix(f[0], "%"):
			q, err1 := strconv.ParseFloat(strings.TrimSuffix(f[0], "%"), 64)
			v, err2 := strconv.ParseFloat(f[1], 64)
			if err1 == nil && err2 == nil {
				d.quantile(q/100, v/1e3)
			}
		}
	})
	if err != nil {
		return o, err
	}
	seconds, ok := l.number("Time taken for tests", plainUnits)
	if _, complete := l["Complete requests"]; !ok || !complete {
		return o, none(o.Generator, "line of complete requests: the run was aborted")
	}
	o.Elapsed = span(seconds)
	if rate, ok := l.number("Requests per second", plainUnits); ok {
		o.Rate = asRate(rate)
	}
	if n := l.count("Concurrency Level"); n > 0 && n < 1<<20 {
		o.Connections = ptr(int(n))
	}
	o.BytesIn = ptr(l.count("Total transferred"))
	complete := l.count("Complete requests") // refused ones among them
	lost := min(complete, broken["Receive"])
	bad := min(complete-lost, l.count("Non-2xx responses"))
	o.OK, o.NotOK, o.Requests = ptr(complete-lost-bad), &bad, &complete
	o.failed("no answer", lost)
	o.failed("connect failed", broken["Connect"])
	if n := broken["Length"]; n > 0 {
		o.note("ab counts " + strconv.FormatInt(n, 10) + " responses as failed since their length is not the first one's: they count as responses here")
	}
	o.note("ab prints whole milliseconds")
	if complete > 1 && !whole {
		return o, none(o.Generator, "time of the longest request: it was cut off")
	}
	if d.Count = complete; complete > 0 {
		d.addTo(&o)
	}
	return o, nil
}

// abFailures reads "Connect: 0, Receive: 200, Length: 0, Exceptions: 100".
func abFailures(text string) map[string]int64 {
	all := map[string]int64{}
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(part, ":")
		if n, ok := textInt(value); ok {
			all[strings.TrimSpace(name)] = n
		}
	}
	return all
}
