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
	"math/bits"
	"strconv"
	"sync"
	"time"
)

// An import writes one histogram for each of many trials. The library allocates
// 150 KiB for a histogram, as much again to read its counts, and 800 KiB for a
// compressor at its slowest level. Here all of it is reused, and the compressor
// skips the search for repetitions, since counts have hardly any. Geometry and
// format are the library's. A test reads the log back with the library.
const (
	lowestNS = 1000 // nanoseconds to three digits, as generators print them
	digits   = 3

	unitMagnitude = 9    // floor(log2(lowestNS))
	subBuckets    = 2048 // the least power of two of at least 2 * 10^digits
	halfMagnitude = 10   // log2(subBuckets/2)
	subBucketMask = (subBuckets - 1) << unitMagnitude

	wordSize = 0x10 // in the cookies: counts are LEB128
)

// Counts are requests by duration.
type Counts struct {
	n       []int64 // by the library's index
	total   int64
	highest int64 // that can be recorded, ns

	payload []byte // of encoding
	frame   bytes.Buffer
}

var (
	spare       = sync.Pool{New: func() any { return new(Counts) }}
	compressors = sync.Pool{New: func() any {
		w, _ := zlib.NewWriterLevel(io.Discard, zlib.HuffmanOnly) // the level is valid
		return w
	}}
)

// NewCounts are empty, for times up to highest ns. Free gives them back.
func NewCounts(highest int64) *Counts {
	c := spare.Get().(*Counts)
	c.n, c.total, c.highest = c.n[:0], 0, highest
	return c
}

// Free gives the counts back. They must not be used again.
func (c *Counts) Free() { spare.Put(c) }

// index of a time's count, and the lowest time that has the next.
func index(ns int64) (i int, next int64) {
	bucket := bits.Len64(uint64(ns)|subBucketMask) - unitMagnitude - halfMagnitude - 1
	sub := ns >> (bucket + unitMagnitude)
	return (bucket << halfMagnitude) + int(sub), (sub + 1) << (bucket + unitMagnitude)
}

// Total is the number of requests.
func (c *Counts) Total() int64 { return c.total }

// Add counts requests that took ns.
func (c *Counts) Add(ns, count int64) {
	i, _ := index(ns)
	if grow := i + 1 - len(c.n); grow > 0 {
		had := len(c.n)
		if i >= cap(c.n) {
			c.n = append(make([]int64, 0, max(i+1, 20<<10)), c.n...)
		}
		c.n = c.n[:i+1]
		clear(c.n[had:])
	}
	c.n[i] += count
	c.total += count
}

// most is the longest time, as the library defines it: the highest with the same
// count. It is 0 for empty counts.
func (c *Counts) most() int64 {
	last := len(c.n) - 1
	if last < 0 {
		return 0
	}
	bucket := max(0, last>>halfMagnitude-1)
	sub := int64(last - bucket<<halfMagnitude)
	_, next := index(sub << (bucket + unitMagnitude))
	return next - 1
}

// encode is the histogram in the wire format, before base64. It is valid until
// the counts are encoded again or freed.
func (c *Counts) encode() ([]byte, error) {
	payload := append(c.payload[:0], make([]byte, payloadHeader)...)
	binary.BigEndian.PutUint32(payload[0:], payloadCookie|wordSize)
	binary.BigEndian.PutUint32(payload[12:], digits)
	binary.BigEndian.PutUint64(payload[16:], lowestNS)
	binary.BigEndian.PutUint64(payload[24:], uint64(c.highest))
	binary.BigEndian.PutUint64(payload[32:], math.Float64bits(1))
	payload = appendCounts(payload, c.n)
	binary.BigEndian.PutUint32(payload[4:], uint32(len(payload)-payloadHeader))
	c.payload = payload

	c.frame.Reset()
	c.frame.Write(make([]byte, frameHeader))
	z := compressors.Get().(*zlib.Writer)
	defer compressors.Put(z)
	z.Reset(&c.frame)
	_, err := z.Write(payload)
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, err
	}
	b := c.frame.Bytes()
	binary.BigEndian.PutUint32(b[0:], frameCookie|wordSize)
	binary.BigEndian.PutUint32(b[4:], uint32(len(b)-frameHeader))
	return b, nil
}

// appendCounts writes them in zig-zag LEB128. A negative number is a run of zeros.
func appendCounts(b []byte, counts []int64) []byte {
	zeros := int64(0)
	for _, n := range counts {
		if n == 0 {
			zeros++
			continue
		}
		if zeros > 0 {
			b = appendZigzag(b, -zeros)
			zeros = 0
		}
		b = appendZigzag(b, n)
	}
	return b
}

// appendZigzag writes seven bits a byte, low ones first, but a ninth byte with eight.
func appendZigzag(b []byte, v int64) []byte {
	u := uint64(v<<1) ^ uint64(v>>63)
	for range 8 {
		if u < 0x80 {
			return append(b, byte(u))
		}
		b = append(b, byte(u)|0x80)
		u >>= 7
	}
	return append(b, byte(u))
}

// Log is an interval log of one interval, with one line a tag.
func (c *Counts) Log(seconds float64, tags ...string) ([]byte, error) {
	encoded, err := c.encode()
	if err != nil {
		return nil, fmt.Errorf("encode latencies: %w", err)
	}
	line := 64 + base64.StdEncoding.EncodedLen(len(encoded))
	b := AppendHeader(make([]byte, 0, 512+len(tags)*line), time.Unix(0, 0), "tare: imported, latencies in nanoseconds")
	for _, tag := range tags {
		b = c.appendLine(b, tag, 0, seconds, encoded)
	}
	return b, nil
}

// AppendLine appends the counts of an interval, whose start and length are in seconds.
func (c *Counts) AppendLine(b []byte, tag string, start, seconds float64) ([]byte, error) {
	encoded, err := c.encode()
	if err != nil {
		return nil, fmt.Errorf("encode latencies: %w", err)
	}
	return c.appendLine(b, tag, start, seconds, encoded), nil
}

func (c *Counts) appendLine(b []byte, tag string, start, seconds float64, encoded []byte) []byte {
	b = append(b, "Tag="+tag+","...)
	b = strconv.AppendFloat(b, start, 'f', 3, 64)
	b = append(b, ',')
	b = strconv.AppendFloat(b, math.Trunc(seconds*1000)/1000, 'f', 3, 64)
	b = append(b, ',')
	b = strconv.AppendFloat(b, float64(c.most())/1e6, 'f', 3, 64)
	b = base64.StdEncoding.AppendEncode(append(b, ','), encoded)
	return append(b, '\n')
}
