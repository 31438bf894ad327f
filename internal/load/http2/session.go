// Package http2 is the client's side of HTTP/2 and gRPC: bytes in, bytes out, and requests
// on streams. It has no sockets and no clocks.
package http2

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/internal/load/stream"
)

// Windows in bytes (RFC 9113 section 5.2) that no server has to wait for: the
// engine reads as fast as it can, and what it reads it drops.
const (
	streamWindow  = 1 << 30
	sessionWindow = 1<<31 - 1
	windowBatch   = 1 << 28 // returned at once
	defaultWindow = 65535
	maxWindow     = 1<<31 - 1
)

const (
	preface           = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	lastStreamID      = 1<<31 - 1
	maxUnsent         = 256 << 10 // bytes of bodies that are framed ahead
	maxReplies        = 256 << 10 // bytes of replies that the server has not read
	defaultMaxStreams = 1 << 20   // streams, until the server's settings arrive
)

// Session is the client's side of one HTTP/2 connection (RFC 9113): bytes in, bytes
// out and requests on streams. It has no socket and no clock.
type Session struct {
	expect    *check.Expectation
	grpc      bool
	Streaming bool // a gRPC answer may have any number of messages, not just one
	// Versions numbers the values of [load.VersionHeader], nil if they are not of interest.
	Versions *load.Versions

	streams []Stream // by number, see slot
	done    []*Stream
	pending []*Stream // with body left to be sent
	most    int       // streams asked for
	Limit   int       // streams the server takes
	Active  int
	next    uint32 // the next stream's number

	Ready   bool   // the server's settings have come
	Closing bool   // no more streams here
	Spent   bool   // closing because it has had its share of requests
	GoAway  Notice // of the server's last GOAWAY with a fault, or without
	noticed bool   // by TakeGoAway
	primed  bool   // the server's table has the request's header
	plain   bool   // the server's table is too small

	output
	maxBlock int // bytes, of the header blocks so far
	headers  headerReader
	partial  []byte // the beginning of a frame
	now      int64  // of the bytes being fed

	window   window
	initial  int64 // window of a new stream, bytes
	Held     bool  // a small rest waits for more window, see Release
	Updates  int64 // frames that returned window
	received int64 // bytes for which the window is yet to be returned

	// Chunks makes each DATA frame a message.
	Chunks bool
	trips  []int64 // round trips of messages since the last TakeTrips, ns
	Gaps   Gaps

	fruitless int // cost of the frames since a request moved on, see spend
}

// result is the outcome of one request on a stream. Its instants are the ones that feed was called with.
type result struct {
	Kind    load.Failure
	Status  int   // 0: no answer
	First   int64 // when the first byte of the answer came
	Version int32 // of the answer, by [load.Versions]
	stream.Times
	// Unprocessed means that the server has guaranteed not to have acted on the request:
	// it may be retried (RFC 9113 section 8.7).
	Unprocessed bool
	Reason      Notice
	Text        string // grpc-message, percent-encoded
}

// Stream is one request and its answer.
type Stream struct {
	Slot    int // its index in session.streams
	request *Request
	send    []byte // its body
	result
	id       uint32 // 0: free
	ended    bool   // in session.done
	answered bool   // the final header has come
	sentBody int
	released int   // bytes of the body that may be sent
	answers  int   // messages that had their answer
	since    int64 // when the message without one was sent
	unsent   bool  // in session.pending
	window   window
	received int64
	length   int64  // Content-Length, negative if absent
	interim  uint64 // size of interim headers
	body     int64
	grpc     int // status, negative if absent
	content  check.Content
	incoming messageReader // of gRPC
	counter  stream.Counter
}

// NewSession makes a session for at most that number of streams. Every one has a fixed
// place by its number, so that finding it costs nothing. Numbers whose place is
// still taken are left out, as the protocol allows.
func NewSession(expect *check.Expectation, most int, grpc bool) *Session {
	places := 1
	for places < 2*most {
		places *= 2
	}
	s := &Session{expect: expect, most: most, grpc: grpc, streams: make([]Stream, places)}
	for i := range s.streams {
		s.streams[i].Slot, s.streams[i].content = i, expect.NewContent()
	}
	return s
}

// Reset prepares for a new connection, and frames the client's preface.
func (s *Session) Reset() {
	*s = Session{
		expect: s.expect, most: s.most, grpc: s.grpc, Streaming: s.Streaming, Versions: s.Versions, Chunks: s.Chunks, streams: s.streams,
		done: s.done[:0], pending: s.pending[:0], output: output{out: s.out[:0]}, partial: s.partial[:0],
		headers: headerReader{block: s.headers.block[:0], versions: s.Versions}, trips: s.trips[:0], Gaps: Gaps{s.Gaps.between[:0]}, next: 1, Limit: min(s.most, defaultMaxStreams), window: window{defaultWindow, defaultWindow}, initial: defaultWindow,
	}
	s.headers.reset()
	s.out = append(s.out, preface...)
	s.out = appendFrame(s.out, frameSettings, 0, 0, 3*6)
	for _, setting := range [][2]uint32{{settingEnablePush, 0}, {settingInitialWindow, streamWindow}, {settingMaxHeaderList, check.MaxHeader}} {
		s.out = binary.BigEndian.AppendUint16(s.out, uint16(setting[0]))
		s.out = binary.BigEndian.AppendUint32(s.out, setting[1])
	}
	s.windowUpdate(0, sessionWindow-defaultWindow)
}

