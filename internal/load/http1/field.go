package http1

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/stream"
)

// field is a header field that decides how the body is framed.
type field uint8

const (
	fieldOther field = iota
	fieldLength
	fieldEncoding
	fieldConnection
	fieldType
	fieldVersion
)

// takeHeader handles one header line. The value of a field that matters is kept
// until the next line shows that it is not continued (obsolete line folding).
func (p *Parser) takeHeader(line []byte) bool {
	first := p.firstHeader
	p.firstHeader = false
	if len(line) == 0 {
		return p.takeField() && p.headerDone()
	}
	if space(line[0]) {
		if first || !validValue(line) {
			return false
		}
		if p.pending != fieldOther {
			p.value = append(append(p.value, ' '), bytes.Trim(line, " \t")...)
		}
		return true
	}
	if !p.takeField() {
		return false
	}
	name, value, ok := splitField(line)
	if !ok || !validName(name) || !validValue(value) {
		return false
	}
	if p.pending = fieldOf(name); p.pending == fieldOther && p.Versions != nil && equalFold(name, load.VersionHeader) {
		p.pending = fieldVersion
	}
	if p.pending != fieldOther {
		p.value = append(p.value[:0], bytes.Trim(value, " \t")...)
	}
	return true
}

// takeField acts on the pending header field, now that its value is complete.
func (p *Parser) takeField() bool {
	f := p.pending
	p.pending = fieldOther
	switch f {
	case fieldLength:
		text := bytes.Trim(p.value, " \t")
		n, ok := decimal(text)
		// RFC 9112 section 6.3: several equal lengths are one, differing ones an error. 3 and 03 differ.
		if !ok || p.hasLength && (n != p.length || len(text) != p.digits) {
			return false
		}
		p.hasLength, p.length, p.digits = true, n, len(text)
	case fieldEncoding:
		p.encodings++
		p.foreign = p.foreign || !equalFold(bytes.TrimLeft(p.value, " \t"), "chunked")
	case fieldConnection:
		p.takeConnection(p.value)
	case fieldType:
		p.streams = stream.KindOf(bytes.TrimLeft(p.value, " \t"))
	case fieldVersion:
		p.Version = p.Versions.Number(bytes.Trim(p.value, " \t"))
	}
	return true
}

func (p *Parser) takeConnection(list []byte) {
	for len(list) > 0 {
		token := list
		if comma := bytes.IndexByte(list, ','); comma >= 0 {
			token, list = list[:comma], list[comma+1:]
		} else {
			list = nil
		}
		token = bytes.Trim(token, " \t")
		switch {
		case equalFold(token, "close"):
			p.Closing = true
		case equalFold(token, "keep-alive"):
			p.keepAlive = true
		}
	}
}

// fieldOf recognises a field by length first: almost every header ends there.
func fieldOf(name []byte) field {
	switch len(name) {
	case len("content-length"):
		if equalFold(name, "content-length") {
			return fieldLength
		}
	case len("transfer-encoding"):
		if equalFold(name, "transfer-encoding") {
			return fieldEncoding
		}
	case len("connection"):
		if equalFold(name, "connection") {
			return fieldConnection
		}
	case len("content-type"):
		if equalFold(name, "content-type") {
			return fieldType
		}
	}
	return fieldOther
}

func splitField(line []byte) (name, value []byte, ok bool) {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 {
		return nil, nil, false
	}
	return line[:colon], line[colon+1:], true
}

// nameByte marks the bytes of a token (RFC 9110 section 5.6.2), and the space,
// which net/http lets pass in a name that it then recognises as no field.
var nameByte = func() (ok [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~ 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		ok[c] = true
	}
	return ok
}()

func validName(name []byte) bool {
	for _, c := range name {
		if !nameByte[c] {
			return false
		}
	}
	return true
}

// validValue refuses control bytes other than the tab, eight bytes at a step:
// the loop over every byte of every header showed in the profile.
func validValue(v []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(v) >= 8 {
		x := binary.LittleEndian.Uint64(v)
		below := (x - 0x20*ones) &^ x & highs  // a byte below 0x20
		del := x ^ 0x7f*ones                   // a zero byte where x has 0x7f
		isDel := (del - ones) &^ del & highs   // a zero byte in del
		if below|isDel != 0 && !plain(v[:8]) { // exact: tabs, and borrows between bytes
			return false
		}
		v = v[8:]
	}
	return plain(v)
}

func plain(v []byte) bool {
	for _, c := range v {
		if c < 0x20 && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// equalFold compares with a lower-case ASCII word.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func space(c byte) bool { return c == ' ' || c == '\t' }

// decimal reads digits only: no sign, no space, at most 63 bits.
func decimal(b []byte) (n int64, ok bool) {
	for _, c := range b {
		if !digit(c) || n > (math.MaxInt64-int64(c-'0'))/10 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(b) > 0
}

// hex reads hexadecimal digits. It refuses a size beyond 62 bits, which would overflow the count of bytes.
func hex(b []byte) (n int64, ok bool) {
	for _, c := range b {
		switch {
		case digit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		if n >= 1<<58 {
			return 0, false
		}
		n = n<<4 | int64(c)
	}
	return n, len(b) > 0
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
