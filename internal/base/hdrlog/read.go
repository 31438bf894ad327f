// Package hdrlog reads and writes HdrHistogram interval logs (format 1.3, V2
// histograms). Histograms are sparse: a dense one has 140 KiB, and a report reads thousands.
package hdrlog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/regular"
)

// Error is a damaged HdrHistogram interval log.
type Error struct {
	Path string
	Line int // from 1
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("read %s:%d: %v", e.Path, e.Line, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// maxLogLine bounds one line of an interval log: a histogram of 1 ns to 60 s at
// five digits with every count set is about 8 MiB.
const maxLogLine = 16 << 20

// maxLog bounds an interval log, in bytes. A day of all tags has 2 GiB.
const maxLog = 16 << 30

// Window is the part of an interval log to read, in seconds from its start time.
type Window struct{ From, To float64 }

// Open opens the interval log at path, which must be a regular file.
func Open(path string) (io.ReadCloser, error) { return regular.Open(path, maxLog) }

// Sums are histograms by tag.
type Sums map[string]*hdrhistogram.PackedHistogram

// Total returns the number of values of a tag.
func (s Sums) Total(tag string) int64 {
	if h := s[tag]; h != nil {
		return h.TotalCount()
	}
	return 0
}

// ReadFile adds up the histograms of the window by tag. Nil tags mean all tags. A
// line that cannot be read is an [*Error], since part of a histogram is a wrong
// figure.
func ReadFile(path string, w Window, tags []string) (Sums, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f, path, w, tags)
}

func read(in io.Reader, path string, w Window, tags []string) (Sums, error) {
	sums := Sums{}
	return sums, intervals(in, path, func(i interval) error {
		if !w.holds(i.from, i.length) || tags != nil && !slices.Contains(tags, i.tag) {
			return nil
		}
		h, err := i.histogram()
		if err != nil {
			return err
		}
		if sums[i.tag] == nil {
			sums[i.tag] = h
			return nil
		}
		return Add(sums[i.tag], h)
	})
}

// holds reports whether the interval lies inside the window, to within a tenth
// of a millisecond: logs have three to six decimals.
func (w Window) holds(start, length float64) bool {
	const slack = 1e-4
	return start >= w.From-slack && start+length <= w.To+slack
}

// Add adds h to sum. Both must have the same range and precision.
func Add(sum, h *hdrhistogram.PackedHistogram) error {
	switch {
	case sum.LowestTrackableValue() != h.LowestTrackableValue() || sum.HighestTrackableValue() != h.HighestTrackableValue() ||
		sum.SignificantFigures() != h.SignificantFigures():
		return errors.New("the histograms of one tag differ in range or precision, and cannot be added up")
	case sum.Merge(h) > 0:
		return errors.New("the counts overflow")
	}
	return nil
}

// Equal reports whether two histograms have the same counts, range and precision. Nil is empty.
func Equal(a, b *hdrhistogram.PackedHistogram) bool {
	if a == nil || b == nil {
		return (a == nil || a.TotalCount() == 0) && (b == nil || b.TotalCount() == 0)
	}
	return a.LowestTrackableValue() == b.LowestTrackableValue() && a.HighestTrackableValue() == b.HighestTrackableValue() &&
		a.SignificantFigures() == b.SignificantFigures() && maps.Equal(maps.Collect(a.ForEachBucket), maps.Collect(b.ForEachBucket))
}

// MeanError bounds the share by which the mean of a histogram with three digits differs from the mean of its values.
const MeanError = 0.002

// Dense copies a histogram into the library's type with all its queries. It returns nil if h is nil.
func Dense(h *hdrhistogram.PackedHistogram) *hdrhistogram.Histogram {
	if h == nil {
		return nil
	}
	d := hdrhistogram.New(h.LowestTrackableValue(), h.HighestTrackableValue(), int(h.SignificantFigures()))
	h.MergeInto(d) // same geometry: nothing can be dropped
	return d
}

// ReadSeconds is [ReadIntervals] by the second of the beginning of each line. A divided second has
// several lines of a tag.
func ReadSeconds(r io.Reader, line func(second int, tag string, h *hdrhistogram.PackedHistogram) error) error {
	return ReadIntervals(r, func(from, _ time.Duration, tag string, h *hdrhistogram.PackedHistogram) error {
		return line(int(from/time.Second), tag, h)
	})
}

// ReadIntervals reads a log. It calls line for each line, with the
// interval from the log's start time, the tag and the histogram, which line may keep. An error, also
// one of line, is an [*Error].
func ReadIntervals(r io.Reader, line func(from, to time.Duration, tag string, h *hdrhistogram.PackedHistogram) error) error {
	milliseconds := func(seconds float64) time.Duration {
		return time.Duration(math.Round(seconds*1e3)) * time.Millisecond
	}
	return intervals(r, "interval log", func(i interval) error {
		h, err := i.histogram()
		if err != nil {
			return err
		}
		return line(milliseconds(i.from), milliseconds(i.from+i.length), i.tag, h)
	})
}

// interval is one line of a log.
type interval struct {
	from    float64 // seconds from the log's start
	length  float64 // seconds
	tag     string
	encoded []byte // the histogram; valid until the next line
}

// histogram decodes the interval's histogram.
func (i interval) histogram() (*hdrhistogram.PackedHistogram, error) {
	h, err := hdrhistogram.DecodePacked(i.encoded)
	if err != nil {
		return nil, fmt.Errorf("the histogram is cut off or damaged: %w", err)
	}
	if h.SignificantFigures() == 0 {
		return nil, errors.New("the histogram has a precision of 0 digits, and 1 to 5 can be read")
	}
	return h, nil
}

// intervals calls add for each interval of a log. An error, also one of add, is an [*Error].
func intervals(in io.Reader, path string, add func(interval) error) error {
	scan := bufio.NewScanner(in)
	scan.Buffer(make([]byte, 0, 64<<10), maxLogLine)
	lines := 0
	for scan.Scan() {
		lines++
		i, err := parse(scan.Bytes())
		if err == nil && i.encoded != nil {
			err = add(i)
		}
		if err != nil {
			return &Error{path, lines, err}
		}
	}
	if err := scan.Err(); err != nil {
		return &Error{path, lines + 1, err}
	}
	return nil
}

// maxSeconds bounds a time in a log, so that it fits a [time.Duration].
const maxSeconds = 4e9

// parse reads a line. Comments and the legend have no histogram. [Writer] writes the same base time as start time, so that time stamps
// count from the start.
func parse(b []byte) (i interval, err error) {
	b = bytes.TrimRight(b, "\r")
	if len(b) == 0 || b[0] == '"' || b[0] == '#' {
		return i, nil
	}
	if rest, ok := bytes.CutPrefix(b, []byte("Tag=")); ok {
		name, after, found := bytes.Cut(rest, []byte(","))
		if !found {
			return i, errors.New("nothing follows the tag")
		}
		i.tag, b = string(name), after
	}
	fields := bytes.SplitN(b, []byte(","), 4)
	if len(fields) != 4 {
		return i, fmt.Errorf("found %d fields, expected time stamp, length, maximum and histogram", len(fields))
	}
	stamp, err1 := strconv.ParseFloat(string(fields[0]), 64)
	length, err2 := strconv.ParseFloat(string(fields[1]), 64)
	if err := errors.Join(err1, err2); err != nil {
		return i, err
	}
	if !(math.Abs(stamp) <= maxSeconds && math.Abs(length) <= maxSeconds) {
		return i, fmt.Errorf("time stamp %v or length %v is out of range", stamp, length)
	}
	i.from, i.length, i.encoded = stamp, length, bytes.TrimSpace(fields[3])
	return i, nil
}
