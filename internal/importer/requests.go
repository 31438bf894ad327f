package importer

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// requests adds up a generator's record of every request. It keeps 16 bytes of each.
type requests struct {
	n           int
	first, last time.Duration // sends
	end         time.Duration // of the last response
	responses   bool          // latencies are response times
	sized       bool          // the output has the sum of bytes
	took        []time.Duration
	marks       []uint64 // a hash of each request
	statuses    map[string]int64
	fraction    bool                   // a time has a fraction of a second
	spans       map[time.Duration]span // by the second of their first send
	origin      time.Time              // of the times, zero if unknown
}

// span is the time with a request under way, of the requests that were sent in one second.
type span struct {
	end time.Duration
	n   int
}

// recordFormat is an output with every request, which is read in parts.
type recordFormat struct {
	heads  []string
	has    string // follows in the beginning
	each   func(r io.Reader, corrected bool, each func(generator.Record)) error
	day    bool // times of day, without a date
	coarse bool // times are in ms or s: different requests can have equal figures
	omits  bool // requests without a response
}

// uncorrected adapts readers that do not need the flag.
func uncorrected(each generator.Each) func(io.Reader, bool, func(generator.Record)) error {
	return func(r io.Reader, _ bool, record func(generator.Record)) error { return each(r, record) }
}

// streamOutput reads a record of every request without the whole file in memory. Nil means that it is none.
func streamOutput(name, path string, corrected bool) (*Output, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := unpacked(bufio.NewReader(f))
	if err != nil {
		return nil, fileError(path, err)
	}
	head, _ := r.Peek(headBytes) // a short file has less
	records := formatOf(name).recordsOf(head)
	if records == nil {
		return nil, nil
	}
	return records.read(r, name, path, corrected)
}

// headBytes is how much of a file shows its format.
const headBytes = 512

// recordsOf returns the format of every request that begins with head, or nil.
func (f format) recordsOf(head []byte) *recordFormat {
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	for i, r := range f.records {
		if bytes.Contains(head[:min(len(head), headBytes)], []byte(r.has)) && slices.ContainsFunc(r.heads, func(h string) bool { return bytes.HasPrefix(head, []byte(h)) }) {
			return &f.records[i]
		}
	}
	return nil
}

func (f *recordFormat) read(r io.Reader, name, path string, corrected bool) (*Output, error) {
	o := newOutput(format{}, path)
	o.generator = name
	var c requests
	if f.day {
		c.origin = time.Unix(0, 0)
	}
	err := f.each(r, corrected, func(r generator.Record) { c.add(o, r) })
	if err == nil {
		if f.coarse {
			c.marks = nil
		}
		err = c.finish(o)
	}
	if err == nil {
		err = o.count(generator.Outcome{Records: []generator.Record{}}) // all are counted
	}
	if err != nil {
		return nil, damaged(path, 0, name, err)
	}
	o.latency.Source = path
	if f.day {
		o.started = time.Unix(0, int64(c.first)).UTC()
	}
	if f.omits {
		o.warn("source-note", name+" omits requests without a response from this output: failures and their causes are unknown", "", metric.ErrorRatio)
	}
	return o, nil
}

// seed is shared by all marks, so that equal requests have equal marks.
var seed = maphash.MakeSeed()

func (c *requests) add(o *Output, r generator.Record) {
	if c.n++; c.n == 1 {
		c.first, c.last, c.responses, c.statuses, c.spans = r.At, r.At, r.Response >= 0, map[string]int64{}, map[time.Duration]span{}
	}
	at := r.At.Truncate(time.Second)
	s := c.spans[at]
	c.spans[at] = span{max(s.end, r.Done), s.n + 1}
	c.first, c.last, c.end = min(c.first, r.At), max(c.last, r.At), max(c.end, r.Done)
	c.fraction = c.fraction || r.Done%time.Second != 0
	c.marks = append(c.marks, maphash.Comparable(seed, r))
	switch {
	case r.Code == 0 && !r.Passed && (!r.Failed || r.Error != ""):
		o.errors[cmp.Or(r.Error, "no answer")]++
		return
	case r.Passed || r.Code/100 == 2 && !r.Failed:
		o.classes["2xx"]++
		v := r.Service
		if c.responses {
			v = r.Response
		}
		if v >= 0 {
			c.took = append(c.took, v)
		}
	default:
		o.classes["status"]++
	}
	if r.Size > 0 && !c.sized {
		o.bytesIn += r.Size
	}
	switch {
	case r.Code > 0:
		c.statuses[strconv.Itoa(r.Code)]++
	case r.Failed:
		c.statuses["failed check"]++
	}
	o.requests++
}

