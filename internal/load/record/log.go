package record

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/load"
)

// logInterval is one interval of the log, merged over the workers. Sparse: a
// dense histogram has 140 KiB, and most of it is empty.
type logInterval struct {
	to                time.Duration // from t0, as its beginning
	response, service [classCount]*hdrhistogram.PackedHistogram
	lateness, retried *hdrhistogram.PackedHistogram
}

func (l *logInterval) merge(s *interval) {
	for c := range classCount {
		mergePacked(&l.response[c], s.response[c])
		mergePacked(&l.service[c], s.service[c])
	}
	mergePacked(&l.lateness, s.lateness)
	mergePacked(&l.retried, s.retried)
}

func mergePacked(into **hdrhistogram.PackedHistogram, h *hdrhistogram.Histogram) {
	if h == nil || h.TotalCount() == 0 {
		return
	}
	if *into == nil {
		*into = hdrhistogram.NewPacked(lowestNS, highestNS, digits)
	}
	(*into).MergeFrom(h) // same geometry: nothing can be dropped
}

// writeLog writes an interval log. Intervals without intended requests have no line.
func writeLog(w io.Writer, t0 time.Time, all map[time.Duration]*logInterval) error {
	log, err := hdrlog.NewWriter(w, t0, "tare: latencies in nanoseconds, by the second of the intended start")
	if err != nil {
		return err
	}
	for _, from := range slices.Sorted(maps.Keys(all)) {
		if err := all[from].write(log, from); err != nil {
			return err
		}
	}
	return log.Flush()
}

func (l *logInterval) write(log *hdrlog.Writer, from time.Duration) error {
	line := func(h *hdrhistogram.PackedHistogram, tag string) error {
		if h == nil {
			return nil
		}
		return log.Interval(from, l.to, tag, h)
	}
	for c := range classCount {
		if err := line(l.response[c], load.TagResponse+string(classNames[c])); err != nil {
			return err
		}
		if err := line(l.service[c], load.TagService+string(classNames[c])); err != nil {
			return err
		}
	}
	if err := line(l.lateness, load.TagLateness); err != nil {
		return err
	}
	return line(l.retried, load.TagRetried)
}

// WriteWhole writes a file that is complete or absent. Nothing is written to an empty path. what names the file in errors.
func WriteWhole(path, what string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	return hint.Prefix(outfile.Write(path, 0o644, write), "write %s", what)
}

// Log gathers the latencies of requests that another generator sent, and writes
// them as the engine writes its own, so that one analysis reads both. The zero
// value is empty and ready for use.
type Log struct {
	all     map[time.Duration]*logInterval
	divided intervals
}

// NewLog is a log that is divided at the edges of a measure window. The zero value has whole seconds.
func NewLog(warmup, measure time.Duration) *Log { return &Log{divided: intervalsOf(warmup, measure)} }

// Sample is one request. A negative latency is unknown and leaves no trace.
type Sample struct {
	At       time.Duration // of the schedule at which it was intended, or, where that is unknown, sent
	Class    load.Class
	Response time.Duration // from the intended start
	Service  time.Duration // from the actual send
	Lateness time.Duration // send minus intended start
}

// Add takes one request. The error names a class that does not exist.
func (l *Log) Add(s Sample) error {
	class := slices.Index(classNames[:], s.Class)
	if class < 0 {
		return fmt.Errorf("add to interval log: there is no class %q", s.Class)
	}
	if l.all == nil {
		l.all = map[time.Duration]*logInterval{}
	}
	from, to := l.divided.bounds(int64(s.At))
	in := l.all[from]
	if in == nil {
		in = &logInterval{to: to}
		l.all[from] = in
	}
	addPacked(&in.response[class], s.Response)
	addPacked(&in.service[class], s.Service)
	addPacked(&in.lateness, s.Lateness)
	return nil
}

func addPacked(h **hdrhistogram.PackedHistogram, d time.Duration) {
	if d < 0 {
		return
	}
	if *h == nil {
		*h = hdrhistogram.NewPacked(lowestNS, highestNS, digits)
	}
	_ = (*h).RecordValue(min(int64(d), highestNS)) // fails only beyond the range
}

// Write writes the interval log, whose times count from t0.
func (l *Log) Write(w io.Writer, t0 time.Time) error { return writeLog(w, t0, l.all) }

// MergeWindow reads an interval log and writes another with one histogram a tag:
// the sum of the intervals between from and to, counted from the log's start. A log
// of an hour has about ten thousand histograms. A report then decodes the sums only.
func MergeWindow(r io.Reader, w io.Writer, start time.Time, from, to time.Duration) error {
	const slack = 100 * time.Microsecond
	sums := hdrlog.Sums{}
	err := hdrlog.ReadIntervals(r, func(begin, end time.Duration, tag string, h *hdrhistogram.PackedHistogram) error {
		if begin < from-slack || end > to+slack {
			return nil
		}
		if sums[tag] == nil {
			sums[tag] = h
			return nil
		}
		return hdrlog.Add(sums[tag], h)
	})
	if err != nil {
		return fmt.Errorf("merge interval log: %w", err)
	}
	log, err := hdrlog.NewWriter(w, start, "tare: the measure window of latency.hdr, one line a tag; nanoseconds")
	for _, tag := range slices.Sorted(maps.Keys(sums)) {
		if err != nil {
			break
		}
		err = log.Interval(from, to, tag, sums[tag])
	}
	if err == nil {
		err = log.Flush()
	}
	if err != nil {
		return fmt.Errorf("merge interval log: %w", err)
	}
	return nil
}

