package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/load/capacity"
)

// OnClock converts r's times from the part's own clock to the clock of the process
// that measured c, and stores c.
func (r *Report) OnClock(c Clock) {
	for _, at := range []*time.Time{&r.Started, &r.MeasureStart, &r.MeasureEnd} {
		*at = at.Add(-c.Ahead())
	}
	r.Clock = &c
}

// Class of a finished request. Latencies are kept apart by class.
type Class string

const (
	OK      Class = "2xx"     // success: 2xx, or a status of Profile.ExpectStatus, with the body expected
	Status  Class = "status"  // any other status, or not the body that was expected
	Timeout Class = "timeout" // recorded with the latency at which it was given up
	Conn    Class = "conn"    // connect, write, read or protocol error
)

// Tags of the HdrHistogram interval log: "<kind>.<class>" for kinds response
// (from the intended start) and service (from the actual send), and "lateness"
// (send minus intended start) over all classes. Values are nanoseconds. Each
// second and tag has one line, in which only requests intended in that second
// count. Seconds are counted from Profile.Start, warm-up included. Retried
// requests also count in TagRetried, with their response times of any class.
const (
	TagResponse = "response."
	TagService  = "service."
	TagLateness = "lateness"
	TagRetried  = "retried"
)

// Report is the result of a load run. Counts are of requests intended
// in the measure window, unless stated otherwise.
type Report struct {
	Engine  string `json:"engine"` // "epoll"
	Version string `json:"version"`
	Loop    string `json:"loop"` // "open" or "closed"
	// Protocol is the profile's protocol, or the negotiated one after auto: both, if targets differ.
	Protocol string `json:"protocol"`
	Arrivals string `json:"arrivals,omitempty"`
	// Seed is the seed of random arrivals: with it the same load is repeatable.
	Seed uint64 `json:"seed,omitempty"`

	// Result is the outcome of the requests. Generator is whether their times are those
	// of the server. Verdict is about both, for readers of earlier versions.
	Result    Result    `json:"result"`
	Generator Generator `json:"generator"`

	Started      time.Time `json:"started"`      // the schedule's t0
	MeasureStart time.Time `json:"measureStart"` // t0 + warm-up
	MeasureEnd   time.Time `json:"measureEnd"`

	// AskedRequests is Profile.Requests. If set, the window ends with their last answer.
	AskedRequests int64 `json:"askedRequests,omitempty"`

	Requests int64 `json:"requests"` // finished, whatever the outcome: the sum of Classes
	Intended int64 `json:"intended"` // due by the schedule or, in a closed loop, sent
	Sent     int64 `json:"sent"`     // of these, those that an open connection got
	// Retried counts requests that went to the server more than once: their stream was above the last of a
	// GOAWAY or refused, so that the server had certainly not processed them.
	Retried int64 `json:"retried,omitempty"`
	// Completed counts answers (any status) whose last byte arrived within the
	// measure window, whenever they were sent: the denominator of cost per request. With
	// slices it counts the answers to requests of the window, and BacklogEnd is zero.
	Completed int64 `json:"completed"`
	// BacklogStart and BacklogEnd count requests due before the start and the end of
	// the measure window that had not ended by then.
	BacklogStart int64 `json:"backlogStart"`
	BacklogEnd   int64 `json:"backlogEnd"`

	// Whole are counts of the whole run.
	Whole *Whole `json:"whole,omitempty"`

	Classes  map[Class]int64  `json:"classes"`
	Statuses map[string]int64 `json:"statuses"` // by code, of gRPC "grpc-0" and so on
	Errors   map[string]int64 `json:"errors"`   // by kind: "connect refused", "reset", "timeout", …
	// Lost counts, by kind, the requests outside the measure window that had no answer: of the
	// warm-up, the tail and their drain. No other count but Whole contains them.
	Lost     map[string]int64 `json:"lost,omitempty"`
	BytesIn  int64            `json:"bytesIn"` // received in the measure window, headers included
	BytesOut int64            `json:"bytesOut"`

	// LoadedSeconds is the part of the measure window in own slices, without guards, and
	// Slices are their counts. Both are absent without [Profile.Slices].
	LoadedSeconds float64      `json:"loadedSeconds,omitempty"`
	Slices        []SliceCount `json:"slices,omitempty"`

	// Rate is answers per second of the measure window or, with slices, of LoadedSeconds.
	Rate float64 `json:"rate"`

	// Distributions without a value are absent, never zero.
	ResponseMS Quantiles `json:"latency_ms,omitzero"`  // 2xx, from the intended start, ms
	ServiceMS  Quantiles `json:"service_ms,omitzero"`  // 2xx, from the actual send, ms
	LatenessUS Quantiles `json:"lateness_us,omitzero"` // send minus intended start, open loop, µs
	// OwnLatenessUS is the generator's own part of the lateness, in µs: send minus the
	// later of the intended start and the moment a connection was free. The rest of the
	// lateness is waiting for the server.
	OwnLatenessUS Quantiles `json:"own_lateness_us,omitzero"`

	// FailedMS are the response times of failed requests: by class of their status
	// ("4xx", "5xx"), and "timeout" and "conn", in ms.
	FailedMS map[string]Quantiles `json:"failed_ms,omitempty"`
	// Histogram is the distribution of ResponseMS.
	Histogram []Bucket `json:"histogram,omitempty"`

	// Routes are the service times by path, where the targets have several.
	Routes map[string]RouteTimes `json:"routes,omitempty"`

	// TTFBMS is the time from the send to the first byte of a 2xx answer, in ms.
	// ConnectMS and TLSMS are the times of every connect and handshake of the run, in ms.
	TTFBMS    Quantiles `json:"ttfb_ms,omitzero"`
	ConnectMS Quantiles `json:"connect_ms,omitzero"`
	TLSMS     Quantiles `json:"tls_ms,omitzero"`
	// TLS is the version and the cipher suite of the first connection, and
	// TLSResumed how many handshakes resumed a session.
	TLS        string `json:"tls,omitempty"`
	TLSResumed int64  `json:"tlsResumed,omitempty"`

	// Messages counts the messages of answers with any status: of gRPC, and of answers that stream events, lines or chunks.
	// FirstMessageMS is the time from the send to the end of the first message, in ms, of 2xx answers. MessageGapMS is the time
	// between two messages of an answer, in ms, of messages that arrived in the measure window. They are timed when the
	// kernel had them, with TLS or HTTP/2 when they were read: messages of one read arrive together.
	Messages       int64     `json:"messages,omitempty"`
	FirstMessageMS Quantiles `json:"first_message_ms,omitzero"`
	MessageGapMS   Quantiles `json:"message_gap_ms,omitzero"`
	// RoundTripMS is the time from sending a message on a stream to the end of its answer,
	// of Profile.RoundTrips, in ms. It counts answers in the measure window.
	RoundTripMS Quantiles `json:"round_trip_ms,omitzero"`

	CPUSeconds     float64 `json:"cpu_seconds"`      // of this process in the measure window
	ThreadCPURatio float64 `json:"thread_cpu_ratio"` // busiest worker: CPU time minus empty polls, over wall time, 0..1
	// GapDistance is how far the gaps between sends were from the intended ones, in
	// mean gaps (Wasserstein). It needs an open loop and 100 gaps, and is absent otherwise.
	GapDistance float64 `json:"gapDistance,omitempty"`
	Host        Host    `json:"host"`
	// QueueMax is the longest the queue of due requests without a free connection grew.
	QueueMax int64 `json:"queueMax"`
	// Reconnects counts connections opened again after t0, and IdleClosed those
	// that the server closed, or spoke on, while no request was under way.
	Reconnects int64 `json:"reconnects"`
	// Opened counts the connections opened in the measure window.
	Opened int64 `json:"opened,omitempty"`
	// Connected is how many connections were open at t0, and ConnectErrors why
	// others could not be opened, then or later, for a request or ahead of one.
	Connected     int64            `json:"connected"`
	ConnectErrors map[string]int64 `json:"connectErrors,omitempty"`
	// Reasons are the texts of the first error of each kind, such as x509's, bounded and
	// without control characters.
	Reasons map[string]string `json:"reasons,omitempty"`
	// Addresses counts the connections of the whole run by where they went.
	Addresses  map[string]int64 `json:"addresses,omitempty"`
	IdleClosed int64            `json:"idleClosed"`
	// ExtraBytes counts connections of IdleClosed on which bytes came after a response.
	ExtraBytes int64 `json:"extraBytes,omitempty"`
	// LateRests counts how often the rest of a small window was used only after 100 ms, as the server
	// returned no more of it. The wait is part of the times.
	LateRests int64 `json:"lateRests,omitempty"`
	// GoAways counts connections of the whole run that the server ended by a GOAWAY of HTTP/2.
	GoAways int64 `json:"goAways,omitempty"`
	// ClosedUnused counts connections of the whole run that the server closed before it
	// answered anything on them, and Held those open at the end of the measure window.
	ClosedUnused int64 `json:"closedUnused,omitempty"`
	Held         int64 `json:"held"`
	// SpinUS is the spin window that was used, µs.
	SpinUS float64 `json:"spin_us"`

	// Verdict is "ok", or "invalid: " with the reasons: a limit of the generator, or a
	// rate that was not reached. It contains nothing on failed requests.
	Verdict string `json:"verdict"`

	Warnings []string `json:"warnings"` // why the generator, not the server, was the limit

	// Clock is the offset of this part's clock from the clock of the process that started all
	// parts, which the times above use. It is nil if not measured. In a merged report
	// ClockSkewUS is the maximum distance between the parts' clocks, in µs, and
	// ClockBoundUS its possible error.
	Clock        *Clock  `json:"clock,omitempty"`
	ClockSkewUS  float64 `json:"clock_skew_us,omitempty"`
	ClockBoundUS float64 `json:"clock_bound_us,omitempty"`

	// Parts are the distributions themselves, so that the reports of several
	// processes can be merged without averaging percentiles. They are nil unless
	// Profile.Parts is set.
	Parts *Distributions `json:"parts,omitempty"`
}

