package http2

import (
	"encoding/binary"
	"errors"
	"strconv"

	"golang.org/x/net/http2/hpack"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/internal/load/stream"
)

// Frames of HTTP/2 (RFC 9113 section 6).
const (
	frameData         = 0
	frameHeaders      = 1
	framePriority     = 2
	frameReset        = 3
	frameSettings     = 4
	framePush         = 5
	framePing         = 6
	frameGoAway       = 7
	frameWindow       = 8
	frameContinuation = 9
	frameTypes        = 10

	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20

	frameHeader = 9       // bytes
	maxFrame    = 1 << 14 // bytes of payload, unless settings allow more: ours do not

	settingTableSize     = 1
	settingEnablePush    = 2
	settingMaxStreams    = 3
	settingInitialWindow = 4
	settingMaxFrame      = 5
	settingMaxHeaderList = 6

	codeNone     = 0
	codeProtocol = 1
	codeRefused  = 7
	codeCancel   = 8
)

type frame struct {
	kind, flags byte
	id          uint32
	payload     []byte
}

// Feed takes the next bytes from the server, at the given instant. Anything but
// kindNone is the end of the connection. Requests that ended are in s.done.
func (s *Session) Feed(b []byte, now int64) load.Failure {
	s.now = now
	for len(s.partial) > 0 && len(b) > 0 {
		// Complete the one frame of which a part is here.
		need := frameHeader
		if len(s.partial) >= frameHeader {
			_, size := parseFrameHeader(s.partial)
			need += size
		}
		n := min(max(need-len(s.partial), 0), len(b))
		s.partial, b = append(s.partial, b[:n]...), b[n:]
		used, k := incoming{s}.frames(s.partial)
		if k != load.FailureNone {
			return k
		}
		if used > 0 {
			s.partial = s.partial[:0]
		}
	}
	used, k := incoming{s}.frames(b)
	if k == load.FailureNone && used < len(b) {
		s.partial = append(s.partial, b[used:]...)
	}
	return k
}

type incoming struct{ session *Session }

// frames handles the whole frames at the front of b, and returns their length in bytes.
func (s incoming) frames(b []byte) (used int, k load.Failure) {
	for len(b)-used >= frameHeader {
		f, size := parseFrameHeader(b[used:])
		if size > maxFrame || !s.session.Ready && (f.kind != frameSettings || f.flags&flagAck != 0) {
			return used, load.FailureProtocol
		}
		end := used + frameHeader + size
		if end > len(b) {
			break
		}
		f.payload = b[used+frameHeader : end]
		if s.spend(1); s.session.fruitless > maxFruitless {
			return used, load.FailureFlood
		}
		if k := s.handle(f); k != load.FailureNone {
			return used, k
		}
		if len(s.session.out)-s.session.written > maxReplies+maxUnsent+s.session.maxBlock*s.session.most {
			return used, load.FailureProtocol // a flood of what must be answered
		}
		used = end
	}
	return used, load.FailureNone
}

func parseFrameHeader(b []byte) (f frame, size int) {
	return frame{kind: b[3], flags: b[4], id: binary.BigEndian.Uint32(b[5:]) & lastStreamID}, int(b[0])<<16 | int(b[1])<<8 | int(b[2])
}

// maxFruitless bounds the frames of a connection that advance no request: empty data,
// interim headers, settings, pings and the like. Proxies send a few per request.
const maxFruitless = 10_000

// streamsPerCost and headerPerCost are the streams visited, and the bytes of header decoded,
// for about as much work as one small frame takes.
const (
	streamsPerCost = 16
	headerPerCost  = 64
)

// frameRule is the form that every frame of a type must have.
type frameRule struct {
	onStream, onSession bool
	size                int // exact, negative for any
	handle              func(incoming, frame) load.Failure
}

var frameRules = [frameTypes]frameRule{
	frameData:         {onStream: true, size: -1, handle: incoming.takeData},
	frameHeaders:      {onStream: true, size: -1, handle: incoming.takeHeaders},
	framePriority:     {onStream: true, size: 5, handle: func(incoming, frame) load.Failure { return load.FailureNone }},
	frameReset:        {onStream: true, size: 4, handle: incoming.takeReset},
	frameSettings:     {onSession: true, size: -1, handle: incoming.takeSettings},
	framePush:         {onStream: true, size: -1, handle: func(incoming, frame) load.Failure { return load.FailureProtocol }}, // disabled by our settings
	framePing:         {onSession: true, size: 8, handle: incoming.takePing},
	frameGoAway:       {onSession: true, size: -1, handle: incoming.takeGoAway},
	frameWindow:       {onStream: true, onSession: true, size: 4, handle: incoming.takeWindow},
	frameContinuation: {onStream: true, size: -1, handle: incoming.takeContinuation},
}

