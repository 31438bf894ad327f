package loadgen

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"strconv"

	"golang.org/x/net/http2/hpack"
)

// head is what a header block said, as far as it matters.
type head struct {
	status    int // 0: none
	grpc      int // negative: none
	length    int64
	size      uint64 // as SETTINGS_MAX_HEADER_LIST_SIZE counts
	regular   bool   // an ordinary field has come
	malformed bool
}

// field takes one decoded header field.
func (s *session) field(f hpack.HeaderField) {
	h := &s.head
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
		if !ok || n >= grpcCodes {
			n = grpcUnknown
		}
		h.grpc = int(n)
	case "content-length":
		n, ok := number(f.Value)
		if !ok || h.length >= 0 && h.length != n {
			h.malformed = true
		}
		h.length = n
	case "connection", "transfer-encoding":
		h.malformed = true
	}
}

// number reads decimal digits, at most 63 bits of them.
func number(text string) (n int64, ok bool) {
	u, err := strconv.ParseUint(text, 10, 63)
	return int64(u), err == nil
}

func (s *session) takeHeaders(f frame) kind {
	if !f.unpad() {
		return kindProtocol
	}
	if f.flags&flagPriority != 0 {
		if len(f.payload) < 5 {
			return kindProtocol
		}
		f.payload = f.payload[5:]
	}
	s.blockEnd = f.flags&flagEndStream != 0
	if f.flags&flagEndHeaders != 0 {
		return s.takeBlock(f.id, f.payload)
	}
	s.blockID, s.block = f.id, append(s.block[:0], f.payload...)
	return kindNone
}

func (s *session) takeContinuation(f frame) kind {
	if s.blockID == 0 || f.id != s.blockID {
		return kindProtocol
	}
	if s.block = append(s.block, f.payload...); len(s.block) > maxHeader {
		return kindHeaderTooLarge
	}
	if f.flags&flagEndHeaders == 0 {
		return kindNone
	}
	s.blockID = 0
	return s.takeBlock(f.id, s.block)
}

// takeBlock decodes a header block. It must be decoded even for a stream of no
// interest any more: the table changes with it.
func (s *session) takeBlock(id uint32, block []byte) kind {
	s.head = head{grpc: -1, length: -1}
	_, err := s.decoder.Write(block)
	if err == nil {
		err = s.decoder.Close()
	}
	if err != nil {
		if errors.Is(err, hpack.ErrStringLength) {
			return kindHeaderTooLarge
		}
		return kindProtocol
	}
	st, h, last := s.stream(id), &s.head, s.blockEnd
	switch {
	case st == nil:
		return kindNone
	case h.size > maxHeader:
		s.refuse(st, kindHeaderTooLarge)
		return kindNone
	case h.malformed, st.answered && (!last || h.status != 0), !st.answered && h.status == 0,
		h.status/100 == 1 && (last || h.status == 101):
		s.refuse(st, kindMalformed)
		return kindNone
	}
	if st.first == 0 {
		st.first = s.now
	}
	if h.status/100 == 1 {
		return kindNone // interim
	}
	if !st.answered {
		st.answered, st.status, st.length = true, h.status, h.length
	}
	if last {
		st.grpc = h.grpc
		s.complete(st)
	}
	return kindNone
}

// complete ends st by the whole answer.
func (s *session) complete(st *stream) {
	if st.unsent { // the server does not want the rest of the body
		s.cancel(st.id, codeCancel)
	}
	if st.length >= 0 && st.length != st.body && s.bodily && st.status != 304 {
		s.end(st, kindMalformed, 0)
		return
	}
	if s.grpc && st.status == 200 {
		s.completeGRPC(st)
		return
	}
	s.end(st, s.expect.check(st.status, st.body, &st.content), st.status)
}

func (s *session) completeGRPC(st *stream) {
	switch {
	case st.grpc < 0:
		s.end(st, kindNoGRPCStatus, 0)
		return
	case st.grpc > 0:
		s.end(st, s.expect.check(grpcBase+st.grpc, s.expect.size, &st.content), grpcBase+st.grpc)
		return
	}
	switch {
	case st.prefixed != 0, st.messages != 1 && !s.many, st.flaw == kindMalformed:
		s.end(st, kindMalformed, 0)
	case st.flaw != kindNone:
		s.end(st, st.flaw, grpcBase)
	default:
		s.end(st, s.expect.check(grpcBase, s.expect.size, &st.content), grpcBase)
	}
}

// takeMessages reads what has come of an answer's messages, however they are cut up.
func (s *session) takeMessages(st *stream, b []byte) {
	for len(b) > 0 {
		if st.prefixed < grpcPrefixSize {
			n := copy(st.prefix[st.prefixed:], b)
			b = b[n:]
			if st.prefixed += n; st.prefixed < grpcPrefixSize {
				return
			}
			st.left = int64(binary.BigEndian.Uint32(st.prefix[1:]))
			switch {
			case st.prefix[0] != 0: // compressed, which the request did not offer to take
				st.flaw = kindMalformed
			case st.flaw == kindNone && s.expect.size >= 0 && grpcPayload(st.left) != s.expect.size:
				st.flaw = kindWrongSize
			}
		}
		part := b[:min(int64(len(b)), st.left)]
		b = b[len(part):]
		st.content.take(part)
		if st.left -= int64(len(part)); st.left > 0 {
			return
		}
		if st.prefixed = 0; st.messages == 0 {
			st.message = s.now
		}
		st.messages++
	}
}

// grpcPayload is the length of the bytes in field 1 of a message of the given size
// that has nothing else.
func grpcPayload(size int64) int64 {
	if size == 0 {
		return 0
	}
	payload := size - 2
	for payload > 0 && 1+int64(bits.Len64(uint64(payload))+6)/7+payload > size {
		payload--
	}
	return payload
}
