package importer

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// An import writes one histogram for each of many trials. The library's encoder
// makes a compressor of 800 KiB for every one, set to its slowest level; here one
// is used again, and looks for no repetitions: counts hardly have any. The format is the library's, HdrHistogram V2
// with zig-zag LEB128 counts and runs of zeros; a test reads it back with the library.
const (
	payloadCookie = 0x1c849303 | 0x10
	frameCookie   = 0x1c849304 | 0x10
	payloadHeader = 40
	frameHeader   = 8
)

var compressors = sync.Pool{New: func() any {
	w, _ := zlib.NewWriterLevel(io.Discard, zlib.HuffmanOnly) // the level is one there is
	return w
}}

// encode is one histogram as an interval log holds it.
func encode(h *hdrhistogram.Histogram) (string, error) {
	s := h.Export()
	payload := make([]byte, payloadHeader, payloadHeader+16<<10)
	binary.BigEndian.PutUint32(payload[0:], payloadCookie)
	binary.BigEndian.PutUint32(payload[12:], uint32(s.SignificantFigures))
	binary.BigEndian.PutUint64(payload[16:], uint64(s.LowestTrackableValue))
	binary.BigEndian.PutUint64(payload[24:], uint64(s.HighestTrackableValue))
	binary.BigEndian.PutUint64(payload[32:], math.Float64bits(1))
	payload = appendCounts(payload, s.Counts)
	binary.BigEndian.PutUint32(payload[4:], uint32(len(payload)-payloadHeader))

	var frame bytes.Buffer
	frame.Write(make([]byte, frameHeader))
	z := compressors.Get().(*zlib.Writer)
	defer compressors.Put(z)
	z.Reset(&frame)
	_, err := z.Write(payload)
	if err = errors.Join(err, z.Close()); err != nil {
		return "", err
	}
	b := frame.Bytes()
	binary.BigEndian.PutUint32(b[0:], frameCookie)
	binary.BigEndian.PutUint32(b[4:], uint32(len(b)-frameHeader))
	return base64.StdEncoding.EncodeToString(b), nil
}

// appendCounts writes the counts up to the last that is not zero.
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

// intervalLog writes h as an interval log of one interval, once for each tag.
func intervalLog(h *hdrhistogram.Histogram, seconds float64, tags ...string) ([]byte, error) {
	encoded, err := encode(h)
	if err != nil {
		return nil, fmt.Errorf("encode latencies: %w", err)
	}
	b := []byte("#[tare: imported, latencies in nanoseconds]\n#[Histogram log format version 1.3]\n" +
		"#[StartTime: 0 (seconds since epoch), 1970-01-01T00:00:00Z]\n" +
		"\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n")
	for _, tag := range tags {
		b = append(b, "Tag="+tag+",0.000,"...)
		b = strconv.AppendFloat(b, math.Trunc(seconds*1000)/1000, 'f', 3, 64)
		b = append(b, ',')
		b = strconv.AppendFloat(b, float64(h.Max())/1e6, 'f', 3, 64)
		b = append(b, ","+encoded+"\n"...)
	}
	return b, nil
}