// Whole counts the requests of the whole run, warm-up and tail included. They are those that
// a server can have received.
type Whole struct {
	Sent       int64 `json:"sent"`                 // followed redirects included
	Unanswered int64 `json:"unanswered,omitempty"` // of these, those without an answer
	Failed     int64 `json:"failed,omitempty"`     // of these, those answered with status 400 or above, or a grpc-status other than 0
	// Retried counts the repetitions of requests that the server did not process. It is
	// not part of Sent: a proxy in between may have counted them, or not.
	Retried     int64 `json:"retried,omitempty"`
	Connections int64 `json:"connections"` // opened
}

// Distributions of the measure window: HdrHistogram V2, compressed, base64, in ns.
type Distributions struct {
	Response  []byte `json:"response"`
	Service   []byte `json:"service"`
	Lateness  []byte `json:"lateness"`
	Own       []byte `json:"own"`
	FirstByte []byte `json:"firstByte"`
	Connect   []byte `json:"connect"`
	Handshake []byte `json:"handshake"`
	Message   []byte `json:"message"`
	RoundTrip []byte `json:"roundTrip,omitempty"`
	Gap       []byte `json:"gap,omitempty"`
	// Failed are the response times of failed requests, by class.
	Failed map[string][]byte `json:"failed,omitempty"`
	// Routes are the response times of successful requests, by path.
	Routes map[string][]byte `json:"routes,omitempty"`
}

