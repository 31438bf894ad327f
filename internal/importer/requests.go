package importer

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// requests adds up a generator's record of every request. It keeps 16 bytes of each.
type requests struct {
	n           int
	first, last time.Duration // sends
	end         time.Duration // of the last response
	responses   bool          // latencies are response times
	took        []time.Duration
	marks       []uint64 // a hash of each request
	statuses    map[string]int64
}

// seed is that of all marks.
var seed = maphash.MakeSeed()

func (c *requests) add(o *Output, r generator.Record) {
	if c.n++; c.n == 1 {
		c.first, c.last, c.responses, c.statuses = r.At, r.At, r.Response >= 0, map[string]int64{}
	}
	c.first, c.last, c.end = min(c.first, r.At), max(c.last, r.At), max(c.end, r.Done)
	c.marks = append(c.marks, maphash.Comparable(seed, r))
	switch {
	case r.Code == 0:
		if r.Error == "" {
			r.Error = "no answer"
		}
		o.errors[r.Error]++
		return
	case r.Code/100 == 2:
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
	c.statuses[strconv.Itoa(r.Code)]++
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

// streamOutput reads oha's CSV without the whole file in memory. Nil means that it is none.
func streamOutput(name, path string, corrected bool) (*Output, error) {
	if name != "oha" {
		return nil, nil
	}
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, len(generator.OhaCSVHeader))
	if _, err := io.ReadFull(f, head); err != nil || !bytes.Equal(head, []byte(generator.OhaCSVHeader)) {
		return nil, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fileError(path, err)
	}
	o := newOutput(formats[name], path)
	o.generator = name
	var c requests
	err = generator.EachOhaRecord(f, corrected, func(r generator.Record) { c.add(o, r) })
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
	return o, nil
}