// stream finds one that is under way, nil if there is none.
func (s *Session) stream(id uint32) *Stream {
	if st := s.slot(id); st.id == id && !st.ended {
		return st
	}
	return nil
}

// Size is the number of places for streams.
func (s *Session) Size() int { return len(s.streams) }

// Room reports whether another request may begin.
func (s *Session) Room() bool { return s.Ready && !s.Closing && s.Active < s.Limit }

// Begin starts a request at an instant. There must be room.
func (s *Session) Begin(r *Request, now int64) *Stream {
	st := s.open(r)
	st.since = now
	s.start(st, s.block(r), r.body)
	return st
}

// block is the header block of r for the server's table as it is.
func (s *Session) block(r *Request) []byte {
	switch {
	case s.plain:
		return r.plain
	case !s.primed:
		s.primed = true
		return r.first
	}
	return r.later
}

func (s *Session) open(r *Request) *Stream {
	st := s.slot(s.next)
	for st.id != 0 {
		s.next += 2
		st = s.slot(s.next)
	}
	st.content.Reset()
	*st = Stream{Slot: st.Slot, request: r, id: s.next, window: window{s.initial, s.initial}, length: -1, grpc: -1, content: st.content}
	s.Active++
	if s.next += 2; s.next > lastStreamID-uint32(2*len(s.streams)) {
		s.Closing = true // the numbers are used up
	}
	return st
}

func (s *Session) slot(id uint32) *Stream { return &s.streams[int(id>>1)&(len(s.streams)-1)] }

// start frames the header block of a request, and its body as far as the windows allow.
func (s *Session) start(st *Stream, header, body []byte) {
	st.send, st.released = body, len(body)
	if ends := st.request.ends; ends != nil {
		st.released = ends[0]
	}
	s.maxBlock = max(s.maxBlock, len(header))
	flags := byte(0)
	if len(body) == 0 {
		flags = flagEndStream
	}
	s.output.headers(st.id, flags, header)
	if len(body) > 0 {
		st.unsent = true
		s.pending = append(s.pending, st)
		s.pump()
	}
}

// TakeTrips returns the round trips of messages since the last call, ns. They are valid
// until the session takes more bytes.
func (s *Session) TakeTrips() []int64 {
	trips := s.trips
	s.trips = s.trips[:0]
	return trips
}

// Gaps are the times between the messages of answers since the last Take, ns.
type Gaps struct{ between []int64 }

// Take returns the times, as TakeTrips.
func (g *Gaps) Take() []int64 {
	between := g.between
	g.between = g.between[:0]
	return between
}

// arrive notes the messages of st's answer at an instant, now that it has n.
func (g *Gaps) arrive(st *Stream, n int, now int64) {
	for st.Messages < n {
		if gap := st.Arrive(now); gap >= 0 {
			g.between = append(g.between, gap)
		}
	}
}

// refuse ends st because of a fault in its answer, but the connection stays.
func (s *Session) refuse(st *Stream, k load.Failure) {
	s.output.reset(st.id, codeProtocol)
	s.end(st, k, 0)
}

// Abort gives st up for k and resets it, but the connection stays.
func (s *Session) Abort(st *Stream, k load.Failure) {
	s.output.reset(st.id, codeCancel)
	s.end(st, k, 0)
}

// end notes that st's request is over, and the worker takes it from s.done.
func (s *Session) end(st *Stream, k load.Failure, status int) {
	s.fruitless = 0
	st.ended, st.Kind, st.Status = true, k, status
	if st.unsent {
		s.forget(st)
	}
	s.done = append(s.done, st)
}

// forget takes st out of those with body left to be sent.
func (s *Session) forget(st *Stream) {
	s.pending, st.unsent = slices.DeleteFunc(s.pending, func(other *Stream) bool { return other == st }), false
}

// Abandon ends every stream for what happened to the connection.
func (s *Session) Abandon(k load.Failure) {
	for i := range s.streams {
		st := &s.streams[i]
		if st.id == 0 || st.ended {
			continue
		}
		st.ended, st.Kind, st.Status = true, k, 0
		switch {
		case k == load.FailureGoAway:
			st.Reason = s.GoAway
		case k == load.FailureClosedEarly && st.answered:
			st.Kind = load.FailureHalfResponse
		}
		s.done = append(s.done, st)
	}
	s.pending = s.pending[:0]
}

// answered lets the next message of st go once the answer to the last has come.
func (s *Session) answered(st *Stream) {
	ends := st.request.ends
	for st.answers < min(st.Messages, len(ends)) {
		s.trips = append(s.trips, s.now-st.since)
		if st.answers++; st.answers == len(ends) {
			return
		}
		st.released, st.since = ends[st.answers], s.now
		if !st.unsent {
			st.unsent = true
			s.pending = append(s.pending, st)
		}
		s.pump()
	}
}