func (s incoming) handle(f frame) load.Failure {
	if s.session.headers.id != 0 && f.kind != frameContinuation {
		return load.FailureProtocol // nothing may come between the parts of a header
	}
	if f.kind >= frameTypes {
		return load.FailureNone
	}
	rule := &frameRules[f.kind]
	switch {
	case f.id == 0 && !rule.onSession, f.id != 0 && !rule.onStream, rule.size >= 0 && len(f.payload) != rule.size:
		return load.FailureProtocol
	case f.id != 0 && f.kind != framePriority && (f.id%2 == 0 || f.id >= s.session.next):
		return load.FailureProtocol // a stream that was not opened
	}
	return rule.handle(s, f)
}

func (s incoming) takeData(f frame) load.Failure {
	size := int64(len(f.payload)) // padding included: it all counts
	if s.session.received += size; s.session.received >= windowBatch {
		s.session.windowUpdate(0, s.session.received)
		s.session.received = 0
	}
	if !f.unpad() {
		return load.FailureProtocol
	}
	st := s.session.stream(f.id)
	if st == nil {
		return load.FailureNone // given up
	}
	if !st.answered {
		s.session.refuse(st, load.FailureMalformed)
		return load.FailureNone
	}
	if st.received += size; st.received >= windowBatch {
		s.session.windowUpdate(f.id, st.received)
		st.received = 0
	}
	if len(f.payload) > 0 {
		if k := check.Bodyless(st.request.bodyless, st.Status); k != load.FailureNone {
			s.session.refuse(st, k)
			return load.FailureNone
		}
		s.session.fruitless = 0
	}
	st.body += int64(len(f.payload))
	if s.session.grpc {
		st.incoming.read(st, f.payload, s.session.expect.Size)
		s.session.Gaps.arrive(st, st.incoming.whole, s.session.now)
		if st.request.ends != nil {
			s.session.answered(st)
		}
	} else {
		st.content.Add(f.payload)
		if st.counter.Kind != stream.None && len(f.payload) > 0 {
			s.count(st, f.payload)
		}
	}
	if f.flags&flagEndStream != 0 {
		s.session.complete(st)
	}
	return load.FailureNone
}

// count counts the messages of a body that is no message of gRPC.
func (s incoming) count(st *Stream, b []byte) {
	if st.counter.Count(b); s.session.Chunks {
		st.counter.Messages++
	}
	s.session.Gaps.arrive(st, st.counter.Messages, s.session.now)
}

// unpad takes the padding off a payload.
func (f *frame) unpad() bool {
	if f.flags&flagPadded == 0 {
		return true
	}
	if len(f.payload) == 0 || int(f.payload[0]) >= len(f.payload) {
		return false
	}
	f.payload = f.payload[1 : len(f.payload)-int(f.payload[0])]
	return true
}

func (s incoming) takeReset(f frame) load.Failure {
	st := s.session.stream(f.id)
	if st == nil {
		return load.FailureNone
	}
	k := load.FailureStreamReset
	st.Reason = noticeOf(binary.BigEndian.Uint32(f.payload), nil)
	if st.Reason.code == codeRefused {
		k, st.Unprocessed = load.FailureStreamRefused, !st.answered
	}
	s.session.end(st, k, 0)
	return load.FailureNone
}

func (s incoming) takePing(f frame) load.Failure {
	if f.flags&flagAck == 0 {
		s.session.out = append(appendFrame(s.session.out, framePing, flagAck, 0, len(f.payload)), f.payload...)
	}
	return load.FailureNone
}

// takeGoAway ends the streams that the server has not processed. Streams up to its
// last number will still be answered.
func (s incoming) takeGoAway(f frame) load.Failure {
	if len(f.payload) < 8 {
		return load.FailureProtocol
	}
	last := binary.BigEndian.Uint32(f.payload) & lastStreamID
	if n := noticeOf(binary.BigEndian.Uint32(f.payload[4:]), f.payload[8:]); n.code != codeNone || !s.session.GoAway.Given {
		s.session.GoAway = n
	}
	s.session.Closing = true
	s.spend(len(s.session.streams) / streamsPerCost)
	for i := range s.session.streams {
		if st := &s.session.streams[i]; st.id > last && !st.ended {
			st.Unprocessed, st.Reason = true, s.session.GoAway
			s.session.end(st, load.FailureGoAway, 0)
		}
	}
	return load.FailureNone
}

func (s incoming) takeWindow(f frame) load.Failure {
	n := int64(binary.BigEndian.Uint32(f.payload) & maxWindow)
	s.session.Updates++
	w, st := &s.session.window, (*Stream)(nil)
	if f.id != 0 {
		if st = s.session.stream(f.id); st == nil {
			return load.FailureNone
		}
		w = &st.window
	}
	if w.returns(n) {
		s.spend(-1) // no more of these can come than bytes that were sent
	}
	if !w.add(n) {
		if st == nil {
			return load.FailureProtocol
		}
		s.session.refuse(st, load.FailureProtocol)
	}
	s.session.pump()
	return load.FailureNone
}

