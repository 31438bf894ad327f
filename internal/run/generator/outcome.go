package generator

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// Outcome is the content of any load generator's output for one run. A value that
// the output does not contain is nil or a zero time, never a zero figure.
type Outcome struct {
	Generator string
	Version   string
	Started   time.Time
	Elapsed   time.Duration // of the run, 0 if unknown
	// Sending is the time in which the Rate was sent, 0 if it is Elapsed. vegeta's rate excludes
	// the wait for the last responses.
	Sending   time.Duration
	Loop      string   // [loopClosed] if the output names a closed loop, otherwise empty
	AskedRate *float64 // 1/s
	// Connections is the number of connections, or of workers with one each.
	Connections *int
	// Requests is the number of finished requests, failed ones included.
	Requests *int64
	// AllRequests counts the whole run, if Requests omits some: requests outside the measure
	// window, or aborted at its end.
	AllRequests *int64
	// Rate is the finished requests per second as the generator computed it.
	Rate *float64
	// OK and NotOK split Requests if the output has no status codes.
	OK, NotOK *int64
	Statuses  map[string]int64 // by code
	Errors    map[string]int64 // by the generator's error text, of requests without a response
	// Slow counts responses after wrk's timeout. Errors has them too.
	Slow     int64
	BytesIn  *int64
	BytesOut *int64
	// Latencies are the distributions over the whole run.
	Latencies []result.Latency
	// Records has every request in no particular order, if the output contains them.
	Records []Record
	// Sized reports that Records have the sizes of responses.
	Sized bool
	// Partial reports that Records omits requests without a response.
	Partial bool
	// Notes are defects of the output that affect its figures.
	Notes []string
}

// Impossible returns an error for a figure that no load has: a count, a time or a rate below zero.
func (o *Outcome) Impossible() (err error) {
	check := func(v float64, name string) {
		if err == nil && v < 0 {
			err = fmt.Errorf("it has %g %s", v, name)
		}
	}
	known := func(v *float64, name string) {
		if v != nil {
			check(*v, name)
		}
	}
	check(o.Elapsed.Seconds(), "seconds")
	check(o.Sending.Seconds(), "seconds of sending")
	check(float64(o.Slow), "slow responses")
	known(o.AskedRate, "requests per second to send")
	known(o.Rate, "requests per second")
	if o.Connections != nil {
		check(float64(*o.Connections), "connections")
	}
	for _, c := range []struct {
		n    *int64
		name string
	}{{o.Requests, "requests"}, {o.AllRequests, "requests in the whole run"}, {o.OK, "good responses"}, {o.NotOK, "bad responses"}, {o.BytesIn, "bytes received"}, {o.BytesOut, "bytes sent"}} {
		if c.n != nil {
			check(float64(*c.n), c.name)
		}
	}
	for _, counted := range []map[string]int64{o.Statuses, o.Errors} {
		for what, n := range counted {
			check(float64(n), fmt.Sprintf("times %.40q", what))
		}
	}
	for _, l := range o.Latencies {
		check(float64(l.Count), "requests with a latency")
		known(l.MinMS, "ms as its minimum")
		known(l.MeanMS, "ms as its mean")
		known(l.MaxMS, "ms as its maximum")
		for _, q := range l.Quantiles {
			check(q.MS, fmt.Sprintf("ms as quantile %g", q.Q))
		}
		for i, b := range l.Buckets {
			check(float64(b.Count), fmt.Sprintf("requests in bucket %d", i+1))
			check(b.LowMS, fmt.Sprintf("ms as the beginning of bucket %d", i+1))
		}
	}
	return err
}

// Record is one request.
type Record struct {
	// At is the send time by the generator's definition, from Outcome.Started.
	At time.Duration
	// Late is At minus the intended start, negative if unknown.
	Late time.Duration
	Done time.Duration // last byte or timeout, from Outcome.Started
	// Service is from At to Done, negative if unknown.
	Service time.Duration
	// Response is from the generator's intended start to Done, negative if unknown.
	Response time.Duration
	Seq      uint64 // its number in the schedule, if Late is computable from it
	Code     int    // status, 0 without a response
	// Passed and Failed are the result of the generator's own checks, in spite of the status. Without one both are false.
	Passed, Failed bool
	Error          string // why there was no response
	Size           int64  // of the body in bytes, negative if unknown
}

