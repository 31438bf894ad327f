package generator

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/result"
)

// result converts o to the result of the measure window of p. With a record of
// every request the window is exact. Otherwise the counts are the whole run's,
// scaled to the window, with a warning. p.Start is the start of the process.
func (t traits) result(o Outcome, p load.Profile) (result.Load, error) {
	if err := o.Impossible(); err != nil {
		return result.Load{}, err
	}
	l := result.Load{
		Generator: t.name, Version: o.Version, Loop: loopClosed,
		AskedRate: p.Rate, Connections: p.Connections,
		WarmupSeconds: seconds(p.Warmup), MeasureSeconds: seconds(p.Measure),
		Classes: map[string]int64{}, Published: o.Latencies, Warnings: o.Notes,
	}
	if p.Rate > 0 {
		l.Loop, l.Arrivals = t.loop, "constant"
	}
	l.Whole = o.runCounts(t, p)
	start := p.Start
	if start.IsZero() {
		start = o.Started
	}
	if !start.IsZero() {
		l.Start, l.End = start.Add(p.Warmup), start.Add(p.Warmup+p.Measure)
	}
	warn := func(format string, args ...any) { l.Warnings = append(l.Warnings, fmt.Sprintf(format, args...)) }
	if l.Loop == loopPaced {
		warn("%s waits for an answer before it sends the next request on a connection: a slow server slows the load, and the time requests waited is in no latency", t.name)
	}
	if p.ExpectSize >= 0 && !o.Sized {
		warn("%s does not check the size of answers", t.name)
	}
	if o.Records == nil {
		t.scale(&l, o, p, warn)
		return l, nil
	}
	return l, t.cut(&l, o, p, start, warn)
}

// scale scales the counts of the whole run to the measure window.
func (t traits) scale(l *result.Load, o Outcome, p load.Profile, warn func(string, ...any)) {
	run := o.Elapsed
	if run <= 0 {
		run = t.duration(p)
	}
	share := min(1, float64(p.Measure)/float64(run))
	part := func(n int64) int64 {
		if n <= 0 {
			return 0
		}
		return max(1, int64(math.Round(float64(n)*share))) // one error must not round to zero
	}
	if share < 0.999 {
		if t.calibration > 0 {
			warn("%s reports one figure for the whole run: its latencies begin after its own calibration of %v and last to the end; counts are the measure window's share of them", t.name, t.calibration)
		} else {
			warn("%s reports one figure for the whole run: its latencies take in warm-up and tail, and counts are the measure window's share", t.name)
		}
	}
	if p.HDRPath != "" {
		warn("%s keeps no record of single requests here: there is no interval log, only the figures it published", t.name)
	}
	l.Statuses, l.Errors = mapValues(o.Statuses, part), mapValues(o.Errors, part)
	t.classes(l, o, part)
	answers := l.Classes[string(load.OK)] + l.Classes[string(load.Status)]
	failed := l.Classes[string(load.Timeout)] + l.Classes[string(load.Conn)]
	l.Completed, l.Sent, l.Intended = answers+part(o.Slow), answers+failed, answers+failed
	if l.Loop == loopOpen {
		l.Intended = int64(math.Round(p.Rate * p.Measure.Seconds()))
	}
	if o.BytesIn != nil {
		l.BytesIn = part(*o.BytesIn)
	}
	if o.BytesOut != nil {
		l.BytesOut = part(*o.BytesOut)
	}
}

// classes counts by status, or by the generator's own split if it reports no statuses. Without
// either the classes of responses are unknown.
func (t traits) classes(l *result.Load, o Outcome, part func(int64) int64) {
	add := func(c load.Class, n int64) {
		if n > 0 {
			l.Classes[string(c)] += n
		}
	}
	switch {
	case o.Statuses != nil:
		for code, n := range o.Statuses {
			add(classOfStatus(code), part(n))
		}
	case o.OK != nil:
		add(load.OK, part(*o.OK))
		if o.NotOK != nil {
			add(load.Status, part(*o.NotOK))
		}
	}
	for text, n := range o.Errors {
		add(ClassOfError(text), part(n))
	}
}

