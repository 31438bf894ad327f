package load

import (
	"bytes"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
)

// script is a server as data. It greets each connection, waits for the first request,
// writes its answer once and then its flood without end.
type script struct {
	name     string
	args     string // of tare load, beside the common ones
	tls      bool   // serve over TLS
	greeting string // before any request
	answer   string
	flood    string
	piece    int // bytes per write; 0: all
	pause    time.Duration
	end      ending // after the answer, without a flood
}

// ending is the way a server ends its answer.
type ending int

const (
	hang ending = iota
	closes
	resets
)

const (
	h2   = "--http2"
	grpc = "--protocol grpc"
)

// Frames (RFC 9113 section 6).
const (
	kindData, kindHeaders, kindPriority, kindReset, kindSettings = 0, 1, 2, 3, 4
	kindPush, kindPing, kindGoAway, kindWindow, kindContinuation = 5, 6, 7, 8, 9

	endStream, endHeaders, padded = 1, 4, 8
)

// frame is one frame. The first request of a connection is on stream 1.
func frame(kind, flags byte, stream uint32, payload string) string {
	n := len(payload)
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}) + payload
}

// fields encodes header fields, given as names and values.
func fields(pairs ...string) string {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0)
	for i := 0; i < len(pairs); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}) // to memory: cannot fail
	}
	return b.String()
}

var (
	settings = frame(kindSettings, 0, 0, "")
	status   = fields(":status", "200")
	head     = frame(kindHeaders, endHeaders, 1, status)
	grpcHead = frame(kindHeaders, endHeaders, 1, fields(":status", "200", "content-type", "application/grpc"))
	zeros    = strings.Repeat("\x00", 1<<14)
	long     = strings.Repeat("x", 1<<14)
	// tableEntry adds a field of 4,000 bytes to the header table; each byte \xbe after it is that field.
	tableEntry = "\x40\x01a\x7f\x9d\x1e" + strings.Repeat("b", 3997)
)

// many repeats a frame so that a write has some 16 KiB.
func many(frame string) string { return strings.Repeat(frame, max(1, 1<<14/len(frame))) }

const slowly = 5 * time.Millisecond

