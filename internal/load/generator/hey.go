package generator

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

var heyTraits = traits{name: "hey", loop: loopPaced, closed: true, protocols: []string{"http1", "http2"}, h2TLS: true, method: true, body: true}

// Hey is github.com/rakyll/hey. Asked for an interval log it prints every
// answered request, from which the measure window is cut.
type Hey struct{ program }

// Name of the generator in experiment files.
func (Hey) Name() string { return heyTraits.name }

// Command splits the rate over hey's workers, each of which keeps its own.
func (g Hey) Command(p load.Profile) (proc.Command, error) {
	if err := heyTraits.check(p); err != nil {
		return proc.Command{}, err
	}
	args := []string{"-z", milliseconds(heyTraits.duration(p)), "-c", strconv.Itoa(p.Connections), "-m", method(p), "-disable-redirects"}
	if p.Rate > 0 {
		args = append(args, "-q", decimal(p.Rate/float64(p.Connections)))
	}
	if p.Timeout > 0 {
		args = append(args, "-t", strconv.FormatInt(wholeSeconds(p.Timeout), 10))
	}
	if p.Workers > 0 {
		args = append(args, "-cpus", strconv.Itoa(p.Workers))
	}
	if protocol(p) == "http2" {
		args = append(args, "-h2")
	}
	if p.RequestSize > 0 {
		args = append(args, "-d", body(p))
	}
	if p.HDRPath != "" {
		args = append(args, "-o", "csv")
	}
	return g.command(heyTraits.name, p, append(args, p.Targets[0])...), nil
}

// Parse reads what Command made hey print.
func (Hey) Parse(stdout io.Reader, p load.Profile, _ func(load.Progress)) (result.Load, error) {
	parse := ParseHey
	if p.HDRPath != "" {
		parse = ParseHeyCSV
	}
	o, err := parse(stdout)
	if err != nil {
		return result.Load{}, err
	}
	return heyTraits.result(o, p)
}

const (
	heyResolution = "hey prints latencies to 0.1 ms: what is smaller cannot be seen"
	// heyCap is how many results hey keeps; later ones are in no figure.
	heyCap = 1_000_000
)

// ParseHey reads hey's summary. Its histogram is left aside: the bounds are printed to the ms.
func ParseHey(r io.Reader) (Outcome, error) {
	o := Outcome{Generator: "hey"}
	d := latencyOf(ofService)
	section := ""
	err := eachLine(r, o.Generator, func(text string) error {
		t := strings.TrimSpace(text)
		if t != "" && !strings.HasPrefix(text, " ") && strings.HasSuffix(t, ":") {
			section = t
			return nil
		}
		switch {
		case strings.HasPrefix(section, "Summary"):
			heySummary(&o, d, t)
		case strings.HasPrefix(section, "Latency distribution"):
			if f := strings.Fields(t); len(f) == 4 && f[1] == "in" && f[3] == "secs" {
				q, err1 := strconv.ParseFloat(strings.TrimSuffix(f[0], "%"), 64)
				v, err2 := strconv.ParseFloat(f[2], 64)
				if err1 == nil && err2 == nil && q > 0 { // "0%" stands for one it could not work out
					d.quantile(q/100, v)
				}
			}
		case strings.HasPrefix(section, "Status code distribution"):
			heyCount(&o.Statuses, t, "responses")
		case strings.HasPrefix(section, "Error distribution"):
			heyCount(&o.Errors, t, "")
		}
		return nil
	})
	if err != nil {
		return o, err
	}
	if o.Elapsed == 0 {
		return o, fmt.Errorf("read output of hey: it has no summary")
	}
	o.Requests = ptr(sum(o.Statuses) + sum(o.Errors))
	if d.Count = sum(o.Statuses); d.Count > 0 {
		d.addTo(&o)
	}
	o.note(heyResolution)
	if *o.Requests >= heyCap {
		o.note(fmt.Sprintf("hey keeps the first %d results: what came after is in no figure", heyCap))
	}
	return o, nil
}

// heySummary reads "Slowest:	0.4008 secs".
func heySummary(o *Outcome, d *distribution, t string) {
	name, rest, _ := strings.Cut(t, ":")
	f := strings.Fields(rest)
	if len(f) == 0 {
		return
	}
	v, err := strconv.ParseFloat(f[0], 64)
	if err != nil {
		return
	}
	switch name {
	case "Total":
		o.Elapsed = span(v)
	case "Slowest":
		d.max(v)
	case "Fastest":
		d.min(v)
	case "Average":
		d.mean(v)
	case "Requests/sec":
		o.Rate = positive(v)
	case "Total data":
		o.BytesIn = count(v)
	}
}

// heyCount reads "[200]	373 responses" and "[2]	Get …: connection refused", which has the count in front.
func heyCount(into *map[string]int64, t, unit string) {
	first, rest, found := strings.Cut(strings.TrimPrefix(t, "["), "]")
	if !found || !strings.HasPrefix(t, "[") {
		return
	}
	name, number := strings.TrimSpace(rest), first
	if unit != "" {
		name, number = first, strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), unit))
	}
	n, ok := textInt(number)
	if !ok {
		return
	}
	if *into == nil {
		*into = map[string]int64{}
	}
	(*into)[name] = min((*into)[name]+n, maxCount)
}

// columns of hey's CSV: response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset; seconds.
const heyColumns = 8

// ParseHeyCSV reads hey's record of every answered request.
func ParseHeyCSV(r io.Reader) (Outcome, error) {
	o := Outcome{Generator: "hey", Partial: true, Records: []Record{}}
	err := eachRow(r, o.Generator, "response-time", heyColumns, func(row []string) error {
		var v [heyColumns]float64
		for i, cell := range row {
			f, err := strconv.ParseFloat(cell, 64)
			if err != nil || math.IsNaN(f) || f > 1e9 {
				return fmt.Errorf("%.40q is no figure", cell)
			}
			v[i] = max(f, 0)
		}
		rec := Record{At: span(v[7]), Late: unknown, Service: span(v[0]), Response: unknown, Code: int(min(v[6], 999)), Size: -1}
		rec.Done = rec.At + rec.Service
		o.Records = append(o.Records, rec)
		return nil
	})
	o.tally()
	o.note(heyResolution)
	if len(o.Records) >= heyCap {
		o.note(fmt.Sprintf("hey keeps the first %d results: what came after is in no figure", heyCap))
	}
	return o, err
}
