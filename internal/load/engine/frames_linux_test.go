package engine

import "encoding/binary"

// HTTP/2 as the tests' servers write and read it (RFC 9113 section 6), apart from
// the engine's own reading.
const (
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

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

	flagEndStream  = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20

	frameHeader = 9       // bytes
	maxFrame    = 1 << 14 // bytes of payload

	settingTableSize  = 1
	settingMaxStreams = 3

	codeRefused = 7
)

// appendFrame appends the header of a frame of n bytes.
func appendFrame(b []byte, kind, flags byte, id uint32, n int) []byte {
	return append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags, byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

type frame struct {
	kind byte
	id   uint32
}

func parseFrameHeader(b []byte) (f frame, size int) {
	return frame{kind: b[3], id: binary.BigEndian.Uint32(b[5:])}, int(b[0])<<16 | int(b[1])<<8 | int(b[2])
}