// Host is the state of the machine in the measure window, zero where unknown.
type Host struct {
	StealRatio  float64 `json:"stealRatio"`  // steal time as a share of its CPU time
	CPUPressure float64 `json:"cpuPressure"` // share of the time in which some task waited for a CPU
}

// Quantiles of one distribution, whose unit is the field's. Zero count: all zero,
// and absent in JSON.
type Quantiles struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	Min   float64 `json:"min"`
	P10   float64 `json:"p10"`
	P25   float64 `json:"p25"`
	P50   float64 `json:"p50"`
	P75   float64 `json:"p75"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99.9"`
	P9999 float64 `json:"p99.99"`
	Max   float64 `json:"max"`
}

// Bucket is a part of a histogram: Count times above the bucket before, up to ToMS.
type Bucket struct {
	ToMS  float64 `json:"to_ms"`
	Count int64   `json:"count"`
}

// RouteTimes are the results of the requests of one path, where targets have
// several: 2xx answers to requests intended in the measure window.
type RouteTimes struct {
	Requests int64   `json:"requests"`
	MeanMS   float64 `json:"mean_ms,omitempty"` // from the actual send to the last byte
	// Failed counts the requests of any other outcome, and ResponseMS are the response
	// times of Requests, from the intended start, in ms.
	Failed     int64     `json:"failed,omitempty"`
	ResponseMS Quantiles `json:"latency_ms,omitzero"`
}

