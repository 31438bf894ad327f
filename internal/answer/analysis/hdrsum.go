package analysis

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

// The log of one trial holds some hundred histograms, most of which are only
// added up. Decoding each into a histogram of its own costs an allocation of
// 200 KiB and a scan of it; here the counts of the wire format (HdrHistogram
// V2, compressed) go straight into the sum. A test holds the two ways equal.
const (
	compressedCookie = 0x1c849304 // of the outer frame, low nibble of the second byte cleared
	plainCookie      = 0x1c849303
	cookieMask       = ^uint32(0xf0)
	frameHeader      = 8
	payloadHeader    = 40
	// maxIndex bounds the counts of a histogram: every geometry of five digits fits.
	maxIndex = 1 << 23
)

// geometry says what the index of a count means.
type geometry struct {
	digits  int32
	lowest  int64
	highest int64
	ratio   float64
}

// sum is histograms of one geometry, added up. The zero value is empty.
type sum struct {
	geometry geometry
	counts   []int64
	filled   bool
}

// sums by tag.
type sums map[string]*sum

// spareSums are used again: one has 100 KiB and more, and a trial's are done with
// as soon as its figures are worked out.
var spareSums = sync.Pool{New: func() any { return new(sum) }}

func newSum() *sum {
	s := spareSums.Get().(*sum)
	*s = sum{counts: s.counts[:0]}
	return s
}

// free gives them back; they must not be used again.
func (m sums) free() {
	for _, s := range m {
		spareSums.Put(s)
	}
}

func (s *sum) snapshot() *hdrhistogram.Snapshot {
	return &hdrhistogram.Snapshot{
		LowestTrackableValue: s.geometry.lowest, HighestTrackableValue: s.geometry.highest,
		SignificantFigures: int64(s.geometry.digits), Counts: s.counts,
		IntegerToDoubleConversionRatio: s.geometry.ratio,
	}
}

// check holds the counts to the geometry.
func (s *sum) check() error { return s.snapshot().Validate() }

// histogram is a copy of the sum as the library has it; nil of nil.
func (s *sum) histogram() *hdrhistogram.Histogram {
	if s == nil {
		return nil
	}
	return hdrhistogram.Import(s.snapshot())
}

// decoders are used again: a report reads thousands of logs, and a decoder has 100 KiB.
var decoders = sync.Pool{New: func() any { return &decoder{line: make([]byte, 64<<10)} }}

// decoder keeps the buffers of decoding. The zero value is ready.
type decoder struct {
	line    []byte // of the log, as far as it is not longer
	frame   []byte
	payload bytes.Buffer
	inflate io.ReadCloser
}

// add decodes one encoded histogram into s.
func (d *decoder) add(s *sum, encoded []byte) error {
	payload, err := d.open(encoded)
	if err != nil {
		return err
	}
	if len(payload) < payloadHeader {
		return errEndEarly
	}
	if c := binary.BigEndian.Uint32(payload) & cookieMask; c != plainCookie {
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
		return fmt.Errorf("the histogram says %d bytes and has %d", n, len(counts))
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
	if c := binary.BigEndian.Uint32(frame) & cookieMask; c != compressedCookie {
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
		return nil, errors.New("the histogram is larger than any can be")
	}
	return d.payload.Bytes(), nil
}

// addCounts adds zig-zag LEB128 counts, where a negative number is a run of zeros.
func (s *sum) addCounts(b []byte) error {
	index := int64(0)
	for len(b) > 0 {
		v, n := zigzag(b)
		if n <= 0 {
			return errEndEarly
		}
		b = b[n:]
		if v < 0 {
			if index -= v; v == math.MinInt64 || index > maxIndex {
				return fmt.Errorf("a count stands at index %d, beyond any histogram", index)
			}
			continue
		}
		if index >= maxIndex {
			return fmt.Errorf("a count stands at index %d, beyond any histogram", index)
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

// grow makes room for n counts, generously: the next count mostly stands right behind.
func (s *sum) grow(n int64) {
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
