package http2

import (
	"errors"
	"strconv"

	"golang.org/x/net/http2/hpack"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/internal/load/stream"
)

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
