package http2

import (
	"encoding/binary"
	"math/bits"

	"github.com/tare-mesh/tare/internal/load"
)

func (s *Session) completeGRPC(st *Stream) {
	switch {
	case st.grpc < 0:
		s.end(st, load.FailureNoGRPCStatus, 0)
		return
	case st.grpc > 0:
		s.end(st, s.expect.Check(load.StatusGRPC+st.grpc, s.expect.Size, &st.content), load.StatusGRPC+st.grpc)
		return
	}
	switch {
	case st.prefixed != 0, st.Messages != 1 && !s.Many, st.flaw == load.FailureMalformed:
		s.end(st, load.FailureMalformed, 0)
	case st.flaw != load.FailureNone:
		s.end(st, st.flaw, load.StatusGRPC)
	default:
		s.end(st, s.expect.Check(load.StatusGRPC, s.expect.Size, &st.content), load.StatusGRPC)
	}
}

// takeMessages reads what has come of an answer's messages, however they are cut up.
func (s *Session) takeMessages(st *Stream, b []byte) {
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
				st.flaw = load.FailureMalformed
			case st.flaw == load.FailureNone && s.expect.Size >= 0 && grpcPayload(st.left) != s.expect.Size:
				st.flaw = load.FailureWrongSize
			}
		}
		part := b[:min(int64(len(b)), st.left)]
		b = b[len(part):]
		st.content.Add(part)
		if st.left -= int64(len(part)); st.left > 0 {
			return
		}
		if st.prefixed = 0; st.Messages == 0 {
			st.Message = s.now
		}
		st.Messages++
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

// grpcPrefixSize is the length of what precedes a gRPC message: a byte of flags
// and four of length.
const grpcPrefixSize = 5

// grpcMessage frames a message. Without a file it is one whose field 1 is bytes,
// as many as the profile asks for, or the empty one: what tare's own services and
// most echo services take.
func grpcMessage(p *load.Profile, body []byte) []byte {
	var field []byte
	if p.BodyFile == "" && len(body) > 0 {
		field = append(field, 1<<3|2) // field 1, length-delimited
		field = binary.AppendUvarint(field, uint64(len(body)))
	}
	b := make([]byte, 0, grpcPrefixSize+len(field)+len(body))
	b = append(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(field)+len(body)))
	return append(append(b, field...), body...)
}
