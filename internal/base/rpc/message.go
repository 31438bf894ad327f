// Package rpc is gRPC over the HTTP/2 of net/http: unary calls, and a server with
// health checks. Other gRPC clients and servers work with it.
//
// grpc-go and protobuf take a quarter of the CPU time of a first build, and tare
// uses three small messages. So messages are encoded here ([Append], [Fields]).
// Tests exchange them with grpc-go.
package rpc

import (
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/tare-mesh/tare/internal/base/lists"
)

// prefixSize is the length of the prefix of a message: a byte of flags and four of
// length ("gRPC over HTTP2", section Length-Prefixed-Message).
const prefixSize = 5

// Message is an encoded message in parts, so that a large body needs no copy.
type Message [][]byte

// reader reads the message with its prefix.
func (m Message) reader() io.Reader {
	all := make([]io.Reader, 0, len(m)+1)
	for _, part := range append(Message{m.prefix()}, m...) {
		all = append(all, &bytesReader{part})
	}
	return io.MultiReader(all...)
}

func (m Message) prefix() []byte {
	return binary.BigEndian.AppendUint32(make([]byte, 1, prefixSize), uint32(m.size()))
}

func (m Message) size() int {
	return lists.Sum(m, func(part []byte) int { return len(part) })
}

// bytesReader is bytes.Reader without its other methods, which make io.MultiReader
// allocate a buffer.
type bytesReader struct{ left []byte }

func (r *bytesReader) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// exact is the size up to which a message's memory is allocated before its bytes
// have arrived.
const exact = 64 << 10

// read reads one message of at most limit bytes. The error is [io.EOF] at the end of the stream.
func read(r io.Reader, limit int64) ([]byte, error) {
	var prefix [prefixSize]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, Errorf(Internal, "a message ends in its prefix")
		}
		return nil, err
	}
	if prefix[0] != 0 {
		return nil, Errorf(Internal, "a message is compressed, without grpc-encoding")
	}
	size := int64(binary.BigEndian.Uint32(prefix[1:]))
	if size > limit {
		return nil, Errorf(ResourceExhausted, "a message of %d bytes is larger than %d", size, limit)
	}
	m := make([]byte, min(size, exact))
	for have := int64(0); ; {
		n, err := io.ReadFull(r, m[have:])
		if have += int64(n); have == size {
			return m, nil
		}
		if err != nil {
			return nil, Errorf(Internal, "a message of %d bytes ends after %d", size, have)
		}
		m = append(m, make([]byte, min(size-have, have))...)
	}
}

// Wire types of protobuf ("Encoding", section Message Structure).
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// Append adds a field of type bytes, string or message.
func Append(m []byte, number int, value []byte) []byte {
	return append(AppendSize(m, number, len(value)), value...)
}

// AppendSize adds the begin of a field of size bytes. The bytes follow it.
func AppendSize(m []byte, number, size int) []byte {
	m = binary.AppendUvarint(m, uint64(number)<<3|wireBytes)
	return binary.AppendUvarint(m, uint64(size))
}

// AppendInt adds a field of an integer type, of bool or of an enum. Proto3 omits zeros.
func AppendInt(m []byte, number int, value uint64) []byte {
	if value == 0 {
		return m
	}
	return binary.AppendUvarint(binary.AppendUvarint(m, uint64(number)<<3|wireVarint), value)
}

// Field is one field of a message. Int is set for integers, Bytes for bytes, strings and messages.
type Field struct {
	Number int
	Int    uint64
	Bytes  []byte
}

var errMalformed = Errorf(Internal, "the message is not valid protobuf")

// maxField is the highest field number.
const maxField = 1<<29 - 1

// Fields decodes a message. Fields of fixed size are skipped.
func Fields(m []byte) ([]Field, error) {
	var all []Field
	for len(m) > 0 {
		tag, n := binary.Uvarint(m)
		number := tag >> 3
		if n <= 0 || number == 0 || number > maxField {
			return nil, errMalformed
		}
		m = m[n:]
		f := Field{Number: int(number)}
		size := uint64(0)
		switch tag & 7 {
		case wireVarint:
			if f.Int, n = binary.Uvarint(m); n <= 0 {
				return nil, errMalformed
			}
			m = m[n:]
			all = append(all, f)
			continue
		case wireFixed64:
			size = 8
		case wireFixed32:
			size = 4
		case wireBytes:
			if size, n = binary.Uvarint(m); n <= 0 {
				return nil, errMalformed
			}
			m = m[n:]
		default:
			return nil, errMalformed
		}
		if size > math.MaxInt || int(size) > len(m) {
			return nil, errMalformed
		}
		if tag&7 == wireBytes {
			f.Bytes = m[:size:size]
			all = append(all, f)
		}
		m = m[size:]
	}
	return all, nil
}
