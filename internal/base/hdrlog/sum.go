package hdrlog

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The log of one trial has about a hundred histograms, and only their sum is
// used. Decoding each into the library's type costs an allocation of 200 KiB and
// a scan of it. Here the counts of the wire format (HdrHistogram V2, compressed)
// go straight into the sum. A test compares both ways.
const (
	frameCookie   = 0x1c849304 // of the outer frame, low nibble of the second byte cleared
	payloadCookie = 0x1c849303
	cookieMask    = ^uint32(0xf0)
	frameHeader   = 8
	payloadHeader = 40
	// maxIndex bounds the counts of a histogram: every geometry of five digits fits.
	maxIndex = 1 << 23
)

// geometry maps the index of a count to values.
type geometry struct {
	digits  int32
	lowest  int64
	highest int64
	ratio   float64
}

// Sum is histograms of one geometry, added up. The zero value is empty.
type Sum struct {
	geometry geometry
	counts   []int64
	filled   bool
}

// Sums are sums by tag.
type Sums map[string]*Sum

// spareSums are reused: one has 100 KiB or more, and a trial needs its sums only
// until its figures are computed.
var spareSums = sync.Pool{New: func() any { return new(Sum) }}

func newSum() *Sum {
	s := spareSums.Get().(*Sum)
	*s = Sum{counts: s.counts[:0]}
	return s
}

// Free gives the sums back. They must not be used again.
func (m Sums) Free() {
	for _, s := range m {
		spareSums.Put(s)
	}
}

func (s *Sum) snapshot() *hdrhistogram.Snapshot {
	return &hdrhistogram.Snapshot{
		LowestTrackableValue: s.geometry.lowest, HighestTrackableValue: s.geometry.highest,
		SignificantFigures: int64(s.geometry.digits), Counts: s.counts,
		IntegerToDoubleConversionRatio: s.geometry.ratio,
	}
}

// check compares the counts with the geometry.
func (s *Sum) check() error { return s.snapshot().Validate() }

// Histogram is a copy of the sum in the library's type, or nil of nil.
func (s *Sum) Histogram() *hdrhistogram.Histogram {
	if s == nil {
		return nil
	}
	return hdrhistogram.Import(s.snapshot())
}

// Equal reports whether two sums have the same counts. Nil is empty.
func (s *Sum) Equal(o *Sum) bool {
	if s == nil || o == nil {
		return s.Total() == 0 && o.Total() == 0
	}
	n := min(len(s.counts), len(o.counts))
	zero := func(counts []int64) bool {
		return !slices.ContainsFunc(counts, func(c int64) bool { return c != 0 })
	}
	g := o.geometry
	g.ratio = s.geometry.ratio // of no integer counts
	return s.geometry == g && slices.Equal(s.counts[:n], o.counts[:n]) && zero(s.counts[n:]) && zero(o.counts[n:])
}

// decoders are reused: a report reads thousands of logs, and a decoder has 100 KiB.
var decoders = sync.Pool{New: func() any { return &decoder{line: make([]byte, 64<<10)} }}

// decoder keeps the buffers of decoding. The zero value is ready.
type decoder struct {
	line    []byte // of the log, as far as it is not longer
	frame   []byte
	payload bytes.Buffer
	inflate io.ReadCloser
}

// add decodes one encoded histogram into s.
func (d *decoder) add(s *Sum, encoded []byte) error {
	payload, err := d.open(encoded)
	if err != nil {
		return err
	}
	if len(payload) < payloadHeader {
		return errEndEarly
	}
	if c := binary.BigEndian.Uint32(payload) & cookieMask; c != payloadCookie {
		return fmt.Errorf("not a V2 histogram: cookie %#x", c)
	}
	g := geometry{
		digits:  int32(binary.BigEndian.Uint32(payload[12:])),
		lowest:  int64(binary.BigEndian.Uint64(payload[16:])),
		highest: int64(binary.BigEndian.Uint64(payload[24:])),
		ratio:   math.Float64frombits(binary.BigEndian.Uint64(payload[32:])),
	}
	if s.filled && g != s.geometry {
		return errors.New("the histograms of one tag differ in range or precision, and cannot be added up")
	}
	s.geometry, s.filled = g, true
	counts := payload[payloadHeader:]
	if n := int64(binary.BigEndian.Uint32(payload[4:])); n != int64(len(counts)) {
		return fmt.Errorf("the histogram's header has %d bytes, its counts have %d", n, len(counts))
	}
	return s.addCounts(counts)
}