// unknown is a duration that the generator does not report.
const unknown = time.Duration(-1)

// maxSize bounds the accepted size of one message, in bytes.
const maxSize = 1 << 36

// maxRecords bounds the records of one run, of 100 bytes each.
const maxRecords = 20_000_000

// Kinds of latency distribution, by the start of their clock.
const (
	ofResponse  = "response"
	ofService   = "service"
	ofFirstByte = "first byte"
)

// failed counts requests that failed of one kind of error.
func (o *Outcome) failed(kind string, n int64) {
	if n == 0 {
		return
	}
	if o.Errors == nil {
		o.Errors = map[string]int64{}
	}
	o.Errors[kind] += n
}

func (o *Outcome) note(text string) {
	o.Notes = lists.Add(o.Notes, text)
}

func (r Record) class(wantSize int64) load.Class {
	switch {
	case r.Code == 0:
		return ClassOfError(r.Error)
	case r.Code/100 != 2, wantSize >= 0 && r.Size >= 0 && r.Size != wantSize:
		return load.Status
	}
	return load.OK
}

// distribution builds a published latency, in which every figure is in seconds
// times unit. It omits figures that are not a latency: NaN, infinite. Negative ones remain, so that [Outcome.Impossible] finds them.
type distribution struct {
	result.Latency
}

func latencyOf(of string) *distribution {
	return &distribution{result.Latency{Of: of}}
}

// summary adds the figures that are known.
func (d *distribution) summary(min, mean, max *float64) {
	for _, f := range []struct {
		set func(float64)
		v   *float64
	}{{d.min, min}, {d.mean, mean}, {d.max, max}} {
		if f.v != nil {
			f.set(*f.v)
		}
	}
}

func (d *distribution) min(s float64) { d.MinMS = millis(s) }

func (d *distribution) mean(s float64) { d.MeanMS = millis(s) }

func (d *distribution) max(s float64) { d.MaxMS = millis(s) }

// quantile adds the value of quantile q (0..1). It keeps the first value of each quantile.
func (d *distribution) quantile(q, s float64) {
	ms := millis(s)
	if ms == nil || !(q >= 0 && q <= 1) {
		return
	}
	q = math.Round(q*1e9) / 1e9
	at, found := slices.BinarySearchFunc(d.Quantiles, q, func(x result.Quantile, q float64) int { return cmp.Compare(x.Q, q) })
	if !found {
		d.Quantiles = slices.Insert(d.Quantiles, at, result.Quantile{Q: q, MS: *ms})
	}
}

func (d *distribution) bucket(low, high float64, count int64) {
	l, h := millis(low), millis(high)
	if l == nil || h == nil || count == 0 || *h < *l {
		return
	}
	d.Buckets = append(d.Buckets, result.Bucket{LowMS: *l, HighMS: *h, Count: count})
}

// millis converts seconds to ms. It returns nil for NaN and infinite values.
func millis(seconds float64) *float64 {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		return nil
	}
	// Rounding to the picosecond makes 0.0003 s equal 0.3 ms, not 0.30000000000000004.
	ms := math.Round(seconds*1e12) / 1e9
	if math.IsInf(ms, 0) {
		return nil
	}
	return &ms
}

// addTo adds d to o unless d is empty.
func (d *distribution) addTo(o *Outcome) {
	if d.MinMS == nil && d.MeanMS == nil && d.MaxMS == nil && d.Quantiles == nil && d.Buckets == nil {
		return
	}
	d.Meaning = Meaning(o.Generator, d.Of)
	d.Source = o.Generator
	slices.SortStableFunc(d.Buckets, func(a, b result.Bucket) int { return cmp.Compare(a.LowMS, b.LowMS) })
	o.Latencies = append(o.Latencies, d.Latency)
}