var scripts = []script{
	// HTTP/1.1
	{name: "hangs"},
	{name: "closes", end: closes},
	{name: "resets", end: resets},
	{name: "greets with another protocol", greeting: "SSH-2.0-OpenSSH_9.2\r\n"},
	{name: "floods before any request", greeting: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", flood: long},
	{name: "random bytes", answer: "\x00\xff\x16\x03\x01", flood: zeros},
	{name: "endless header", answer: "HTTP/1.1 200 OK\r\n", flood: many("X: y\r\n")},
	{name: "endless header line", answer: "HTTP/1.1 200 OK\r\nX: ", flood: long},
	{name: "endless status line", answer: "HTTP/1.1 200 ", flood: long},
	{name: "endless interim responses", flood: many("HTTP/1.1 103 Early Hints\r\n\r\n")},
	{name: "endless body", answer: "HTTP/1.1 200 OK\r\n\r\n", flood: long},
	{name: "endless body of a length", answer: "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n", flood: long},
	{name: "endless chunks", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", flood: many("1\r\na\r\n")},
	{name: "endless chunk extension", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", flood: long},
	{name: "endless trailer", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", flood: many("X: y\r\n")},
	{name: "endless responses", flood: many("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
	{name: "endless JSON", args: "--expect-json a.b", answer: "HTTP/1.1 200 OK\r\n\r\n", flood: many(`[{"a":`)},
	{name: "endless body that is kept", args: "--expect-body z", answer: "HTTP/1.1 200 OK\r\n\r\n", flood: long},
	{name: "trickling header", flood: "HTTP/1.1 200 OK\r\nX: y\r\n\r\n", piece: 1, pause: slowly},
	{name: "trickling body", answer: "HTTP/1.1 200 OK\r\n\r\n", flood: "y", pause: slowly},
	{name: "half a body, then reset", answer: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", end: resets},
	// HTTP/2
	{name: "never greets", args: h2},
	{name: "greets and closes", args: h2, greeting: settings, end: closes},
	{name: "HTTP/1.1", args: h2, greeting: "HTTP/1.1 400 Bad Request\r\n\r\n"},
	{name: "settings before any request", args: h2, greeting: many(settings), flood: many(settings)},
	{name: "allows no stream", args: h2, greeting: frame(kindSettings, 0, 0, "\x00\x03\x00\x00\x00\x00")},
	{name: "gives no window", args: h2 + " --body-size 100000", greeting: frame(kindSettings, 0, 0, "\x00\x04\x00\x00\x00\x00")},
	{name: "goes away at once", args: h2, greeting: settings + frame(kindGoAway, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x00")},
	{name: "goes away at the first request", args: h2, greeting: settings, answer: frame(kindGoAway, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x00")},
	{name: "refuses the first stream", args: h2, greeting: settings, answer: frame(kindReset, 0, 1, "\x00\x00\x00\x07"), end: closes},
	{name: "interim headers", args: h2, greeting: settings, flood: many(frame(kindHeaders, endHeaders, 1, fields(":status", "103")))},
	{name: "long interim headers", args: h2, greeting: settings, flood: frame(kindHeaders, endHeaders, 1, fields(":status", "103", "a", strings.Repeat("\x01", 8000)))},
	{name: "headers of a table entry", args: h2, greeting: settings, answer: frame(kindHeaders, endHeaders, 1, fields(":status", "103")+tableEntry), flood: frame(kindHeaders, endHeaders, 1, fields(":status", "103")+strings.Repeat("\xbe", 16000))},
	{name: "empty data", args: h2, greeting: settings, answer: head, flood: many(frame(kindData, 0, 1, ""))},
	{name: "data of padding", args: h2, greeting: settings, answer: head, flood: many(frame(kindData, padded, 1, "\xff"+strings.Repeat("\x00", 255)))},
	{name: "endless data", args: h2, greeting: settings, answer: head, flood: frame(kindData, 0, 1, long)},
	{name: "endless data of a byte", args: h2, greeting: settings, answer: head, flood: many(frame(kindData, 0, 1, "x"))},
	{name: "empty continuations", args: h2, greeting: settings, answer: frame(kindHeaders, 0, 1, status), flood: many(frame(kindContinuation, 0, 1, ""))},
	{name: "endless continuations", args: h2, greeting: settings, answer: frame(kindHeaders, 0, 1, status), flood: frame(kindContinuation, 0, 1, long)},
	{name: "window updates", args: h2, greeting: settings, flood: many(frame(kindWindow, 0, 1, "\x00\x00\x00\x00")) + many(frame(kindWindow, 0, 0, "\x00\x00\x00\x01"))},
	{name: "settings", args: h2, greeting: settings, flood: many(settings)},
	{name: "settings of windows", args: h2 + " --streams 1000", greeting: settings, flood: frame(kindSettings, 0, 0, strings.Repeat("\x00\x04\x00\x00\x00\x00\x00\x04\x00\x00\x00\x01", 1000))},
	{name: "pings", args: h2, greeting: settings, flood: many(frame(kindPing, 0, 0, "12345678"))},
	{name: "priorities", args: h2, greeting: settings, flood: many(frame(kindPriority, 0, 1, "\x00\x00\x00\x00\x10"))},
	{name: "resets of a closed stream", args: h2, greeting: settings, flood: many(frame(kindReset, 0, 1, "\x00\x00\x00\x08"))},
	{name: "frames of no known type", args: h2, greeting: settings, flood: many(frame(77, 0xff, 1, "what"))},
	{name: "goes away without end", args: h2, greeting: settings, flood: many(frame(kindGoAway, 0, 0, "\x7f\xff\xff\xff\x00\x00\x00\x00"))},
	{name: "a push", args: h2, greeting: settings, answer: frame(kindPush, endHeaders, 1, "\x00\x00\x00\x02"+status)},
	{name: "trickling frames", args: h2, greeting: settings, flood: head + frame(kindData, 0, 1, "x"), piece: 1, pause: slowly},
	{name: "half a frame", args: h2, greeting: settings, answer: head + frame(kindData, endStream, 1, "hello")[:10], end: resets},
	// TLS
	{name: "a plain server", args: "-k", greeting: "HTTP/1.1 400 Bad Request\r\n\r\n"},
	{name: "TLS that never begins", args: "-k"},
	{name: "TLS alerts", args: "-k", greeting: many("\x15\x03\x03\x00\x02\x01\x5a"), flood: many("\x15\x03\x03\x00\x02\x01\x5a")},
	{name: "TLS handshake without end", args: "-k", flood: "\x16\x03\x03\x40\x00" + "\x02\x00\xff\xff" + zeros[4:]},
	{name: "TLS records of nothing", args: "-k", flood: many("\x17\x03\x03\x00\x00")},
	{name: "over TLS, hangs", args: "-k", tls: true},
	{name: "over TLS, resets", args: "-k", tls: true, end: resets},
	{name: "over TLS, endless header", args: "-k", tls: true, answer: "HTTP/1.1 200 OK\r\n", flood: many("X: y\r\n")},
	{name: "over TLS, endless body", args: "-k", tls: true, answer: "HTTP/1.1 200 OK\r\n\r\n", flood: long},
	{name: "over TLS, pings", args: "-k " + h2, tls: true, greeting: settings, flood: many(frame(kindPing, 0, 0, "12345678"))},
	{name: "over TLS, trickling frames", args: "-k " + h2, tls: true, greeting: settings, flood: head, piece: 1, pause: slowly},
	// gRPC
	{name: "endless empty messages", args: grpc, greeting: settings, answer: grpcHead, flood: many(frame(kindData, 0, 1, zeros[:5]))},
	{name: "a message of 4 GiB", args: grpc, greeting: settings, answer: grpcHead + frame(kindData, 0, 1, "\x00\xff\xff\xff\xff"), flood: frame(kindData, 0, 1, long)},
	{name: "no trailer", args: grpc, greeting: settings, answer: grpcHead + frame(kindData, 0, 1, zeros[:5])},
	{name: "a reset after the headers", args: grpc, greeting: settings, answer: grpcHead + frame(kindReset, 0, 1, "\x00\x00\x00\x02")},
}
