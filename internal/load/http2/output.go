package http2

import (
	"encoding/binary"
)

// output collects the frames for the server.
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

// reset appends a RST_STREAM frame.
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
