package loadgen

import (
	"encoding/binary"

	"golang.org/x/net/http2/hpack"
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
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	lastStreamID  = 1<<31 - 1
	maxUnsent     = 256 << 10 // bytes of bodies that are framed ahead
	maxReplies    = 1 << 20   // bytes a server may make us say without reading them
	neverPromised = 1 << 20   // streams, until the server says how many it takes
)

// session is the client's side of one HTTP/2 connection (RFC 9113): bytes in, bytes
// out and requests on streams. It knows neither sockets nor clocks.
type session struct {
	request *requestH2
	expect  *expectation
	grpc    bool
	many    bool // a gRPC answer may have any number of messages, not just one
	bodily  bool

	decoder *hpack.Decoder
	streams []stream // by number, see slot
	done    []*stream
	pending []*stream // with body left to be sent
	most    int       // streams asked for
	limit   int       // streams the server takes
	active  int
	next    uint32 // the next stream's number

	greeted bool // the server's settings have come
	closing bool // no more streams here
	goneBy  bool // by GOAWAY
	primed  bool // the server's table has the request's header
	plain   bool // the server's table is too small

	out     []byte
	written int // bytes of out
	partial []byte
	now     int64 // of the bytes being fed

	window   int64 // that may be sent, of the connection
	initial  int64 // of a stream
	received int64 // bytes for which the window is yet to be returned

	block    []byte // header block whose end is yet to come
	blockID  uint32 // its stream; 0: none
	blockEnd bool   // it ends the stream
	head     head
}

// result is the outcome of one request on a stream; instants are those of feed.
type result struct {
	kind     kind
	status   int   // 0: no answer
	first    int64 // when the first byte of the answer came
	messages int   // of gRPC
	message  int64 // when the first of them was whole
}

// stream is one request and its answer.
type stream struct {
	slot int // its index in session.streams
	result
	id       uint32 // 0: free
	ended    bool   // in session.done
	answered bool   // the final header has come
	sentBody int
	unsent   bool // in session.pending
	window   int64
	received int64
	length   int64 // Content-Length; negative: not said
	body     int64
	grpc     int // status; negative: not said
	content  content

	// Of gRPC:
	prefix   [grpcPrefixSize]byte
	prefixed int   // bytes of prefix that are here; all of them: a message is under way
	left     int64 // of the message
	flaw     kind  // what is wrong with a message
}

// newSession makes a session for at most so many streams. Every one has a fixed
// place by its number, so that finding it costs nothing; numbers whose place is
// still taken are left out, as the protocol allows.
func newSession(request *requestH2, expect *expectation, most int, bodily, grpc bool) *session {
	places := 1
	for places < 2*most {
		places *= 2
	}
	s := &session{request: request, expect: expect, most: most, bodily: bodily, grpc: grpc, streams: make([]stream, places)}
	for i := range s.streams {
		s.streams[i].slot, s.streams[i].content = i, expect.content()
	}
	s.decoder = hpack.NewDecoder(defaultTable, s.field)
	s.decoder.SetMaxStringLength(maxHeader)
	return s
}

// reset prepares for a new connection, and says what a client says first.
func (s *session) reset() {
	*s = session{
		request: s.request, expect: s.expect, most: s.most, bodily: s.bodily, grpc: s.grpc, many: s.many, streams: s.streams,
		decoder: hpack.NewDecoder(defaultTable, s.field), done: s.done[:0], pending: s.pending[:0], out: s.out[:0], partial: s.partial[:0],
		block: s.block[:0], next: 1, limit: min(s.most, neverPromised), window: defaultWindow, initial: defaultWindow,
	}
	s.decoder.SetMaxStringLength(maxHeader)
	s.out = append(s.out, preface...)
	s.out = appendFrame(s.out, frameSettings, 0, 0, 3*6)
	for _, setting := range [][2]uint32{{settingEnablePush, 0}, {settingInitialWindow, streamWindow}, {settingMaxHeaderList, maxHeader}} {
		s.out = binary.BigEndian.AppendUint16(s.out, uint16(setting[0]))
		s.out = binary.BigEndian.AppendUint32(s.out, setting[1])
	}
	s.giveWindow(0, sessionWindow-defaultWindow)
}

// slot is the place of a stream's number.
func (s *session) slot(id uint32) *stream { return &s.streams[int(id>>1)&(len(s.streams)-1)] }

// stream finds one that is under way; nil if there is none.
func (s *session) stream(id uint32) *stream {
	if st := s.slot(id); st.id == id && !st.ended {
		return st
	}
	return nil
}

// size is the number of places for streams.
func (s *session) size() int { return len(s.streams) }

