package http2

import (
	"encoding/binary"

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