func classOfStatus(code string) load.Class {
	if len(code) == 3 && code[0] == '2' || code == grpcOK {
		return load.OK
	}
	return load.Status
}

func mapValues(m map[string]int64, f func(int64) int64) map[string]int64 {
	if m == nil {
		return nil
	}
	out := make(map[string]int64, len(m))
	for k, n := range m {
		if n > 0 {
			out[k] = f(n)
		}
	}
	return out
}

// cut counts the requests of the measure window and writes the interval log.
func (t traits) cut(l *result.Load, o Outcome, p load.Profile, start time.Time, warn func(string, ...any)) error {
	// Times in output without a time of day are relative to the start of the process.
	var shift time.Duration
	if !o.Started.IsZero() {
		shift = o.Started.Sub(start)
	}
	from, to := p.Warmup, p.Warmup+p.Measure
	within := func(d time.Duration) bool { return d+shift >= from && d+shift < to }
	l.Statuses, l.Errors = map[string]int64{}, map[string]int64{}
	log := record.NewLog(p.Warmup, p.Measure)
	var lateness, responses, services []time.Duration
	var inWindow, scheduled int64
	for _, r := range o.Records {
		class := r.class(p.ExpectSize)
		due := r.At - max(r.Late, 0)
		if within(r.At) {
			l.Sent++
		}
		if r.Code > 0 && within(r.Done) {
			l.Completed++
			l.BytesIn += max(r.Size, 0)
		}
		if due+shift >= 0 && p.HDRPath != "" {
			if err := log.Add(record.Sample{At: due + shift, Class: class, Response: r.response(), Service: r.Service, Lateness: r.Late}); err != nil {
				return err
			}
		}
		if !within(due) {
			continue
		}
		inWindow++
		l.Classes[string(class)]++
		if r.Code > 0 {
			l.Statuses[strconv.Itoa(r.Code)]++
		} else {
			l.Errors[r.Error]++
		}
		if class == load.OK {
			responses, services = appendKnown(responses, r.response()), appendKnown(services, r.Service)
		}
		if r.Late >= 0 {
			scheduled++
			lateness = append(lateness, r.Late)
		}
	}
	l.Intended = inWindow
	if scheduled == 0 && l.Loop == loopOpen {
		l.Intended = int64(math.Round(p.Rate * p.Measure.Seconds()))
	}
	if o.Partial {
		t.absent(l, o, p, warn)
	}
	if inWindow == 0 {
		warn("none of the %d requests %s recorded lies in the measure window", len(o.Records), t.name)
	}
	setLateness(l, lateness)
	l.Published = nil // of the whole run, replaced by the window's
	for _, d := range []struct {
		of  string
		all []time.Duration
	}{{ofResponse, responses}, {ofService, services}} {
		if latency, ok := exact(t.name, d.of, d.all); ok {
			l.Published = append(l.Published, latency)
		}
	}
	return record.WriteWhole(p.HDRPath, "interval log", func(w io.Writer) error { return log.Write(w, start) })
}

func appendKnown(to []time.Duration, d time.Duration) []time.Duration {
	if d < 0 {
		return to
	}
	return append(to, d)
}

// absent counts the requests that an open loop owed and the output does not contain.
// Requests that the generator aborts in flight at the end are not errors.
func (t traits) absent(l *result.Load, o Outcome, p load.Profile, warn func(string, ...any)) {
	warn("%s omits requests without a response from this output: failures and their causes are unknown", t.name)
	if l.Loop != loopOpen {
		return
	}
	run := t.duration(p)
	missing := int64(p.Rate*run.Seconds()) - int64(len(o.Records)) - int64(p.Connections)
	if missing <= 0 {
		return
	}
	share := max(1, int64(math.Round(float64(missing)*float64(p.Measure)/float64(run))))
	l.Errors["due, and not in the output"] = share
	l.Classes[string(load.Conn)] += share
}

