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
	"slices"
	"strconv"
	"time"

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
}

// recordFormat is an output with every request, which is read in parts.
type recordFormat struct {
	heads []string
	each  func(r io.Reader, corrected bool, each func(generator.Record)) error
	day   bool // times are since 1970
	omits bool // requests without a response
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

// recordsOf returns the format of every request if head begins as it does, else nil.
func (f format) recordsOf(head []byte) *recordFormat {
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	if f.records == nil || !slices.ContainsFunc(f.records.heads, func(h string) bool { return bytes.HasPrefix(head, []byte(h)) }) {
		return nil
	}
	return f.records
}

func (f *recordFormat) read(r io.Reader, name, path string, corrected bool) (*Output, error) {
	o := newOutput(format{}, path)
	o.generator = name
	var c requests
	err := f.each(r, corrected, func(r generator.Record) { c.add(o, r) })
	if err == nil {
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
		c.first, c.last, c.responses, c.statuses = r.At, r.At, r.Response >= 0, map[string]int64{}
	}
	c.first, c.last, c.end = min(c.first, r.At), max(c.last, r.At), max(c.end, r.Done)
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

// finish sets the figures of the output that need all requests.
func (c *requests) finish(o *Output) error {
	if c.n == 0 {
		return errors.New("it has no request")
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