func (s incoming) takeSettings(f frame) load.Failure {
	if f.flags&flagAck != 0 {
		if len(f.payload) > 0 {
			return load.FailureProtocol
		}
		return load.FailureNone
	}
	if len(f.payload)%6 != 0 {
		return load.FailureProtocol
	}
	before := s.session.initial
	for b := f.payload; len(b) > 0; b = b[6:] {
		if !s.set(binary.BigEndian.Uint16(b), binary.BigEndian.Uint32(b[2:])) {
			return load.FailureProtocol
		}
	}
	s.spend(len(f.payload) / headerPerCost)
	if s.session.initial != before {
		s.spend(len(s.session.streams) / streamsPerCost)
		for i := range s.session.streams {
			st := &s.session.streams[i]
			st.window = st.window.moved(s.session.initial - before)
		}
	}
	s.session.Ready = true
	s.session.out = appendFrame(s.session.out, frameSettings, flagAck, 0, 0)
	s.session.pump()
	return load.FailureNone
}

// spend charges the connection for a frame. It costs more than 1 if it takes more work.
func (s incoming) spend(cost int) { s.session.fruitless += cost }

// set takes one setting, and returns false if its value is none.
func (s incoming) set(id uint16, value uint32) bool {
	switch id {
	case settingTableSize:
		// Below the default, requests go without a table: after the change of its
		// size that the first of them must begin with.
		s.session.plain = s.session.plain || value < defaultTable
	case settingEnablePush:
		return value == 0
	case settingMaxStreams:
		s.session.Limit = min(s.session.most, int(min(value, defaultMaxStreams)))
	case settingInitialWindow:
		if value > maxWindow {
			return false
		}
		s.session.initial = int64(value)
	case settingMaxFrame:
		return value >= maxFrame && value < 1<<24
	}
	return true
}

type output struct {
	out     []byte
	written int // bytes of out
}

// headers appends a header block, in as many frames as it needs.
func (o *output) headers(id uint32, flags byte, block []byte) {
	kind := byte(frameHeaders)
	for {
		n := min(len(block), maxFrame)
		if n == len(block) {
			flags |= flagEndHeaders
		}
		o.out = append(appendFrame(o.out, kind, flags, id, n), block[:n]...)
		if block = block[n:]; len(block) == 0 {
			return
		}
		kind, flags = frameContinuation, 0
	}
}

func (o *output) reset(id uint32, code uint32) {
	o.out = binary.BigEndian.AppendUint32(appendFrame(o.out, frameReset, 0, id, 4), code)
}

// windowUpdate lets the server send n more bytes.
func (o *output) windowUpdate(id uint32, n int64) {
	o.out = binary.BigEndian.AppendUint32(appendFrame(o.out, frameWindow, 0, id, 4), uint32(n))
}