// count converts a finite figure to a count.
func count(f float64) *int64 {
	if math.IsNaN(f) || math.Abs(f) > maxCount {
		return nil
	}
	return new(int64(math.Round(f)))
}

// maxCount bounds every parsed count, so that sums do not overflow.
const maxCount = 1 << 53

func textInt(s string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return n, err == nil && n >= 0 && n <= maxCount
}

// asRate returns f, or nil if f is not a number.
func asRate(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

// span converts s seconds to a duration, or to 0 if s is not a duration.
func span(s float64) time.Duration {
	if math.IsNaN(s) || math.Abs(s) > 1e9 {
		return 0
	}
	return time.Duration(math.Round(s * 1e9))
}

// errorKinds maps the texts of network errors, in lower case, to the engine's error kinds.
// A port number in a message therefore does not create a kind.
var errorKinds = []struct{ contains, kind string }{
	{"connection refused", "connect refused"},
	{"connection reset", "reset"},
	{"broken pipe", "reset"},
	{"unexpected eof", "half a response"},
	{"eof", "closed before an answer"},
	{"server closed", "closed before an answer"},
	{"too many open files", "out of file descriptors"},
	{"cannot assign requested address", "out of local ports"},
	{"no such host", "connect failed"},
	{"no route to host", "connect failed"},
	{"malformed http", "malformed response"},
}

func errorKind(text string) string {
	if ClassOfError(text) == load.Timeout {
		return "timeout"
	}
	text = strings.ToLower(text)
	for _, k := range errorKinds {
		if strings.Contains(text, k.contains) {
			return k.kind
		}
	}
	return "other"
}

// ClassOfError classifies an error text as a timeout or another error.
func ClassOfError(text string) load.Class {
	text = strings.ToLower(text)
	for _, w := range []string{"timeout", "timed out", "deadline", "time-out"} {
		if strings.Contains(text, w) {
			return load.Timeout
		}
	}
	return load.Conn
}

// Units in the texts of wrk, wrk2 and vegeta, by the printed suffix.
var (
	timeUnits = map[string]float64{
		"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "sec": 1, "secs": 1, "m": 60, "min": 60, "h": 3600,
	}
	countUnits = map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
	sizeUnits  = map[string]float64{
		"": 1, "B": 1, "bytes": 1,
		"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50,
		"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "PB": 1 << 50,
		"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	}
)

// textSeconds parses a text like "1.31ms" to seconds, and ok is false if it is not a
// time.
func textSeconds(s string) (float64, bool) {
	v, err := Quantity(s, timeUnits)
	return v, err == nil
}

// textCount parses "12345" or "3.24k".
func textCount(s string) (float64, bool) {
	v, err := Quantity(s, countUnits)
	return v, err == nil && v >= 0
}

// textSize parses "1.42MB" to bytes, in powers of 1024.
func textSize(s string) (float64, bool) {
	v, err := Quantity(s, sizeUnits)
	return v, err == nil && v >= 0
}

// Quantity parses "12.5ms" by a table of units. Numbers that are not finite are
// errors: wrk2 prints "-nanus" for a run without latencies.
func Quantity(s string, units map[string]float64) (float64, error) {
	s = strings.TrimSpace(s)
	end := len(s)
	for i, c := range s {
		if (c < '0' || c > '9') && c != '.' && !(c == '-' && i == 0) {
			end = i
			break
		}
	}
	n, err := strconv.ParseFloat(s[:end], 64)
	if err != nil {
		return 0, fmt.Errorf("read %.40q: no number", s)
	}
	unit, ok := units[strings.TrimSpace(s[end:])]
	if !ok {
		return 0, fmt.Errorf("read %.40q: unknown unit %.20q", s, s[end:])
	}
	if v := n * unit; !math.IsInf(v, 0) && !math.IsNaN(v) {
		return v, nil
	}
	return 0, fmt.Errorf("read %.40q: out of range", s)
}