// TakeDone returns the streams that have ended since the last call. Each must be
// retired before the session takes more bytes.
func (s *Session) TakeDone() []*Stream {
	done := s.done
	s.done = s.done[:0]
	return done
}

// Sent takes n bytes off unsent.
func (s *Session) Sent(n int) {
	if s.written += n; s.written == len(s.out) {
		s.out, s.written = s.out[:0], 0
		s.pump()
	}
}

// Retire frees the place of a stream that has ended.
func (s *Session) Retire(st *Stream) {
	st.id, st.ended = 0, false
	s.Active--
}

// EndReason is the failure of the requests under way at the end of the connection.
func (s *Session) EndReason() load.Failure {
	switch {
	case s.GoAway.Given:
		return load.FailureGoAway
	case len(s.partial) > 0 || s.headers.id != 0:
		return load.FailureHalfResponse
	}
	return load.FailureClosedEarly
}

// window is the number of bytes that a stream or the connection may still send (RFC 9113 section 5.2).
type window struct {
	left int64
	most int64 // the most that left has been
}

// add returns n bytes to w, and reports whether the result is valid.
func (w *window) add(n int64) bool {
	w.left += n
	w.most = max(w.most, w.left)
	return n > 0 && w.left <= maxWindow
}

// returns reports whether n bytes are part of those sent.
func (w *window) returns(n int64) bool { return n > 0 && w.left+n <= w.most }

// moved is w after a change of the initial window by n bytes.
func (w window) moved(n int64) window { return window{w.left + n, w.most + n} }

// pump frames bodies as far as the windows allow, without small rests.
func (s *Session) pump() { s.frameBodies(false) }

// Release frames the rests that are held, some time after they were. If no window has come since, the
// rest of it becomes the measure of later rests.
func (s *Session) Release(silent bool) {
	if silent {
		s.window.settle()
		for _, st := range s.pending {
			st.window.settle()
		}
	}
	s.frameBodies(true)
}

// settle takes the rest for all that the server gives.
func (w *window) settle() {
	if w.left > 0 {
		w.most = w.left
	}
}

func (s *Session) frameBodies(small bool) {
	s.Held = false
	left := s.pending[:0]
	waits := false // a stream waits for the connection's window: later ones must not take it
	for _, st := range s.pending {
		for !waits && len(s.out)-s.written < maxUnsent {
			rest := st.send[st.sentBody:st.released]
			n := int(min(int64(len(rest)), maxFrame, s.window.left, st.window.left))
			if n <= 0 {
				break
			}
			if n < len(rest) && !small {
				if waits = s.window.isSmall(n); waits || st.window.isSmall(n) {
					s.Held = true
					break
				}
			}
			flags := byte(0)
			if st.sentBody+n == len(st.send) {
				flags = flagEndStream
			}
			s.out = append(appendFrame(s.out, frameData, flags, st.id, n), rest[:n]...)
			s.fruitless = 0
			st.sentBody += n
			s.window.left -= int64(n)
			st.window.left -= int64(n)
			if n == len(rest) {
				break
			}
		}
		if st.unsent = st.sentBody < st.released; st.unsent {
			left = append(left, st)
		}
	}
	s.pending = left
}

// isSmall reports whether a frame of n bytes, all that is left, is to wait for more. Servers return
// a window piece by piece, and each piece sent at once would come back as a piece of its size
// (RFC 1122 section 4.2.3.4). Less than a quarter of the window waits: servers return what they
// have read by then.
func (w *window) isSmall(n int) bool {
	return int64(n) == w.left && int64(n) < min(maxFrame, w.most/4)
}

// Notice is the reason of an end that the server gave: the code of a RST_STREAM or GOAWAY, and
// the text of the latter. As an error it is that reason.
type Notice struct {
	Given bool
	code  uint32
	text  string
}

// errorCodes are the names of RFC 9113 section 7.
var errorCodes = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
	"REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

// Error is the code by number and name, and the text.
func (n *Notice) Error() string {
	name := "unknown"
	if int(n.code) < len(errorCodes) {
		name = errorCodes[n.code]
	}
	s := fmt.Sprintf("code %d (%s)", n.code, name)
	if n.text != "" {
		s += ": " + n.text
	}
	return s
}

// IsError reports whether the server ended something because of a fault.
func (n *Notice) IsError() bool { return n.code != codeNone || n.text != "" }

// maxNotice bounds the text of a GOAWAY that is kept, bytes.
const maxNotice = 400

// noticeOf reads the code and the text of a GOAWAY.
func noticeOf(code uint32, debug []byte) Notice {
	return Notice{true, code, string(debug[:min(len(debug), maxNotice)])}
}

// TakeGoAway returns the server's reason to end the connection, once, and nil otherwise.
func (s *Session) TakeGoAway() *Notice {
	if !s.GoAway.Given || s.noticed {
		return nil
	}
	s.noticed = true
	return &s.GoAway
}
