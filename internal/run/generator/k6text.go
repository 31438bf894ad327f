package generator

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// k6Line is a metric of k6's summary: "http_reqs......: 101 31.9/s".
var k6Line = regexp.MustCompile(`^\s*[✓✗]?\s*([a-z_0-9]+)\.*: +(.*\S)\s*$`)

// k6Text reports whether an output is the text of k6's summary.
func k6Text(text []byte) bool {
	return bytes.Contains(text, []byte("http_reqs.")) && !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{"))
}

// parseK6Text reads the text of k6's summary. Colours of a terminal are ignored.
func parseK6Text(text []byte) (Outcome, error) {
	o := Outcome{Generator: "k6"}
	d := latencyOf(ofService)
	failed, has, complete, summaries := int64(0), false, false, 0
	err := eachLine(bytes.NewReader(ansi.ReplaceAll(text, nil)), o.Generator, func(line string) error {
		m := k6Line.FindStringSubmatch(line)
		if m == nil {
			return nil
		}
		f := strings.Fields(m[2])
		switch m[1] {
		case "http_reqs":
			summaries++
			if n, ok := textInt(f[0]); ok && len(f) > 1 {
				if rate, err := strconv.ParseFloat(strings.TrimSuffix(f[1], "/s"), 64); err == nil && rate > 0 {
					o.Requests, o.Rate, o.Elapsed = &n, asRate(rate), span(float64(n)/rate)
				}
			}
		case "http_req_failed": // "2.97% ✓ 3 ✗ 98", of newer versions "2.97% 3 out of 101"
			if len(f) > 2 {
				word := strings.TrimPrefix(f[1], "✓")
				if word == "" {
					word = f[2]
				}
				failed, has = textInt(word)
			}
		case "http_req_duration":
			for _, pair := range f {
				name, v, _ := strings.Cut(pair, "=")
				if t, err := time.ParseDuration(v); err == nil {
					d.k6Figure(name, t.Seconds()*1e3)
				}
			}
		case "data_received":
			if len(f) > 1 {
				if v, err := Quantity(f[0]+f[1], k6Sizes); err == nil && v >= 0 {
					o.BytesIn = count(v)
				}
			}
		case "data_sent":
			complete = true
		case "dropped_iterations":
			o.note("k6 had no free virtual user for " + f[0] + " iterations that were due, and dropped them")
		}
		return nil
	})
	if err != nil {
		return o, err
	}
	if summaries > 1 {
		return o, errors.New("read output of k6: http_reqs occurs twice: files were joined")
	}
	if o.Requests == nil || !complete || bytes.IndexByte(text, 0) >= 0 {
		return o, errors.New("read output of k6: it has no http_reqs with a rate, and data_sent: it was cut off")
	}
	if has && failed <= *o.Requests {
		o.OK, o.NotOK = ptr(*o.Requests-failed), &failed
	}
	if d.Count = *o.Requests; d.Count > 0 {
		d.addTo(&o)
	}
	return o, nil
}

// ansi is an escape sequence of a terminal.
var ansi = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// k6Sizes are the units of data_received.
var k6Sizes = map[string]float64{"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
