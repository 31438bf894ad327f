// Package loadgen is tare's own load engine. See [Profile] for what it is asked
// to do and [Report] for what it answers.
package loadgen

import (
	"time"

	"github.com/tare-mesh/tare/internal/base/clock"
)

// Profile is one load, complete and serialisable: `tare-agent load` reads it as
// JSON, `tare load` builds it from flags, and every other generator's adapter
// translates it into that generator's command line.
type Profile struct {
	// Targets are URLs of equal weight, visited in turn; usually one, or one per replica.
	Targets []string `json:"targets"`
	Method  string   `json:"method,omitempty"` // default GET, POST with a body
	// RequestSize is the length of the request's body in bytes.
	RequestSize int64 `json:"requestSize,omitempty"`
	// Rate is the requests per second of the open loop; 0 is a closed loop at the maximum.
	Rate        float64 `json:"rate"`
	Arrivals    string  `json:"arrivals,omitempty"` // constant | poisson | uniform | replay
	Seed        uint64  `json:"seed,omitempty"`
	Connections int     `json:"connections"`
	Workers     int     `json:"workers,omitempty"` // OS threads; default 1
	// Protocol is http1 (default), http2, grpc (unary calls; a target's path is the
	// method, the body one message: that of BodyFile, or one whose field 1 has
	// RequestSize bytes) or tcp (the body, at least one byte, is sent as it is and must
	// come back; a target is tcp://host:port, over TLS tls://host:port, or an http or
	// https URL of which only host and port count, and ExpectSize is of no effect). Over
	// TLS http2 and grpc are agreed on by ALPN, else they are spoken by prior knowledge. Or auto: http2 for an https
	// target whose server chooses it, asked once before the load, http1 for any other.
	Protocol string `json:"protocol,omitempty"`
	// Streams is how many requests HTTP/2 and gRPC have under way on one connection
	// at most; default 16. The server may allow fewer.
	Streams int `json:"streams,omitempty"`
	// GRPCStream says that the method is server-streaming: its answer is any number
	// of messages, and the response time lasts until the status after the last.
	// ExpectSize is then the size of every message.
	GRPCStream bool `json:"grpcStream,omitempty"`

	Timeout time.Duration `json:"timeout"` // ns

	// The schedule starts at Start (zero: at once). Requests intended before
	// Start+Warmup are warm-up; those intended in the Measure that follows are
	// the measurement; load goes on for Tail so that meters can be read under it.
	Start   time.Time     `json:"start,omitzero"`
	Warmup  time.Duration `json:"warmup"`
	Measure time.Duration `json:"measure"`
	Tail    time.Duration `json:"tail"`
	// Requests, if not zero, ends the measure window when so many requests have been
	// sent in it and answered; Measure is then its longest.
	Requests int64         `json:"requests,omitempty"`
	Drain    time.Duration `json:"drain"` // how long to wait for requests in flight at the end

	// Calibrate is for how long to measure the generator's own floor before the
	// load, against a server inside this process; zero: not.
	Calibrate time.Duration `json:"calibrate,omitempty"`

	// HDRPath receives the HdrHistogram interval log; empty: none.
	HDRPath string `json:"hdrPath,omitempty"`
	// Segments and Sine let the rate change with time, counted from the schedule's
	// start; then Rate, where it is zero, is their mean. ReplayFile has the
	// instants of arrivals "replay": seconds, one a line.
	Segments   []Segment `json:"segments,omitempty"`
	Sine       *Sine     `json:"sine,omitempty"`
	ReplayFile string    `json:"replayFile,omitempty"`
	// Overflow says what becomes of a request that is due while every connection
	// is busy: "queue" (default; it waits and the wait counts) or "drop" (it is
	// counted as dropped and never sent).
	Overflow string `json:"overflow,omitempty"`
	// Part of Parts: this process sends requests Part, Part+Parts, … of the one
	// schedule that all parts share (by workers). Zero Parts: the whole of it.
	Part  int `json:"part,omitempty"`
	Parts int `json:"parts,omitempty"`

	// Weights of the targets, in their order; empty: all equal.
	Weights []int `json:"weights,omitempty"`
	// Headers are sent with every request, "Name: value".
	Headers []string `json:"headers,omitempty"`
	// BodyFile has the request's body, in place of RequestSize bytes of nothing in particular.
	BodyFile string `json:"bodyFile,omitempty"`
	// Resolve says when the names of hosts are looked up: "once" (default), before the
	// load, or "connection", for every connection that is opened; then the look-up is
	// part of opening it. Several addresses of one name are used in turn, and one
	// that cannot be connected to is passed over for a second.
	Resolve string `json:"resolve,omitempty"`
	// IPVersion is "4" or "6" to use only such addresses of a name; empty: all.
	IPVersion string `json:"ipVersion,omitempty"`
	// Follow is how many redirects a request follows at most, each to whatever host it
	// names; 0: none, a redirect counts as its status. The response time is that of
	// the whole chain, Timeout is for each of its answers. HTTP/1.1 only.
	Follow int `json:"follow,omitempty"`
	// NoKeepAlive opens a connection for every request; the service time begins with it.
	NoKeepAlive bool `json:"noKeepAlive,omitempty"`

	// CPUs pins the workers; empty: wherever the process may run.
	CPUs []int `json:"cpus,omitempty"`
	// Spin is how long before a send a worker stops sleeping and polls (ns). With it a
	// worker polls for answers too, while they are due as others before them were and
	// as long as both take no more than three quarters of its core. It makes sends
	// punctual to the microsecond, takes waking up out of the response times (some 20 µs
	// each on a virtual machine), and costs CPU that the system under test may need. Zero: 60 µs if the process has a core to spare for each worker,
	// none otherwise; negative: none.
	Spin time.Duration `json:"spin,omitempty"`
	// Engine is "" for the best there is, or "portable": a goroutine for each
	// connection, which runs everywhere and is less punctual.
	Engine string `json:"engine,omitempty"`
	// Socket is the path of a Unix socket to connect to in place of the targets' hosts.
	Socket string `json:"socket,omitempty"`
	// TLS says how https targets are spoken to; nil: by the system's roots.
	TLS *TLS `json:"tls,omitempty"`
	// ExpectStatus are the statuses that count as success: codes ("404"), classes
	// ("3xx"), of gRPC "grpc-0" to "grpc-16". Answers of any other are counted as
	// "wrong status". Empty: 2xx and gRPC's 0 are success, others are counted by
	// their status alone. The checks below are of answers that count as success.
	ExpectStatus []string `json:"expectStatus,omitempty"`
	// ExpectSize is the size every body must have in bytes; negative: any.
	// For gRPC it is the size of the bytes in field 1 of the answer's message, as in
	// RequestSize.
	ExpectSize int64 `json:"expectSize"`
	// BodyHas and BodyLacks are texts that every body must and must not contain,
	// looked for in its first MiB: some servers report failures in the body of a
	// 200. Checking keeps a copy of each body, which costs CPU.
	BodyHas   []string `json:"bodyHas,omitempty"`
	BodyLacks []string `json:"bodyLacks,omitempty"`
	// JSONHas and JSONLacks are fields that every body, which then must be JSON, must
	// and must not have: "errors", or "data.errors" for one within another (\. is a
	// dot in a name). A field that is null, an empty list or an empty object counts as
	// absent. The body is read as it comes and not kept. Not for gRPC.
	JSONHas   []string `json:"jsonHas,omitempty"`
	JSONLacks []string `json:"jsonLacks,omitempty"`
}