// appendFrame appends the header of a frame of n bytes.
func appendFrame(b []byte, kind, flags byte, id uint32, n int) []byte {
	return append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags, byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

// Unsent are the bytes for the server.
func (o *output) Unsent() []byte { return o.out[o.written:] }

// Compact frees the memory of bytes that were sent.
func (o *output) Compact() {
	o.out = append(o.out[:0], o.out[o.written:]...)
	o.written = 0
}

// head holds the relevant fields of a header block.
type head struct {
	status    int   // 0: none
	grpc      int   // negative: none
	version   int32 // of [load.VersionHeader]
	streams   stream.Kind
	message   string // grpc-message, percent-encoded
	length    int64
	size      uint64 // as SETTINGS_MAX_HEADER_LIST_SIZE counts
	regular   bool   // an ordinary field has come
	malformed bool
}

// headerReader decodes header blocks (RFC 7541).
type headerReader struct {
	decoder *hpack.Decoder
	block   []byte // header block whose end is yet to come
	id      uint32 // its stream, 0 for none
	end     bool   // it ends the stream
	head    head

	versions *load.Versions // numbers the values of [load.VersionHeader], nil if they are not of interest
}

func (r *headerReader) reset() {
	r.decoder = hpack.NewDecoder(defaultTable, r.field)
	r.decoder.SetMaxStringLength(check.MaxHeader)
}

func (r *headerReader) field(f hpack.HeaderField) {
	h := &r.head
	h.size += uint64(f.Size())
	if len(f.Name) > 0 && f.Name[0] == ':' {
		n, ok := number(f.Value)
		if f.Name != ":status" || h.regular || h.status != 0 || !ok || len(f.Value) != 3 || n < 100 {
			h.malformed = true
			return
		}
		h.status = int(n)
		return
	}
	h.regular = true
	switch f.Name {
	case "grpc-status":
		n, ok := number(f.Value)
		if !ok || n >= load.GrpcCodes {
			n = load.GrpcUnknown
		}
		h.grpc = int(n)
	case "grpc-message":
		h.message = f.Value
	case "content-length":
		n, ok := number(f.Value)
		if !ok || h.length >= 0 && h.length != n {
			h.malformed = true
		}
		h.length = n
	case "content-type":
		h.streams = stream.KindOf(f.Value)
	case "connection", "transfer-encoding":
		h.malformed = true
	case load.VersionHeader:
		if r.versions != nil {
			h.version = r.versions.Number([]byte(f.Value))
		}
	}
}

// number reads decimal digits, at most 63 bits of them.
func number(text string) (n int64, ok bool) {
	u, err := strconv.ParseUint(text, 10, 63)
	return int64(u), err == nil
}

func (s incoming) takeHeaders(f frame) load.Failure {
	if !f.unpad() {
		return load.FailureProtocol
	}
	if f.flags&flagPriority != 0 {
		if len(f.payload) < 5 {
			return load.FailureProtocol
		}
		f.payload = f.payload[5:]
	}
	s.spend(len(f.payload) / headerPerCost)
	s.session.headers.end = f.flags&flagEndStream != 0
	if f.flags&flagEndHeaders != 0 {
		return s.takeBlock(f.id, f.payload)
	}
	s.session.headers.id, s.session.headers.block = f.id, append(s.session.headers.block[:0], f.payload...)
	return load.FailureNone
}

func (s incoming) takeContinuation(f frame) load.Failure {
	if s.session.headers.id == 0 || f.id != s.session.headers.id {
		return load.FailureProtocol
	}
	s.spend(len(f.payload) / headerPerCost)
	if s.session.headers.block = append(s.session.headers.block, f.payload...); len(s.session.headers.block) > check.MaxHeader {
		return load.FailureHeaderTooLarge
	}
	if f.flags&flagEndHeaders == 0 {
		return load.FailureNone
	}
	s.session.headers.id = 0
	return s.takeBlock(f.id, s.session.headers.block)
}

// takeBlock decodes a header block. It must be decoded even for a stream of no
// interest any more: the table changes with it.
func (s incoming) takeBlock(id uint32, block []byte) load.Failure {
	if k := s.session.headers.decode(block); k != load.FailureNone {
		return k
	}
	st, h, last := s.session.stream(id), &s.session.headers.head, s.session.headers.end
	switch {
	case st == nil:
		return load.FailureNone
	case st.interim+h.size > check.MaxHeader:
		s.session.refuse(st, load.FailureHeaderTooLarge)
		return load.FailureNone
	case h.malformed, st.answered && (!last || h.status != 0), !st.answered && h.status == 0,
		h.status/100 == 1 && (last || h.status == 101):
		s.session.refuse(st, load.FailureMalformed)
		return load.FailureNone
	}
	if st.First == 0 {
		st.First = s.session.now
	}
	if h.status/100 == 1 {
		st.interim += h.size // the limit holds for all of a response's headers together
		return load.FailureNone
	}
	s.session.fruitless = 0
	if !st.answered {
		st.answered, st.Status, st.length, st.Version = true, h.status, h.length, h.version
		if st.counter.Kind = h.streams; s.session.Chunks {
			st.counter.Kind = stream.Chunks
		}
	}
	if last {
		if st.grpc = h.grpc; h.grpc > 0 {
			st.Text = h.message
		}
		s.session.complete(st)
	}
	return load.FailureNone
}

func (r *headerReader) decode(block []byte) load.Failure {
	r.head = head{grpc: -1, length: -1}
	_, err := r.decoder.Write(block)
	if err == nil {
		err = r.decoder.Close()
	}
	switch {
	case errors.Is(err, hpack.ErrStringLength):
		return load.FailureHeaderTooLarge
	case err != nil:
		return load.FailureProtocol
	}
	return load.FailureNone
}

// complete ends st by the whole answer.
func (s *Session) complete(st *Stream) {
	if st.sentBody < len(st.send) { // the server does not want the rest
		s.output.reset(st.id, codeCancel)
	}
	if st.length >= 0 && st.length != st.body && !st.request.bodyless && st.Status != 304 {
		s.end(st, load.FailureMalformed, 0)
		return
	}
	if s.grpc && st.Status == 200 {
		k, status := st.grpcOutcome(s.expect, s.Streaming)
		s.end(st, k, status)
		return
	}
	s.end(st, s.expect.Check(st.Status, st.body, &st.content), st.Status)
}