// open undoes base64 and compression.
func (d *decoder) open(encoded []byte) ([]byte, error) {
	need := base64.StdEncoding.DecodedLen(len(encoded))
	if cap(d.frame) < need {
		d.frame = make([]byte, need)
	}
	n, err := base64.StdEncoding.Decode(d.frame[:need], encoded)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEndEarly, err)
	}
	frame := d.frame[:n]
	if n < frameHeader {
		return nil, errEndEarly
	}
	if c := binary.BigEndian.Uint32(frame) & cookieMask; c != frameCookie {
		return nil, fmt.Errorf("not a compressed V2 histogram: cookie %#x", c)
	}
	size := int64(binary.BigEndian.Uint32(frame[4:]))
	if size > int64(n-frameHeader) {
		return nil, errEndEarly
	}
	return d.inflated(frame[frameHeader : frameHeader+size])
}

func (d *decoder) inflated(compressed []byte) ([]byte, error) {
	in := bytes.NewReader(compressed)
	var err error
	if d.inflate == nil {
		d.inflate, err = zlib.NewReader(in)
	} else {
		err = d.inflate.(zlib.Resetter).Reset(in, nil)
	}
	if err != nil {
		d.inflate = nil
		return nil, endEarly(err)
	}
	d.payload.Reset()
	const most = payloadHeader + 9*maxIndex
	if _, err := d.payload.ReadFrom(io.LimitReader(d.inflate, most+1)); err != nil {
		return nil, endEarly(err)
	}
	if d.payload.Len() > most {
		return nil, errors.New("the histogram is larger than the format allows")
	}
	return d.payload.Bytes(), nil
}

// addCounts adds zig-zag LEB128 counts, where a negative number is a run of zeros.
func (s *Sum) addCounts(b []byte) error {
	index := int64(0)
	for len(b) > 0 {
		v, n := zigzag(b)
		if n <= 0 {
			return errEndEarly
		}
		b = b[n:]
		if v < 0 {
			if index -= v; v == math.MinInt64 || index > maxIndex {
				return fmt.Errorf("a count has index %d, beyond any histogram", index)
			}
			continue
		}
		if index >= maxIndex {
			return fmt.Errorf("a count has index %d, beyond any histogram", index)
		}
		if v > 0 {
			if index >= int64(len(s.counts)) {
				s.grow(index + 1)
			}
			if s.counts[index] > math.MaxInt64-v {
				return errors.New("the counts overflow")
			}
			s.counts[index] += v
		}
		index++
	}
	return nil
}

// grow makes room for n counts, and some more: the next count is mostly the next index.
func (s *Sum) grow(n int64) {
	if n > int64(cap(s.counts)) {
		s.counts = slices.Grow(s.counts, int(max(n, 16<<10))-len(s.counts))
	}
	clear(s.counts[len(s.counts):n])
	s.counts = s.counts[:n]
}

// zigzag decodes one number: seven bits a byte, low ones first, except that a
// ninth byte carries eight (the format's own LEB128 variant). n is 0 where b ends early.
func zigzag(b []byte) (v int64, n int) {
	var u uint64
	for i := range 9 {
		if i >= len(b) {
			return 0, 0
		}
		if i == 8 {
			u |= uint64(b[i]) << 56
			n = 9
			break
		}
		u |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			n = i + 1
			break
		}
	}
	return int64(u>>1) ^ -int64(u&1), n
}