// leastGap is the shortest pause between two runs, and gapRatio its least multiple of the longest pause within them.
const (
	leastGap = 30 * time.Second
	gapRatio = 20
	mostRuns = 20
)

// appended returns an error for a file of several runs: JMeter and shells append to existing files. Between them is a pause
// without a request under way that is far longer than all others.
func (c *requests) appended() error {
	type gap struct {
		from, length time.Duration
		n            int // requests before it
	}
	gaps := []gap{{}} // a shortest one
	var end time.Duration
	n := 0
	for _, at := range slices.Sorted(maps.Keys(c.spans)) {
		if n > 0 && at > end {
			gaps = append(gaps, gap{end, at - end, n})
		}
		n += c.spans[at].n
		end = max(end, c.spans[at].end)
	}
	slices.SortStableFunc(gaps, func(a, b gap) int { return cmp.Compare(b.length, a.length) })
	for i, g := range gaps[:min(len(gaps)-1, mostRuns)] {
		next := gaps[i+1].length
		if g.length < leastGap || g.length < gapRatio*max(next, time.Second) {
			continue
		}
		first := slices.MinFunc(gaps[:i+1], func(a, b gap) int { return cmp.Compare(a.from, b.from) })
		after := fmt.Sprintf("%v after its start", (first.from - c.first).Round(time.Second))
		if !c.origin.IsZero() {
			after = "after " + c.origin.Add(first.from).UTC().Format(time.DateTime) + " UTC"
		}
		return hint.New("give each run a file of its own: split this one at the gap", "%d runs are in one file: %s it has a gap of %.0f s, after %d of %d requests, and within the runs none of more than %.0f s",
			i+2, after, first.length.Seconds(), first.n, c.n, max(next, time.Second).Seconds())
	}
	return nil
}

// finish sets the figures of the output that need all requests.
func (c *requests) finish(o *Output) error {
	if c.n == 0 {
		return errors.New("it has no request")
	}
	if err := c.appended(); err != nil {
		return err
	}
	if n := c.doubled(); n > 1 && n > c.n/10 {
		return fmt.Errorf("%d of its %d requests occur twice, to the nanosecond: files were joined", n, c.n)
	}
	o.latency = result.Latency{Of: service, Count: int64(len(c.took))}
	if c.responses {
		o.latency.Of = response
	}
	o.statuses = c.statuses
	if o.Seconds <= 0 {
		o.Seconds = (c.end - c.first).Seconds()
	}
	if share := 1 / max(o.Seconds, 1); !c.fraction && share >= 0.01 {
		o.warn("source-note", fmt.Sprintf("the times of %s are whole seconds: a duration of %.3g s, and rates, are off by up to %.0f %%", o.generator, o.Seconds, 100*share),
			"record fractions of a second, as k6 does with --out json or K6_CSV_TIME_FORMAT=unix_milli", metric.Rate)
	}
	if c.last > c.first { // a time that lacks one interval
		o.sent = float64(c.n-1) / (c.last - c.first).Seconds()
	}
	slices.Sort(c.took)
	for i := 0; i < len(c.took); {
		k := i
		for k < len(c.took) && c.took[k] == c.took[i] {
			k++
		}
		if v := float64(c.took[i]); v <= longestNS {
			o.bins = append(o.bins, bin{v, v, int64(k - i)})
		}
		i = k
	}
	return nil
}

// doubled counts the requests equal to another. A coarse clock can produce one by
// chance.
func (c *requests) doubled() (n int) {
	slices.Sort(c.marks)
	for i := 1; i < len(c.marks); i++ {
		if c.marks[i] == c.marks[i-1] {
			n++
		}
	}
	return n
}

// unpacked is the content of a file, which may be compressed by gzip.
func unpacked(r *bufio.Reader) (*bufio.Reader, error) {
	if head, _ := r.Peek(2); !bytes.Equal(head, []byte("\x1f\x8b")) {
		return r, nil
	}
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	return bufio.NewReader(io.LimitReader(z, maxStream)), nil
}