// intervals are the intervals of the interval log: the seconds of the schedule, divided at the edges of the measure
// window, so that the window is a sum of intervals. Time stamps of the log have milliseconds. An edge between
// two of them divides nothing.
type intervals struct {
	edges [2]int64 // ns from t0, ascending, 0 if it divides nothing
}

func intervalsOf(warmup, measure time.Duration) (v intervals) {
	for i, edge := range []time.Duration{warmup, warmup + measure} {
		if edge%time.Second != 0 && edge%time.Millisecond == 0 {
			v.edges[i] = int64(edge)
		}
	}
	return v
}

// Exact reports whether a measure window is a sum of intervals of its log.
func Exact(warmup, measure time.Duration) bool {
	return warmup%time.Millisecond == 0 && measure%time.Millisecond == 0
}

// index is the number of the interval of an instant, ns from t0.
func (v *intervals) index(at int64) int {
	i := int(at / 1e9)
	for _, edge := range v.edges {
		if edge != 0 && at >= edge {
			i++
		}
	}
	return i
}

// bounds are the beginning and the end of the interval of an instant.
func (v *intervals) bounds(at int64) (from, to time.Duration) {
	begin := at - at%1e9
	end := begin + 1e9
	for _, edge := range v.edges {
		switch {
		case begin < edge && edge <= at:
			begin = edge
		case at < edge && edge < end:
			end = edge
		}
	}
	return time.Duration(begin), time.Duration(end)
}

// Answer is one request, and the configuration that served it, or the end of a connection by the server. Its instants are ns from the
// start of the schedule.
type Answer struct {
	Conn      int    // its connection, of all workers
	Sent, End int64  // Sent is the intended start if no open connection got it
	OK        bool   // the answer counts as success
	Status    int    // of HTTP, 0 without an answer
	Version   string // of [load.VersionHeader], empty without an answer or its header
	Event     Event
}

// Event is an act of the server on a request or a connection.
type Event string

const (
	Answered Event = "answered" // or failed in another way
	Cut      Event = "cut"      // the connection or the stream ended under the request
	Dropped  Event = "dropped"  // the server ended a connection that was open for requests, at Sent and End
)

// answer is an Answer as a worker keeps it.
type answer struct {
	sent, end     int64
	conn, version int32
	status        int16
	ok            bool
	event         Event
}

// answers are the requests of one worker in their order of ending.
type answers struct {
	Versions *load.Versions // nil: they are not kept
	all      []answer
}

func (a *answers) finish(o *Outcome, ok bool) {
	if a.Versions == nil {
		return
	}
	one := answer{sent: o.Sent, end: o.End, conn: o.Conn, status: int16(o.Status), ok: ok, event: Answered}
	if o.Kind.Cut() {
		one.event = Cut
	}
	if o.Sent < 0 {
		one.sent = o.Intended
	}
	if o.Status != 0 {
		one.version = o.Version
	}
	a.all = append(a.all, one)
}

// Dropped records that the server ended a connection that was open for requests, at an instant.
func (a *answers) Dropped(conn int32, at int64) {
	if a.Versions != nil {
		a.all = append(a.all, answer{sent: at, end: at, conn: conn, event: Dropped})
	}
}

var answerColumns = []string{"connection", "sent_ns", "end_ns", "ok", "status", "version", "event"}

// WriteAnswers writes the answers of all workers as CSV.
func WriteAnswers(w io.Writer, results []*Totals) error {
	out := csv.NewWriter(w)
	_ = out.Write(answerColumns) // Error has the error
	for worker, t := range results {
		for _, a := range t.all {
			_ = out.Write([]string{strconv.Itoa(int(a.conn)*len(results) + worker), strconv.FormatInt(a.sent, 10), strconv.FormatInt(a.end, 10),
				strconv.FormatBool(a.ok), strconv.Itoa(int(a.status)), t.Versions.Values[a.version], string(a.event)})
		}
	}
	out.Flush()
	return out.Error()
}

func ReadAnswers(r io.Reader) (all []Answer, err error) {
	in := csv.NewReader(bufio.NewReaderSize(r, 1<<20))
	in.ReuseRecord, in.FieldsPerRecord = true, len(answerColumns)
	if _, err := in.Read(); err != nil {
		return nil, fmt.Errorf("read answers: %w", err)
	}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		var a Answer
		if err == nil {
			a.Conn, err = strconv.Atoi(row[0])
		}
		if err == nil {
			a.Sent, err = strconv.ParseInt(row[1], 10, 64)
		}
		if err == nil {
			a.End, err = strconv.ParseInt(row[2], 10, 64)
		}
		if err == nil {
			a.OK, err = strconv.ParseBool(row[3])
		}
		if err == nil {
			a.Status, err = strconv.Atoi(row[4])
		}
		if err != nil {
			return nil, fmt.Errorf("read answers: %w", err)
		}
		a.Version, a.Event = row[5], Event(row[6])
		all = append(all, a)
	}
}
