package http2

import (
	"encoding/binary"
	"math/bits"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
)

// messageReader finds the messages of a gRPC answer, however their bytes are cut up.
type messageReader struct {
	prefix   [grpcPrefixSize]byte
	prefixed int          // bytes of prefix, all of them while a message is under way
	left     int64        // bytes of the message yet to come
	whole    int          // messages
	flaw     load.Failure // of a message
}

// read reads the bytes b of st's messages. size is the expected size of a message, negative for any.
func (m *messageReader) read(st *Stream, b []byte, size int64) {
	for len(b) > 0 {
		if m.prefixed < grpcPrefixSize {
			n := copy(m.prefix[m.prefixed:], b)
			b = b[n:]
			if m.prefixed += n; m.prefixed < grpcPrefixSize {
				return
			}
			m.left = int64(binary.BigEndian.Uint32(m.prefix[1:]))
			switch {
			case m.prefix[0] != 0: // compressed, which the request did not offer to take
				m.flaw = load.FailureMalformed
			case m.flaw == load.FailureNone && size >= 0 && grpcPayload(m.left) != size:
				m.flaw = load.FailureWrongSize
			}
		}
		part := b[:min(int64(len(b)), m.left)]
		b = b[len(part):]
		st.content.Add(part)
		if m.left -= int64(len(part)); m.left > 0 {
			return
		}
		m.prefixed = 0
		m.whole++
	}
}

// grpcOutcome is the failure and the status of a whole gRPC answer. streaming allows
// any number of messages, not just one.
func (st *Stream) grpcOutcome(expect *check.Expectation, streaming bool) (load.Failure, int) {
	status := load.StatusGRPC + st.grpc
	m := &st.incoming
	switch {
	case st.grpc < 0:
		return load.FailureNoGRPCStatus, 0
	case st.grpc > 0:
	case m.prefixed != 0, st.Messages != 1 && !streaming, m.flaw == load.FailureMalformed:
		return load.FailureMalformed, 0
	case m.flaw != load.FailureNone:
		return m.flaw, status
	}
	return expect.Check(status, expect.Size, &st.content), status
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
	if !p.IsMessage() && len(body) > 0 {
		field = append(field, 1<<3|2) // field 1, length-delimited
		field = binary.AppendUvarint(field, uint64(len(body)))
	}
	b := make([]byte, 0, grpcPrefixSize+len(field)+len(body))
	return append(append(appendPrefix(b, len(field)+len(body)), field...), body...)
}

// appendPrefix appends what precedes a message of n bytes.
func appendPrefix(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0), uint32(n))
}
