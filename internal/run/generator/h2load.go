package generator

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

var h2loadTraits = traits{name: "h2load", loop: loopPaced, closed: true, protocols: []string{"http1", "http2"}, targets: true}

// H2load is nghttp2's load generator. For an interval log it writes every request
// to its log file. That file is its standard output, which also has the summary.
type H2load struct{ program }

// Name is the generator's name in experiment files.
func (H2load) Name() string { return h2loadTraits.name }

// Command splits the rate over the clients: h2load's rate applies to each client.
func (g H2load) Command(p load.Profile) (proc.Command, error) {
	if err := h2loadTraits.check(p); err != nil {
		return proc.Command{}, err
	}
	args := []string{"-c", strconv.Itoa(p.Connections), "-t", threads(p), "-D", milliseconds(h2loadTraits.duration(p))}
	if protocol(p) == "http1" {
		args = append(args, "--h1")
	}
	if p.Rate > 0 {
		args = append(args, "--rps", decimal(p.Rate/float64(p.Connections)))
	}
	if h := host(p); h != "" {
		args = append(args, "-H", ":authority: "+h) // Host of HTTP/1.1 too
	}
	if p.HDRPath != "" {
		args = append(args, "--log-file=/dev/stdout")
	}
	return g.command(h2loadTraits.name, p, append(args, p.Targets...)...), nil
}

// Parse reads h2load's text and the log rows between its lines.
func (H2load) Parse(stdout io.Reader, p load.Profile, _ func(load.Progress)) (result.Load, error) {
	o, err := ParseH2load(stdout)
	if err != nil {
		return result.Load{}, err
	}
	return h2loadTraits.result(o, p)
}

// h2loadReader collects the summary and the rows of the log.
type h2loadReader struct {
	o      Outcome
	starts []int64 // µs since the epoch, one a record
	summed bool
}

// ParseH2load reads the text of h2load. If --log-file was the same file, its rows
// are between the lines. h2load prints no percentiles.
func ParseH2load(r io.Reader) (Outcome, error) {
	h := h2loadReader{o: Outcome{Generator: "h2load"}}
	if err := eachLine(r, h.o.Generator, h.line); err != nil {
		return h.o, err
	}
	if !h.summed {
		return h.o, fmt.Errorf("read output of h2load: it has no line with the number of requests")
	}
	h.anchor()
	h.o.tally()
	return h.o, nil
}

func (h *h2loadReader) line(t string) error {
	if row := strings.Split(t, "\t"); len(row) >= 3 {
		return h.row(row)
	}
	t = strings.TrimSpace(t)
	name, rest, found := strings.Cut(t, ":")
	rest = strings.TrimSpace(rest)
	switch {
	case strings.HasPrefix(t, "finished in "):
		h.finished(strings.Split(strings.TrimPrefix(t, "finished in "), ","))
	case !found:
	case name == "requests":
		h.requests(labelled(rest))
	case name == "status codes":
		h.statuses(labelled(rest))
	case name == "traffic":
		h.traffic(rest)
	case name == "time for request":
		h.latency(ofService, rest)
	case name == "time to 1st byte":
		h.latency(ofFirstByte, rest)
	}
	return nil
}

// row reads start (µs since the epoch), status (-1: the stream failed), duration (µs).
func (h *h2loadReader) row(row []string) error {
	start, err1 := strconv.ParseInt(row[0], 10, 64)
	code, err2 := strconv.Atoi(row[1])
	took, err3 := strconv.ParseInt(row[2], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || start < 0 || took < 0 || took > 1e15 || start > math.MaxInt64/2000 || code > 999 {
		return fmt.Errorf("%.60q is no row of the log", strings.Join(row, " "))
	}
	if len(h.o.Records) == maxRecords {
		return tooMany(h.o.Generator)
	}
	rec := Record{Late: unknown, Service: time.Duration(took) * time.Microsecond, Response: unknown, Code: max(code, 0), Size: -1}
	if code <= 0 {
		rec.Error = "stream failed"
	}
	h.o.Records, h.starts = append(h.o.Records, rec), append(h.starts, start)
	return nil
}

// anchor makes the times of the records relative to the first.
func (h *h2loadReader) anchor() {
	if len(h.starts) == 0 {
		return
	}
	first := h.starts[0]
	for _, s := range h.starts {
		first = min(first, s)
	}
	h.o.Started = time.UnixMicro(first)
	for i := range h.o.Records {
		r := &h.o.Records[i]
		r.At = span(float64(h.starts[i]-first) / 1e6)
		r.Done = r.At + r.Service
	}
}

// finished reads "2.00s", "53.50 req/s", "58.69KB/s".
func (h *h2loadReader) finished(parts []string) {
	if v, ok := textSeconds(parts[0]); ok {
		h.o.Elapsed = span(v)
	}
	if len(parts) > 1 {
		if v, ok := textCount(strings.TrimSuffix(strings.TrimSpace(parts[1]), " req/s")); ok {
			h.o.Rate = asRate(v)
		}
	}
}

// labelled reads "107 total, 109 started": counts by their labels.
func labelled(t string) map[string]int64 {
	out := map[string]int64{}
	for _, part := range strings.Split(t, ",") {
		number, label, _ := strings.Cut(strings.TrimSpace(part), " ")
		if n, ok := textInt(number); ok {
			out[label] = n
		}
	}
	return out
}

// requests reads the request counts. "failed" counts error statuses and broken
// streams, and it includes "errored" and "timeout".
func (h *h2loadReader) requests(n map[string]int64) {
	h.summed = true
	h.o.OK, h.o.Requests = ptr(n["succeeded"]), ptr(n["done"])
	for _, label := range []string{"errored", "timeout"} {
		if n[label] > 0 {
			if h.o.Errors == nil {
				h.o.Errors = map[string]int64{}
			}
			h.o.Errors[label] = n[label]
		}
	}
	h.o.NotOK = ptr(max(0, n["failed"]-n["errored"]-n["timeout"]))
}

// statuses reads counts by class, 2xx to 5xx.
func (h *h2loadReader) statuses(n map[string]int64) {
	h.o.NotOK = ptr(n["3xx"] + n["4xx"] + n["5xx"])
	h.o.OK = ptr(n["2xx"])
}

// traffic reads "117.38KB (120199) total, …".
func (h *h2loadReader) traffic(t string) {
	_, rest, _ := strings.Cut(t, "(")
	exact, _, _ := strings.Cut(rest, ")")
	if n, ok := textInt(exact); ok {
		h.o.BytesIn = &n
	}
}

// latency reads min, max, mean, sd, +/- sd.
func (h *h2loadReader) latency(of, t string) {
	f := strings.Fields(t)
	if len(f) < 3 || value(h.o.Requests) == 0 { // without requests all figures are 0
		return
	}
	d := latencyOf(of)
	for i, set := range []func(float64){d.min, d.max, d.mean} {
		if v, ok := textSeconds(f[i]); ok {
			set(v)
		}
	}
	if of == ofService {
		d.Count = *h.o.Requests
	}
	d.addTo(&h.o)
}
