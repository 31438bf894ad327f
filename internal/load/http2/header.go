package http2

import (
	"errors"
	"strconv"

	"golang.org/x/net/http2/hpack"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
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
func (s *Session) field(f hpack.HeaderField) {
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
		if !ok || n >= load.GrpcCodes {
			n = load.GrpcUnknown
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

func (s *Session) takeHeaders(f frame) load.Failure {
	if !f.unpad() {
		return load.FailureProtocol
	}
	if f.flags&flagPriority != 0 {
		if len(f.payload) < 5 {
			return load.FailureProtocol
		}
		f.payload = f.payload[5:]
	}
	s.blockEnd = f.flags&flagEndStream != 0
	if f.flags&flagEndHeaders != 0 {
		return s.takeBlock(f.id, f.payload)
	}
	s.blockID, s.block = f.id, append(s.block[:0], f.payload...)
	return load.FailureNone
}

func (s *Session) takeContinuation(f frame) load.Failure {
	if s.blockID == 0 || f.id != s.blockID {
		return load.FailureProtocol
	}
	if s.block = append(s.block, f.payload...); len(s.block) > check.MaxHeader {
		return load.FailureHeaderTooLarge
	}
	if f.flags&flagEndHeaders == 0 {
		return load.FailureNone
	}
	s.blockID = 0
	return s.takeBlock(f.id, s.block)
}

// takeBlock decodes a header block. It must be decoded even for a stream of no
// interest any more: the table changes with it.
func (s *Session) takeBlock(id uint32, block []byte) load.Failure {
	s.head = head{grpc: -1, length: -1}
	_, err := s.decoder.Write(block)
	if err == nil {
		err = s.decoder.Close()
	}
	if err != nil {
		if errors.Is(err, hpack.ErrStringLength) {
			return load.FailureHeaderTooLarge
		}
		return load.FailureProtocol
	}
	st, h, last := s.stream(id), &s.head, s.blockEnd
	switch {
	case st == nil:
		return load.FailureNone
	case h.size > check.MaxHeader:
		s.refuse(st, load.FailureHeaderTooLarge)
		return load.FailureNone
	case h.malformed, st.answered && (!last || h.status != 0), !st.answered && h.status == 0,
		h.status/100 == 1 && (last || h.status == 101):
		s.refuse(st, load.FailureMalformed)
		return load.FailureNone
	}
	if st.First == 0 {
		st.First = s.now
	}
	if h.status/100 == 1 {
		return load.FailureNone // interim
	}
	if !st.answered {
		st.answered, st.Status, st.length = true, h.status, h.length
	}
	if last {
		st.grpc = h.grpc
		s.complete(st)
	}
	return load.FailureNone
}

// complete ends st by the whole answer.
func (s *Session) complete(st *Stream) {
	if st.unsent { // the server does not want the rest of the body
		s.cancel(st.id, codeCancel)
	}
	if st.length >= 0 && st.length != st.body && s.bodily && st.Status != 304 {
		s.end(st, load.FailureMalformed, 0)
		return
	}
	if s.grpc && st.Status == 200 {
		s.completeGRPC(st)
		return
	}
	s.end(st, s.expect.Check(st.Status, st.body, &st.content), st.Status)
}
