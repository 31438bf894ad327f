package record

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// failing is the report of a worker with successful and failed requests of every class.
func failing(t *testing.T, success ...string) load.Report {
	t.Helper()
	p := profile()
	p.ExpectStatus, p.Parts = success, 2
	c := NewCollector(&p, nil)
	r := c.Recorder()
	at := r.Window[0]
	for _, o := range []Outcome{
		{Status: 200, End: 1}, {Status: 200, End: 2}, {Status: 404, End: 3, Kind: kindOf(success)}, {Status: 503, End: 4, Kind: kindOf(success)}, {Status: 503, End: 5, Kind: kindOf(success)},
		{Status: 200, End: 6, Kind: load.FailureWrongSize}, {Sent: -1, End: 7, Kind: load.FailureNotSent}, {End: 8, Kind: load.FailureCertificate}, {End: 9, Kind: load.FailureReset},
	} {
		o.Intended, o.End = at, at+o.End*int64(time.Millisecond)
		if o.Sent == 0 {
			o.Sent = at
		}
		r.Due(o.Intended)
		r.Finish(&o)
	}
	r.Because(load.FailureCertificate, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}})
	r.Because(load.FailureCertificate, errors.New("a later one"))
	r.covered = p.Measure
	return c.Report(Facts{Started: time.Unix(1_800_000_000, 0)}, []*Totals{&r.Totals}, func(time.Duration) load.Host { return load.Host{} })
}

// kindOf is the kind of an unexpected status: none if no statuses are given.
func kindOf(success []string) load.Failure {
	if success == nil {
		return load.FailureNone
	}
	return load.FailureWrongStatus
}

// A request that never got a connection has the first failure before it as its reason.
func TestReasonOfRequestsWithoutConnection(t *testing.T) {
	const begun, kept = "timeout: an answer began and did not end", int64(time.Millisecond)
	for _, test := range []struct {
		want string
		do   func(r *Recorder, at int64)
	}{
		{"", func(*Recorder, int64) {}},
		{"", func(r *Recorder, at int64) { r.Finish(&Outcome{Intended: at, Sent: at, End: at, Status: 503}) }},
		{"first failure: connect refused", func(r *Recorder, at int64) {
			r.NotOpened(load.FailureRefused)
			r.NotOpened(load.FailureReset)
		}},
		{"first failure: " + begun, func(r *Recorder, at int64) {
			r.Finish(&Outcome{Intended: at, Sent: at, First: at + kept, End: at + 2*kept, Kind: load.FailureTimeout})
		}},
		{"first failure: timeout", func(r *Recorder, at int64) {
			r.Finish(&Outcome{Intended: at, Sent: at, First: at - kept, End: at + 2*kept, Kind: load.FailureTimeout})
		}},
	} {
		p := profile()
		r := NewCollector(&p, nil).Recorder()
		at := r.Window[0]
		r.Due(at)
		r.Due(at)
		test.do(&r, at)
		r.Finish(&Outcome{Intended: at, Sent: -1, End: at + 3*kept, Kind: load.FailureNotSent})
		if got := r.reasonsByName()[load.FailureNotSent.String()]; got != test.want {
			t.Errorf("reason %q, want %q", got, test.want)
		}
	}
}

// Every failed request has one cause, with or without statuses that are expected.
func TestResultOfFailures(t *testing.T) {
	for _, success := range [][]string{nil, {"2xx"}} {
		r := failing(t, success...)
		want := []load.Cause{
			{Cause: "status 503", Count: 2}, {Cause: "certificate refused", Count: 1, Detail: "x509: certificate signed by unknown authority"},
			{Cause: "reset", Count: 1}, {Cause: "status 404", Count: 1}, {Cause: "timeout before a connection was free", Count: 1}, {Cause: "wrong size", Count: 1},
		}
		if !reflect.DeepEqual(r.Result.Failures, want) || *r.Result.Success != 2.0/9 || r.Result.Failed() != 7 {
			t.Errorf("%q: %+v, success %v", success, r.Result.Failures, *r.Result.Success)
		}
		counts := map[string]int64{}
		for name, q := range r.FailedMS {
			counts[name] = q.Count
		}
		if fmt.Sprint(counts) != "map[2xx:1 4xx:1 5xx:2 conn:2 timeout:1]" || r.FailedMS["timeout"].P50 < 6.9 {
			t.Errorf("%q: times of %v", success, counts)
		}
		if len(r.Histogram) != 2 || r.Histogram[0] != (load.Bucket{ToMS: 1.25, Count: 1}) && r.Histogram[0] != (load.Bucket{ToMS: 1, Count: 1}) {
			t.Errorf("histogram %v", r.Histogram)
		}
	}
}