func (r *Report) Figures() capacity.Figures {
	f := capacity.Figures{Success: r.Result.Success, Answered: r.Rate, GeneratorOK: r.Generator.OK,
		Intended: r.Intended, Completed: r.Completed, Growth: r.BacklogEnd - r.BacklogStart}
	if q := r.ResponseMS; q.Count > 0 {
		f.TimesMS = map[string]float64{"p50": q.P50, "p75": q.P75, "p90": q.P90, "p95": q.P95, "p99": q.P99, "p99.9": q.P999, "p99.99": q.P9999,
			"mean": q.Mean, "max": q.Max}
	}
	return f
}

// HistogramBounds are the upper bounds of a report's buckets within a decade: steps of
// about a quarter, so that a reader can merge them into as many bars as fit.
var HistogramBounds = []float64{1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8}

// BoundAbove is the least bound of at least ms, by its leading digits in each decade.
func BoundAbove(ms float64, digits []float64) float64 {
	const least = 1e-3 // a microsecond: a report has no shorter times
	ms = max(ms, least)
	for exponent := math.Floor(math.Log10(ms)); ; exponent++ {
		for _, d := range digits {
			bound := d * math.Pow(10, exponent)
			if exponent < 0 {
				bound = d / math.Pow(10, -exponent) // 1.5/10 is 0.15 in print, and 1.5*0.1 is not
			}
			if bound >= ms*(1-1e-9) {
				return bound
			}
		}
	}
}

// Progress is printed as one JSON line on stdout each second while a load runs.
type Progress struct {
	Second    int     `json:"second"` // from Start
	Phase     string  `json:"phase"`  // warm-up | measure | tail
	Intended  int64   `json:"intended"`
	Completed int64   `json:"completed"`        // in this second
	Errors    int64   `json:"errors"`           // in this second, every class but 2xx
	P50MS     float64 `json:"p50_ms,omitempty"` // absent if nothing ended in this second
	P99MS     float64 `json:"p99_ms,omitempty"`
}

// Line is one line of the engine's stdout: a progress line or, last, the report.
type Line struct {
	Progress *Progress `json:"progress,omitempty"`
	Report   *Report   `json:"report,omitempty"`
	// Clock answers a [Question] that came before the profile.
	Clock *clock.Stamps `json:"clock,omitempty"`
	// Ready precedes all others of a profile with Hold: the connections are open.
	Ready bool `json:"ready,omitempty"`
}

