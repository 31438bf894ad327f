package generator

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

// Outcome is what the output of a load generator says of one run, in one form
// for all of them. What the output does not say is absent: nil, or a zero time;
// never a zero that could be taken for a figure.
type Outcome struct {
	Generator string
	Version   string
	Started   time.Time
	Elapsed   time.Duration // of the run; 0: not said
	AskedRate *float64      // 1/s
	// Connections is the number of connections, or of workers with one each.
	Connections *int
	// Requests is how many finished, whatever became of them.
	Requests *int64
	// Rate is the finished requests per second as the generator worked it out.
	Rate *float64
	// OK and NotOK split Requests where there are no status codes.
	OK, NotOK *int64
	Statuses  map[string]int64 // by code
	Errors    map[string]int64 // by the generator's own words; requests without an answer
	BytesIn   *int64
	BytesOut  *int64
	// Latencies are the distributions over the whole run.
	Latencies []result.Latency
	// Records is every request, where the output has them, in no certain order.
	Records []Record
	// Partial says that Records leaves out requests without an answer.
	Partial bool
	// Notes are faults of the output a reader of its figures must know.
	Notes []string
}

// Record is one request.
type Record struct {
	// At is when it was sent (by the meaning its generator gives to that), from Outcome.Started.
	At time.Duration
	// Late is At minus the intended start; negative: unknown.
	Late time.Duration
	Done time.Duration // last byte or giving up, from Outcome.Started
	// Service is from At to Done; negative: unknown.
	Service time.Duration
	// Response is from the intended start as the generator has it; negative: unknown.
	Response time.Duration
	Seq      uint64 // its number in the schedule, where Late can be worked out from it
	Code     int    // status; 0: no answer
	Error    string // why there was none
	Size     int64  // of the body in bytes; negative: unknown
}

// unknown is the duration of what a generator does not say.
const unknown = time.Duration(-1)

// maxSize bounds the size of one message that is believed, in bytes.
const maxSize = 1 << 36

// maxRecords bounds what is kept of one run: 100 bytes each.
const maxRecords = 20_000_000

// Latency distributions by where their clock starts.
const (
	ofResponse  = "response"
	ofService   = "service"
	ofFirstByte = "first byte"
)

func (o *Outcome) note(text string) {
	if !slices.Contains(o.Notes, text) {
		o.Notes = append(o.Notes, text)
	}
}

// class of a finished request.
func (r Record) class(wantSize int64) load.Class {
	switch {
	case r.Code == 0:
		return classOfError(r.Error)
	case r.Code/100 != 2, wantSize >= 0 && r.Size >= 0 && r.Size != wantSize:
		return load.Status
	}
	return load.OK
}

// timeoutWords are how generators speak of a request that was given up.
var timeoutWords = []string{"timeout", "timed out", "deadline exceeded", "time-out"}

// classOfError tells a time-out from every other error by the generator's words.
func classOfError(text string) load.Class {
	text = strings.ToLower(text)
	for _, w := range timeoutWords {
		if strings.Contains(text, w) {
			return load.Timeout
		}
	}
	return load.Conn
}

// distribution builds a published latency; every figure in seconds times unit.
// Figures that are no latency (NaN, infinite, negative) are left out.
type distribution struct {
	result.Latency
}

func latencyOf(of string) *distribution {
	return &distribution{result.Latency{Of: of}}
}

// millis is d in ms, or nil when it is no latency.
func millis(seconds float64) *float64 {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) || seconds < 0 {
		return nil
	}
	// Rounded to the picosecond, so that 0.0003 s is 0.3 ms and not 0.30000000000000004.
	ms := math.Round(seconds*1e12) / 1e9
	if math.IsInf(ms, 0) {
		return nil
	}
	return &ms
}

func (d *distribution) min(s float64)  { d.MinMS = millis(s) }
func (d *distribution) mean(s float64) { d.MeanMS = millis(s) }
func (d *distribution) max(s float64)  { d.MaxMS = millis(s) }

// quantile q is 0..1. The first value given for a quantile stays.
func (d *distribution) quantile(q, s float64) {
	ms := millis(s)
	if ms == nil || !(q >= 0 && q <= 1) {
		return
	}
	q = math.Round(q*1e9) / 1e9
	at, found := slices.BinarySearchFunc(d.Quantiles, q, func(x result.Quantile, q float64) int {
		switch {
		case x.Q < q:
			return -1
		case x.Q > q:
			return 1
		}
		return 0
	})
	if !found {
		d.Quantiles = slices.Insert(d.Quantiles, at, result.Quantile{Q: q, MS: *ms})
	}
}

func (d *distribution) bucket(low, high float64, count int64) {
	l, h := millis(low), millis(high)
	if l == nil || h == nil || count <= 0 || *h < *l {
		return
	}
	d.Buckets = append(d.Buckets, result.Bucket{LowMS: *l, HighMS: *h, Count: count})
}

// add puts d into o unless nothing is known of it.
func (d *distribution) addTo(o *Outcome) {
	if d.MinMS == nil && d.MeanMS == nil && d.MaxMS == nil && d.Quantiles == nil && d.Buckets == nil {
		return
	}
	d.Meaning = Meaning(o.Generator, d.Of)
	d.Source = o.Generator
	slices.SortStableFunc(d.Buckets, func(a, b result.Bucket) int {
		switch {
		case a.LowMS < b.LowMS:
			return -1
		case a.LowMS > b.LowMS:
			return 1
		}
		return 0
	})
	o.Latencies = append(o.Latencies, d.Latency)
}

func ptr[T any](v T) *T { return &v }

// count is a non-negative, finite figure as a count.
func count(f float64) *int64 {
	if math.IsNaN(f) || f < 0 || f > maxCount {
		return nil
	}
	return ptr(int64(math.Round(f)))
}

// maxCount bounds every count that is read, so that sums of them stay in range.
const maxCount = 1 << 53

// textInt reads a count.
func textInt(s string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return n, err == nil && n >= 0 && n <= maxCount
}

// positive is f, or nil when it is no rate.
func positive(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
		return nil
	}
	return &f
}

// span is s seconds as a duration; 0 when it is none.
func span(s float64) time.Duration {
	if math.IsNaN(s) || s < 0 || s > 1e9 {
		return 0
	}
	return time.Duration(math.Round(s * 1e9))
}