// Results and times of failures survive the merge of two parts.
func TestMergeOfFailures(t *testing.T) {
	one := failing(t)
	b := must.Get(json.Marshal(one))(t)
	var read load.Report
	must.OK(t, json.Unmarshal(b, &read))
	m := must.Get(Merge([]load.Report{one, read}))(t)
	if len(m.Result.Failures) != len(one.Result.Failures) || *m.Result.Success != *one.Result.Success {
		t.Errorf("%+v", m.Result)
	}
	for i, c := range m.Result.Failures {
		if w := one.Result.Failures[i]; c.Cause != w.Cause || c.Count != 2*w.Count || c.Detail != w.Detail {
			t.Errorf("%+v, of each part %+v", c, w)
		}
	}
	for name, q := range m.FailedMS {
		if w := one.FailedMS[name]; q.Count != 2*w.Count || q.Max != w.Max {
			t.Errorf("%s: %+v, of each part %+v", name, q, w)
		}
	}
}

// Distributions without a value are absent from the JSON.
func TestEmptyIsAbsent(t *testing.T) {
	p := profile()
	c := NewCollector(&p, nil)
	r := c.Recorder()
	r.covered = p.Measure
	report := c.Report(Facts{}, []*Totals{&r.Totals}, func(time.Duration) load.Host { return load.Host{} })
	b := must.Get(json.Marshal(report))(t)
	for _, name := range []string{"latency_ms", "service_ms", "lateness_us", "own_lateness_us", "ttfb_ms", "connect_ms", "failed_ms", "histogram", "success", "failures", "gapDistance", "p99"} {
		if strings.Contains(string(b), `"`+name+`"`) {
			t.Errorf("%s of nothing: %s", name, b)
		}
	}
}

// The text of an error may be the server's: it is bounded and has no control characters.
func TestReasonsAreBounded(t *testing.T) {
	if got := reasonOf(errors.New("a\x1b[31m\nb" + strings.Repeat("x", 1000))); len([]rune(got)) != maxReason || strings.ContainsAny(got, "\x1b\n") {
		t.Errorf("%q", got)
	}
	if got := Tally(map[string]int64{"reset": 2, "connect refused": 53}, map[string]string{"reset": "why"}); got != "connect refused (53), reset: why (2)" {
		t.Errorf("%q", got)
	}
}

// A histogram has every value, in ascending buckets that are bounds of the series.
func TestHistogramCountsEverything(t *testing.T) {
	h := newHistogram()
	for ns := int64(0); ns < int64(time.Minute); ns = ns*11/10 + 777 {
		put(h, ns)
	}
	var sum int64
	last := 0.0
	for _, b := range histogram(h) {
		if b.Count == 0 || b.ToMS <= last || load.BoundAbove(b.ToMS, load.HistogramBounds) != b.ToMS {
			t.Errorf("%+v after %v", b, last)
		}
		last = b.ToMS
		sum += b.Count
	}
	if sum != h.TotalCount() || last < 60_000 || last > 80_000 {
		t.Errorf("%d of %d values, up to %v ms", sum, h.TotalCount(), last)
	}
}

// TestMergeKeepsCauses checks that the parts of one load lose no cause of a failure when they are merged.
func TestMergeKeepsCauses(t *testing.T) {
	part := load.Report{
		Parts: &load.Distributions{}, Classes: map[load.Class]int64{load.Status: 3}, Lost: map[string]int64{"goaway": 2}, GoAways: 4, ExtraBytes: 5,
		Result: load.Result{Failures: []load.Cause{{Cause: "status grpc-14", Count: 3, Detail: "no healthy upstream"}}},
	}
	m := must.Get(Merge([]load.Report{part, part}))(t)
	want := []load.Cause{{Cause: "status grpc-14", Count: 6, Detail: "no healthy upstream"}}
	if d := difftest.Of(`m.Lost["goaway"]`, m.Lost["goaway"], 4, "m.GoAways", m.GoAways, 8, "m.ExtraBytes", m.ExtraBytes, 10, "slices.Equal(m.Result.Failures, want)", slices.Equal(m.Result.Failures, want), true); d != "" {
		t.Errorf("%s: %v, %d, %d, %+v", d, m.Lost, m.GoAways, m.ExtraBytes, m.Result.Failures)
	}
}