// Begin comes on the engine's stdin after [Line.Ready], for a profile with Hold.
type Begin struct {
	Start time.Time `json:"start"`
}

// Question may come on the engine's stdin, any number of times, before the profile.
// Each is answered by a line with the clock.
type Question struct {
	Clock bool `json:"clock"`
}

// maxLine bounds one line of the engine's output, bytes. The distributions of a part
// of a load have some hundred kilobytes.
const maxLine = 16 << 20

// Lines reads the engine's output.
type Lines struct{ scan *bufio.Scanner }

// ErrNoReport is the error of an output that ends early.
var ErrNoReport = errors.New("load engine ended without a report")

// LastReport is the report at the end of the engine's whole output.
func LastReport(output []byte) (Report, error) {
	r, err := NewLines(bytes.NewReader(output)).Report(nil)
	if err != nil {
		return Report{}, err
	}
	return *r, nil
}

func NewLines(r io.Reader) *Lines {
	l := &Lines{scan: bufio.NewScanner(r)}
	l.scan.Buffer(nil, maxLine)
	return l
}

// Report reads to the end and returns the report, which is the last line. progress,
// unless nil, is called for each progress line.
func (l *Lines) Report(progress func(Progress)) (*Report, error) {
	var report *Report
	for {
		line, err := l.Next()
		switch {
		case errors.Is(err, io.EOF) && report == nil:
			return nil, ErrNoReport
		case errors.Is(err, io.EOF):
			return report, nil
		case err != nil:
			return nil, err
		}
		if line.Progress != nil && progress != nil {
			progress(*line.Progress)
		}
		if line.Report != nil {
			report = line.Report
		}
	}
}

// Next reads the next line, and the error is io.EOF at the end.
func (l *Lines) Next() (Line, error) {
	for l.scan.Scan() {
		b := bytes.TrimSpace(l.scan.Bytes())
		if len(b) == 0 {
			continue
		}
		var line Line
		if err := json.Unmarshal(b, &line); err != nil {
			return Line{}, fmt.Errorf("read load engine's output %.60q: %w", b, err)
		}
		return line, nil
	}
	if err := l.scan.Err(); err != nil {
		return Line{}, fmt.Errorf("read load engine's output: %w", err)
	}
	return Line{}, io.EOF
}

// Clocks of several hosts that share one load: the offset of each from the process that
// starts them.

// Clock is the offset of one process's clock from the clock of the process that started it.
type Clock struct {
	AheadUS float64 `json:"ahead_us"` // its clock minus the other process's, µs
	// BoundUS is the maximum error of AheadUS, µs: half of the shortest round trip,
	// since its two directions may differ.
	BoundUS float64 `json:"bound_us"`
}

func (c Clock) Ahead() time.Duration { return time.Duration(c.AheadUS * 1e3) }

// ClockOf is a Clock by its figures as durations.
func ClockOf(ahead, bound time.Duration) Clock {
	return Clock{AheadUS: float64(ahead) / 1e3, BoundUS: float64(bound) / 1e3}
}

// VersionHeader is the header of an answer with the version of the configuration that served it, and after a space the
// endpoint.
const VersionHeader = "x-tare-version"

// Versions numbers the values of [VersionHeader] that one worker has seen, from 1. 0 is an answer without the header.
type Versions struct {
	numbers map[string]int32
	Values  []string // by number
}

// maxVersions bounds the values: a server may send any.
const maxVersions = 1 << 16

func NewVersions() *Versions {
	return &Versions{numbers: map[string]int32{}, Values: []string{""}}
}

// Number returns the number of a value, 0 beyond the first 65,535.
func (v *Versions) Number(value []byte) int32 {
	n, known := v.numbers[string(value)]
	if !known && len(v.Values) < maxVersions {
		n = int32(len(v.Values))
		v.Values = append(v.Values, string(value))
		v.numbers[v.Values[n]] = n
	}
	return n
}