// room says whether another request may begin.
func (s *session) room() bool { return s.greeted && !s.closing && s.active < s.limit }

// begin starts a request; there must be room.
func (s *session) begin() *stream {
	st := s.slot(s.next)
	for st.id != 0 {
		s.next += 2
		st = s.slot(s.next)
	}
	st.content.again()
	*st = stream{slot: st.slot, id: s.next, window: s.initial, length: -1, grpc: -1, content: st.content}
	s.active++
	if s.next += 2; s.next > lastStreamID-uint32(2*len(s.streams)) {
		s.closing = true // the numbers are used up
	}
	block := s.request.later
	switch {
	case s.plain:
		block = s.request.plain
	case !s.primed:
		block, s.primed = s.request.first, true
	}
	flags := byte(0)
	if len(s.request.body) == 0 {
		flags = flagEndStream
	}
	s.writeHeaders(st.id, flags, block)
	if len(s.request.body) > 0 {
		st.unsent = true
		s.pending = append(s.pending, st)
		s.pump()
	}
	return st
}

// pump frames bodies as far as the windows allow.
func (s *session) pump() {
	left := s.pending[:0]
	for _, st := range s.pending {
		for len(s.out)-s.written < maxUnsent {
			rest := s.request.body[st.sentBody:]
			n := int(min(int64(len(rest)), maxFrame, s.window, st.window))
			if n <= 0 {
				break
			}
			flags := byte(0)
			if n == len(rest) {
				flags = flagEndStream
			}
			s.out = append(appendFrame(s.out, frameData, flags, st.id, n), rest[:n]...)
			st.sentBody += n
			s.window -= int64(n)
			st.window -= int64(n)
			if n == len(rest) {
				break
			}
		}
		if st.unsent = st.sentBody < len(s.request.body); st.unsent {
			left = append(left, st)
		}
	}
	s.pending = left
}

// end notes that st's request is over; the worker takes it from s.done.
func (s *session) end(st *stream, k kind, status int) {
	st.ended, st.kind, st.status = true, k, status
	if st.unsent {
		s.forget(st)
	}
	s.done = append(s.done, st)
}

// forget takes st out of those with body left to be sent.
func (s *session) forget(st *stream) {
	left := s.pending[:0]
	for _, other := range s.pending {
		if other != st {
			left = append(left, other)
		}
	}
	s.pending, st.unsent = left, false
}

// refuse ends st for what is wrong with its answer; the connection stays.
func (s *session) refuse(st *stream, k kind) {
	s.cancel(st.id, codeProtocol)
	s.end(st, k, 0)
}

// cancel tells the server that a stream is of no interest any more.
func (s *session) cancel(id uint32, code uint32) {
	s.out = binary.BigEndian.AppendUint32(appendFrame(s.out, frameReset, 0, id, 4), code)
}

// abort gives st up for k and resets it; the connection stays.
func (s *session) abort(st *stream, k kind) {
	s.cancel(st.id, codeCancel)
	s.end(st, k, 0)
}

// abandon ends every stream for what happened to the connection.
func (s *session) abandon(k kind) {
	for i := range s.streams {
		st := &s.streams[i]
		if st.id == 0 || st.ended {
			continue
		}
		st.ended, st.kind, st.status = true, k, 0
		if k == kindClosedEarly && st.answered {
			st.kind = kindHalfResponse
		}
		s.done = append(s.done, st)
	}
	s.pending = s.pending[:0]
}

// takeDone returns the streams that have ended since the last call. Each must be
// retired before the session takes more bytes.
func (s *session) takeDone() []*stream {
	done := s.done
	s.done = s.done[:0]
	return done
}

// unsent are the bytes for the server.
func (s *session) unsent() []byte { return s.out[s.written:] }

// sent takes n bytes off unsent.
func (s *session) sent(n int) {
	if s.written += n; s.written == len(s.out) {
		s.out, s.written = s.out[:0], 0
		s.pump()
	}
}

// compact frees the memory of bytes that were sent.
func (s *session) compact() {
	s.out = append(s.out[:0], s.out[s.written:]...)
	s.written = 0
}

// retire frees the place of a stream that has ended.
func (s *session) retire(st *stream) {
	st.id, st.ended = 0, false
	s.active--
}

// giveWindow lets the server send n more bytes.
func (s *session) giveWindow(id uint32, n int64) {
	s.out = binary.BigEndian.AppendUint32(appendFrame(s.out, frameWindow, 0, id, 4), uint32(n))
}

// eof says what the end of the stream means for what is under way.
func (s *session) eof() kind {
	switch {
	case s.goneBy:
		return kindGoAway
	case len(s.partial) > 0 || s.blockID != 0:
		return kindHalfResponse
	}
	return kindClosedEarly
}
