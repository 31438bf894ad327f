package importer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// ParseOutput parses the output of a load generator and checks that its figures
// are consistent. An edited, truncated or joined file is inconsistent.
func ParseOutput(generator, path string, b []byte, corrected bool) (*Output, error) {
	f := formatOf(generator)
	if records := f.recordsOf(b); records != nil {
		return records.read(bytes.NewReader(b), generator, path, corrected)
	}
	if f.name == "" {
		return nil, &FileError{Path: path, Hinted: hint.Hinted{Err: fmt.Errorf("no reader for %s", generator)}}
	}
	if err := f.foreign(path, b); err != nil {
		return nil, err
	}
	if err := f.whole(path, b); err != nil {
		return nil, err
	}
	oc, err := f.parse(bytes.NewReader(b), corrected)
	if err != nil {
		return nil, parseError(path, b, err)
	}
	o := newOutput(f, path)
	o.generator, o.version, o.Seconds, o.statuses, o.started = oc.Generator, oc.Version, oc.Elapsed.Seconds(), oc.Statuses, oc.Started
	o.Loop = cmp.Or(oc.Loop, o.Loop)
	if err := o.add(oc, f); err != nil {
		return nil, damaged(path, Lines(b), generator, err)
	}
	o.falseTimeouts()
	return o, nil
}

func newOutput(f format, path string) *Output {
	return &Output{path: path, Loop: f.loop, Arrivals: f.arrivals, classes: map[string]int64{}, errors: map[string]int64{}}
}

// damaged is the error of an output whose figures do not fit.
func damaged(path string, line int, generator string, err error) error {
	return &FileError{Path: path, Line: line, Hinted: hint.Hinted{Err: err, Text: cmp.Or(hint.Of(err), "the file was damaged or cut off, or is not "+generator+"'s: restore it, or leave this run out")}}
}

// whole checks that the marks of a complete text occur exactly once.
func (f format) whole(path string, b []byte) error {
	if !bytes.HasPrefix(bytes.TrimLeft(b, " \r\n\t"), []byte(f.head)) {
		return nil
	}
	for _, mark := range f.once {
		switch n := bytes.Count(b, []byte(mark)); {
		case n == 0:
			return &FileError{Path: path, Line: Lines(b), Hinted: hint.Hinted{Err: fmt.Errorf("it has no %q: it was cut off, or is of another program", mark), Text: "restore the file, or leave this run out"}}
		case n > 1:
			second := bytes.LastIndex(b, []byte(mark))
			return &FileError{Path: path, Line: Lines(b[:second]), Hinted: hint.Hinted{Err: fmt.Errorf("%q occurs %d times: files were joined", mark, n), Text: "restore the file, or leave this run out"}}
		}
	}
	return nil
}

// parseError finds the line of a parse error that has only an offset, or no
// position.
func parseError(path string, b []byte, err error) error {
	e := &FileError{Path: path, Line: 1, Hinted: hint.Hinted{Err: err, Text: cmp.Or(hint.Of(err), "the file was damaged or cut off: restore it, or leave this run out")}}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		e.Line = Lines(b[:min(len(b), int(max(syntax.Offset, 0)))])
	case errors.As(err, &kind):
		e.Line = Lines(b[:min(len(b), int(max(kind.Offset, 0)))])
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Line = Lines(b)
	case strings.Contains(err.Error(), "line "):
		e.Line = 0 // the error contains it
	}
	return e
}

// Lines returns the number of the last line of b, from 1.
func Lines(b []byte) int { return bytes.Count(b, []byte("\n")) + 1 }

func (o *Output) add(oc generator.Outcome, f format) error {
	if err := oc.Impossible(); err != nil {
		return err
	}
	if oc.AskedRate != nil {
		o.Rate = *oc.AskedRate
	}
	if oc.Connections != nil {
		o.connections = *oc.Connections
	}
	if oc.BytesIn != nil {
		o.bytesIn = *oc.BytesIn
	}
	if oc.BytesOut != nil {
		o.bytesOut = *oc.BytesOut
	}
	for kind, n := range oc.Errors {
		if n < 0 {
			return fmt.Errorf("%d of error %.40q", n, kind)
		}
		if n > 0 && oc.Records == nil { // records are counted below
			o.errors[kind] = n
		}
	}
	if oc.Records != nil {
		if err := o.records(oc); err != nil {
			return err
		}
	}
	if err := o.count(oc); err != nil {
		return err
	}
	if o.bins == nil {
		if err := o.distribution(oc.Latencies); err != nil {
			return err
		}
	}
	o.latency.Source = o.path
	if good := o.classes["2xx"]; good == 0 && len(o.classes) > 0 {
		o.latency, o.bins = result.Latency{}, nil // of failures only
	} else if failed := o.tried - good; f.failures && len(o.classes) > 0 && failed > 0 && oc.Records == nil {
		o.warn("source-note", fmt.Sprintf("latencies of %s are of all requests, %d failed ones of %d among them", o.generator, failed, o.tried), "", metric.Latency, metric.ServiceTime)
	}
	for _, n := range oc.Notes {
		o.warn("source-note", n, "")
	}
	return nil
}