// response returns the response time from the intended start, as reported or computed from its parts.
func (r Record) response() time.Duration {
	if r.Response >= 0 {
		return r.Response
	}
	if r.Late >= 0 && r.Service >= 0 {
		return r.Late + r.Service
	}
	return unknown
}

func setLateness(l *result.Load, late []time.Duration) {
	if len(late) == 0 {
		return
	}
	slices.Sort(late)
	quantile := func(q float64) *float64 {
		return new(float64(late[int(q*float64(len(late)-1))]) / 1e3)
	}
	l.LatenessP50US, l.LatenessP99US, l.LatenessMaxUS = quantile(0.5), quantile(0.99), quantile(1)
}

// readJSON decodes a whole output.
func readJSON(r io.Reader, generator string, into any) error {
	text, err := readAll(r, generator)
	if err != nil {
		return err
	}
	return hint.Prefix(json.Unmarshal(text, into), "read output of %s", generator)
}

// maxOutput bounds an output in memory, in bytes.
const maxOutput = 64 << 20

// readAll reads a whole output of max maxOutput bytes.
func readAll(r io.Reader, generator string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxOutput+1))
	if err != nil {
		return nil, fmt.Errorf("read output of %s: %w", generator, err)
	}
	if len(b) > maxOutput {
		return nil, fmt.Errorf("read output of %s: it is longer than %d MiB", generator, maxOutput>>20)
	}
	return b, nil
}

// unsurePerStream requests may be sent beyond the reported ones, on each stream of each
// connection: fortio tests connections before the load, and most generators abort the
// requests in flight at the end.
const unsurePerStream = 2

// runCounts returns the requests of the whole run, or nil if the output does not contain them.
func (o *Outcome) runCounts(t traits, p load.Profile) *result.Whole {
	w := &result.Whole{Unsure: unsurePerStream * int64(p.Connections*max(1, p.Streams))}
	switch {
	case o.Records != nil:
		w.Sent = int64(len(o.Records))
		for _, r := range o.Records {
			switch {
			case r.Code == 0:
				w.Unanswered++
			case r.Code >= 400:
				w.Failed++
			}
		}
		if o.Partial { // those without an answer are missing
			w.Unsure += max(0, int64(p.Rate*t.duration(p).Seconds())-w.Sent)
		}
		return w
	case o.AllRequests != nil:
		w.Sent = *o.AllRequests
	case o.Requests != nil:
		w.Sent = *o.Requests
	case o.Statuses != nil:
		for _, n := range o.Statuses {
			w.Sent += n
		}
	default:
		return nil
	}
	for code, n := range o.Statuses {
		if classOfStatus(code) != load.OK {
			w.Failed += n
		}
	}
	if o.NotOK != nil {
		w.Failed += *o.NotOK
	}
	for _, n := range o.Errors { // in the count of some generators only
		w.Unanswered += n
		w.Unsure += n
	}
	w.Unanswered -= o.Slow
	return w
}

// exactQuantiles are computed if the output contains every request.
var exactQuantiles = []float64{0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999}

// exact computes the distribution of the latencies of all requests. It sorts all in place.
func exact(generator, of string, all []time.Duration) (result.Latency, bool) {
	if len(all) == 0 {
		return result.Latency{}, false
	}
	slices.Sort(all)
	n := len(all)
	total := lists.Sum(all, time.Duration.Seconds)
	d := latencyOf(of)
	d.Source, d.Meaning, d.Count = generator, Meaning(generator, of), int64(n)
	d.min(all[0].Seconds())
	d.mean(total / float64(n))
	d.max(all[n-1].Seconds())
	for _, q := range exactQuantiles {
		// The quantile is the smallest value that a share q of the requests does not exceed.
		d.quantile(q, all[min(n-1, max(0, int(q*float64(n)+0.999999)-1))].Seconds())
	}
	return d.Latency, true
}