// TLS are the files of a TLS or mutual TLS connection, PEM.
type TLS struct {
	CAFile     string `json:"caFile,omitempty"`   // roots to trust in place of the system's
	CertFile   string `json:"certFile,omitempty"` // the client's own certificate, with KeyFile
	KeyFile    string `json:"keyFile,omitempty"`
	ServerName string `json:"serverName,omitempty"` // default: the target's host
	Insecure   bool   `json:"insecure,omitempty"`   // accept any certificate
	// FullHandshake makes every connection shake hands from scratch. By default those
	// opened after the first resume its session where the server allows it, as browsers
	// and most clients do.
	FullHandshake bool `json:"fullHandshake,omitempty"`
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
// (send minus intended start) over all classes. Values are nanoseconds; one line
// a second and tag; only requests intended in that second count in it. Seconds
// are counted from Profile.Start, warm-up included.
const (
	TagResponse = "response."
	TagService  = "service."
	TagLateness = "lateness"
)

// Report is what a load run says at its end. Counts are of requests intended
// in the measure window, unless stated otherwise.
type Report struct {
	Engine  string `json:"engine"` // "epoll" or "portable"
	Version string `json:"version"`
	Loop    string `json:"loop"` // "open" or "closed"
	// Protocol is that of the profile, or what became of auto: both, if targets differ.
	Protocol string `json:"protocol"`
	Arrivals string `json:"arrivals,omitempty"`

	Started      time.Time `json:"started"`      // the schedule's t0
	MeasureStart time.Time `json:"measureStart"` // t0 + warm-up
	MeasureEnd   time.Time `json:"measureEnd"`

	// AskedRequests is Profile.Requests; then the window ends with their last answer.
	AskedRequests int64 `json:"askedRequests,omitempty"`

	Requests int64 `json:"requests"` // finished, whatever the outcome: the sum of Classes
	// Redirects counts those that the requests have followed.
	Redirects int64 `json:"redirects,omitempty"`
	Dropped   int64 `json:"dropped,omitempty"` // due while every connection was busy, and not sent
	Intended  int64 `json:"intended"`          // the schedule asked for so many; closed loop: sent
	Sent      int64 `json:"sent"`
	// Completed counts answers (any status) whose last byte arrived within the
	// measure window, whenever they were sent: the denominator of cost per request.
	Completed int64            `json:"completed"`
	Classes   map[Class]int64  `json:"classes"`
	Statuses  map[string]int64 `json:"statuses"` // by code; of gRPC "grpc-0" and so on
	Errors    map[string]int64 `json:"errors"`   // by kind: "connect refused", "reset", "timeout", …
	BytesIn   int64            `json:"bytesIn"`  // received in the measure window, headers included
	BytesOut  int64            `json:"bytesOut"`

	// Rate is answers per second of the measure window.
	Rate float64 `json:"rate"`

	ResponseMS Quantiles `json:"latency_ms"`  // 2xx, from the intended start; ms
	ServiceMS  Quantiles `json:"service_ms"`  // 2xx, from the actual send; ms
	LatenessUS Quantiles `json:"lateness_us"` // send minus intended start; µs
	// OwnLatenessUS is the part of the lateness that is the generator's own doing:
	// send minus the later of the intended start and the moment a connection was
	// free. The rest of the lateness is waiting for the server; µs.
	OwnLatenessUS Quantiles `json:"own_lateness_us"`

	// Routes are the service times by path, where the targets have several.
	Routes map[string]RouteTimes `json:"routes,omitempty"`

	// TTFBMS is the time from the send to the first byte of a 2xx answer; ConnectMS
	// and TLSMS are the times of every connect and handshake of the run; ms.
	TTFBMS    Quantiles `json:"ttfb_ms"`
	ConnectMS Quantiles `json:"connect_ms"`
	TLSMS     Quantiles `json:"tls_ms,omitzero"`
	// TLS is the version and the cipher suite of the first connection, and
	// TLSResumed how many handshakes resumed a session.
	TLS        string `json:"tls,omitempty"`
	TLSResumed int64  `json:"tlsResumed,omitempty"`

	// Messages counts those of gRPC answers, whatever their status; FirstMessageMS is
	// the time from the send to the end of the first message, of calls with status 0; ms.
	Messages       int64     `json:"messages,omitempty"`
	FirstMessageMS Quantiles `json:"first_message_ms,omitzero"`

	CPUSeconds     float64 `json:"cpu_seconds"`      // of this process in the measure window
	ThreadCPURatio float64 `json:"thread_cpu_ratio"` // busiest worker: CPU time less polls that found nothing, over wall time, 0..1
	// FloorMS is the response time this generator measured for a server in its own
	// process that answers at once: the least it can see here. Absent without Profile.Calibrate.
	FloorMS Quantiles `json:"floor_ms,omitzero"`
	// GapDistance is how far the gaps between sends were from the intended ones, in
	// mean gaps (Wasserstein): 0 for arrivals exactly as asked.
	GapDistance float64 `json:"gapDistance"`
	Host        Host    `json:"host"`
	// QueueMax is the longest the queue of due requests without a free connection grew.
	QueueMax int64 `json:"queueMax"`
	// Reconnects counts connections opened again after t0; IdleClosed those that
	// the server closed, or spoke on, while no request was under way.
	Reconnects int64 `json:"reconnects"`
	// Connected is how many connections were open at t0, and ConnectErrors why
	// others could not be opened, then or later, for a request or ahead of one.
	Connected     int64            `json:"connected"`
	ConnectErrors map[string]int64 `json:"connectErrors,omitempty"`
	// Addresses counts the connections of the whole run by where they went, and
	// ResolveMS is the time of every look-up for one of them; ms.
	Addresses  map[string]int64 `json:"addresses,omitempty"`
	ResolveMS  Quantiles        `json:"resolve_ms,omitzero"`
	IdleClosed int64            `json:"idleClosed"`
	// SpinUS is the spin window that was used, µs.
	SpinUS float64 `json:"spin_us"`

	// Verdict is "ok", or "invalid: " and which limit of the generator was met.
	Verdict string `json:"verdict"`

	Warnings []string `json:"warnings"` // why the generator, not the server, was the limit

	// Clock is how this part's clock stood to that of the one who started all parts,
	// by which the times above are told; nil: not measured. Of a merged report
	// ClockSkewUS is how far the parts' clocks are apart at most, and ClockBoundUS by
	// how much that may be wrong; µs.
	Clock        *Clock  `json:"clock,omitempty"`
	ClockSkewUS  float64 `json:"clock_skew_us,omitempty"`
	ClockBoundUS float64 `json:"clock_bound_us,omitempty"`

	// Parts are the distributions themselves, so that the reports of several
	// processes can be merged without averaging percentiles; nil unless Profile.Parts is set.
	Parts *Distributions `json:"parts,omitempty"`
}

// Distributions of the measure window: HdrHistogram V2, compressed, base64; ns.
type Distributions struct {
	Response  []byte `json:"response"`
	Service   []byte `json:"service"`
	Lateness  []byte `json:"lateness"`
	Own       []byte `json:"own"`
	FirstByte []byte `json:"firstByte"`
	Connect   []byte `json:"connect"`
	Handshake []byte `json:"handshake"`
	Message   []byte `json:"message"`
	Lookup    []byte `json:"lookup"`
}

// Host is what the machine was like in the measure window; zero where unknown.
type Host struct {
	StealRatio  float64 `json:"stealRatio"`  // share of its CPU time that the hypervisor gave to others
	CPUPressure float64 `json:"cpuPressure"` // share of the time in which some task waited for a CPU
}

// Quantiles of one distribution; the unit is the field's. Zero count: all zero.
type Quantiles struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99.9"`
	P9999 float64 `json:"p99.99"`
	Max   float64 `json:"max"`
}

// Progress is printed as one JSON line on stdout each second while a load runs.
type Progress struct {
	Second    int     `json:"second"` // from Start
	Phase     string  `json:"phase"`  // warm-up | measure | tail
	Intended  int64   `json:"intended"`
	Completed int64   `json:"completed"` // in this second
	Errors    int64   `json:"errors"`    // in this second, every class but 2xx
	P50MS     float64 `json:"p50_ms"`
	P99MS     float64 `json:"p99_ms"`
}

// Line is one line of the engine's stdout: a progress line or, last, the report.
type Line struct {
	Progress *Progress `json:"progress,omitempty"`
	Report   *Report   `json:"report,omitempty"`
	// Clock answers a [Question] that came before the profile.
	Clock *clock.Stamps `json:"clock,omitempty"`
}

// Question may come on the engine's stdin, any number of times, before the profile.
// Each is answered by a line with the clock.
type Question struct {
	Clock bool `json:"clock"`
}