// distribution uses the response times of the source, else its service times.
func (o *Output) distribution(ls []result.Latency) error {
	for _, l := range ls {
		if l.Of != response && l.Of != service {
			continue
		}
		if err := ascending(l.Quantiles); err != nil {
			return err
		}
		if o.latency.Of == "" || l.Of == response {
			o.latency = l
		}
	}
	if o.latency.Count > 0 && o.latency.Count > o.requests+sum(o.errors) {
		return fmt.Errorf("the latencies are of %d requests, and there were %d", o.latency.Count, o.requests)
	}
	b, err := bins(o.latency)
	if err != nil || !fine(o.latency.Buckets) {
		return err
	}
	var counted int64
	for _, x := range b {
		counted += x.count
	}
	if counted > o.requests+sum(o.errors) {
		return fmt.Errorf("the histogram is of %d requests, and there were %d", counted, o.requests)
	}
	o.bins = b
	return nil
}

// count computes the number of requests and of their outcomes.
func (o *Output) count(oc generator.Outcome) error {
	if oc.Records == nil {
		if err := o.answers(oc); err != nil {
			return err
		}
	}
	o.tried = o.requests - oc.Slow
	for kind, n := range o.errors {
		o.classes[string(generator.ClassOfError(kind))] += n
		o.tried += n
	}
	if o.tried == 0 {
		return errors.New("it has no request")
	}
	most := o.tried
	for _, n := range []*int64{oc.Requests, oc.AllRequests} {
		if n != nil {
			most = max(most, *n)
		}
	}
	wrk := o.generator == "wrk2" || o.generator == "wrk"
	switch {
	case wrk && oc.Rate == nil:
		return errors.New("its Requests/sec is not a number")
	case oc.Rate == nil:
		rate := float64(o.tried) / math.Max(o.Seconds, 1e-9)
		o.sent = cmp.Or(o.sent, rate)
		return o.check(rate, o.Seconds, most)
	case o.Seconds <= 0 && *oc.Rate > 0:
		o.Seconds = float64(cmp.Or(o.requests, o.tried)) / *oc.Rate // a run without an answer has a duration too
	}
	o.sent = *oc.Rate
	seconds := o.Seconds
	if oc.Sending > 0 && o.tried > 1 { // one request has no time between the first and the last
		seconds = oc.Sending.Seconds()
	}
	if err := o.check(*oc.Rate, seconds, most); err != nil {
		return err
	}
	if wrk && o.requests > 0 {
		// Their duration is "5.00m", and their rate has two decimals.
		o.Seconds = float64(o.requests) / *oc.Rate
	}
	return nil
}

// answers counts responses by status, or as good and bad without statuses. Without
// either their classes are unknown.
func (o *Output) answers(oc generator.Outcome) error {
	for code, n := range oc.Statuses {
		switch {
		case n < 0:
			return fmt.Errorf("%d answers of status %.20q", n, code)
		case code == "0" || strings.HasPrefix(code, "-"):
			o.errors["no answer"] += n
			continue
		case strings.HasPrefix(code, "2") && len(code) == 3 || code == "SERVING" || code == "OK":
			o.classes["2xx"] += n
		default:
			o.classes["status"] += n
		}
		o.requests += n
	}
	switch {
	case oc.Statuses != nil:
	case oc.OK != nil:
		o.classes["2xx"], o.requests = *oc.OK, *oc.OK+oc.Slow
		if oc.NotOK != nil {
			o.classes["status"] = *oc.NotOK
			o.requests += *oc.NotOK
		}
	case oc.Requests != nil:
		o.requests = max(0, *oc.Requests-sum(o.errors))
		o.warn("source-note", "the output has no statuses: failed responses are unknown", "", metric.ErrorRatio)
	}
	return nil
}

// records counts a generator's own record of every request.
func (o *Output) records(oc generator.Outcome) error {
	c := requests{sized: oc.BytesIn != nil}
	for _, r := range oc.Records {
		c.add(o, r)
	}
	return c.finish(o)
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}
