// Package http1 writes HTTP/1.1 requests and parses responses from pieces of any size.
// It has no sockets and no clocks.
package http1

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/internal/load/stream"
)

// maxChunkLine bounds a chunk's size line with its extensions, as net/http does.
const maxChunkLine = 4096

type parserState uint8

const (
	atStatusLine parserState = iota
	atHeader
	atBody // of a known length
	atBodyToEnd
	atChunkSize
	atChunkData
	atChunkEnd // the CRLF after a chunk's data
	atTrailer
	atEcho // protocol tcp: the expected bytes, and nothing else
	atDone
)

// Parser reads one HTTP/1.x response from pieces of any size (RFC 9112). It
// keeps nothing of the body but its length and allocates only when a line is
// split between two pieces. It accepts and refuses what net/http.ReadResponse
// accepts and refuses, so that a server that works for Go clients works here.
type Parser struct {
	header
	bodily    bool // the method allows a body: all but HEAD
	afterHead bool // the method before did not

	Served bool // the connection has carried an answer

	pending     field
	Body        int64 // bytes of body seen
	excess      int64 // bytes of chunk framing beyond the usual
	endSeen     int   // bytes of atChunkEnd seen
	firstHeader bool
	bareLine    bool // the trailer line before ended in a bare line feed

	Memo *HeaderMemo // the last header, nil if not remembered
	Echo []byte      // protocol tcp: the whole answer, or with Until its beginning; nil for HTTP

	Until  []byte       // protocol tcp: the end of the answer
	Unlike load.Failure // protocol tcp: of another answer

	Versions *load.Versions // numbers the values of [load.VersionHeader], nil if they are not of interest

	Content check.Content // of the body

	Chunks bool // each chunk is a message
	Stream stream.Counter

	partial []byte // the beginning of a line whose end is yet to come
	value   []byte // the value of the pending header field
}

// header is the parsed status line and header, and the state of the parser.
type header struct {
	state     parserState
	http10    bool
	chunked   bool
	Closing   bool // the connection cannot be used again
	keepAlive bool // "Connection: keep-alive" was seen
	hasLength bool
	foreign   bool // a transfer encoding other than chunked
	encodings int  // Transfer-Encoding headers seen
	Status    int
	Version   int32 // of the answer, by Versions
	streams   stream.Kind
	length    int64 // Content-Length
	digits    int   // of its text
	remain    int64 // bytes of body, or of the chunk, still to come
	head      int   // bytes of header seen
}

// HeaderMemo caches the last header that arrived in one piece, with its parsed form.
// A server's headers usually differ only in the Date field, and comparing bytes costs
// a tenth of parsing them.
type HeaderMemo struct {
	bytes  []byte
	header header
}

// maxMemo bounds a header that is remembered, bytes.
const maxMemo = 4 << 10

// Reset prepares for the answer to the next request. bodily is false for HEAD.
func (p *Parser) Reset(bodily bool) {
	p.header = header{}
	p.afterHead = !p.bodily
	p.bodily, p.pending, p.Body, p.excess, p.endSeen, p.firstHeader, p.bareLine = bodily, fieldOther, 0, 0, 0, false, false
	p.Content.Reset()
	p.Stream = stream.Counter{}
	p.partial, p.value = p.partial[:0], p.value[:0]
	if p.Echo != nil || len(p.Until) > 0 {
		p.state, p.Status = atEcho, load.StatusEcho
	}
}

// Started reports whether any byte of the response has been read.
func (p *Parser) Started() bool {
	if p.state == atEcho {
		return p.Body > 0
	}
	return p.state != atStatusLine || len(p.partial) > 0 || p.head > 0
}

// Feed consumes the next bytes. It returns how many of them belong to the
// response, whether the response is complete, and its failure.
func (p *Parser) Feed(b []byte) (n int, done bool, k load.Failure) {
	if p.state == atStatusLine {
		if n = p.recall(b); p.state == atDone {
			return n, true, load.FailureNone
		}
	}
	for n < len(b) {
		switch p.state {
		case atBody:
			n += p.feedBody(b[n:])
			if p.remain == 0 {
				p.state = atDone
			}
		case atEcho:
			used, k := p.takeEcho(b[n:])
			if n += used; k != load.FailureNone {
				return n, false, k
			}
		case atBodyToEnd:
			p.remain = math.MaxInt64
			n += p.feedBody(b[n:])
		case atChunkData:
			n += p.feedBody(b[n:])
			if p.remain == 0 {
				p.state, p.endSeen = atChunkEnd, 0
				if p.Chunks {
					p.Stream.Messages++
				}
			}
		case atChunkEnd:
			if b[n] != "\r\n"[p.endSeen] {
				return n, false, load.FailureMalformed
			}
			n++
			if p.endSeen++; p.endSeen == 2 {
				p.state = atChunkSize
			}
		default:
			used, k := p.feedLine(b[n:])
			n += used
			if k != load.FailureNone {
				return n, false, k
			}
			if n == p.head && p.state >= atBody {
				p.remember(b[:n])
			}
		}
		if p.state == atDone {
			return n, true, load.FailureNone
		}
	}
	return n, false, load.FailureNone
}

// recall consumes a header at the front of b that equals the last one and returns
// its length in bytes, 0 if they differ.
func (p *Parser) recall(b []byte) int {
	m := p.Memo
	if m == nil || len(m.bytes) == 0 || p.head+len(p.partial) > 0 || len(b) < len(m.bytes) || !bytes.Equal(b[:len(m.bytes)], m.bytes) {
		return 0
	}
	p.header = m.header
	return len(m.bytes)
}

// remember keeps a whole header, which p has just read from one piece.
func (p *Parser) remember(whole []byte) {
	if p.Memo != nil && len(whole) <= maxMemo {
		p.Memo.bytes, p.Memo.header = append(p.Memo.bytes[:0], whole...), p.header
	}
}

// EndOfStream ends the response where the peer has closed the connection.
func (p *Parser) EndOfStream() (done bool, k load.Failure) {
	switch {
	case p.state == atBodyToEnd:
		p.state = atDone
		return true, load.FailureNone
	case p.Started():
		return false, load.FailureHalfResponse
	}
	return false, load.FailureClosedEarly
}

// feedBody reads the bytes of b that belong to the rest of the body or chunk.
func (p *Parser) feedBody(b []byte) int {
	if int64(len(b)) > p.remain {
		b = b[:p.remain]
	}
	p.remain -= int64(len(b))
	p.Body += int64(len(b))
	p.Content.Add(b)
	if p.streams != stream.None && !p.Chunks {
		p.Stream.Kind = p.streams
		p.Stream.Count(b)
	}
	return len(b)
}

// Extra is the failure of bytes after the response.
func (p *Parser) Extra() load.Failure { return extraAfter(!p.bodily) }

// feedLine takes one line, or what there is of it, from the front of b.
func (p *Parser) feedLine(b []byte) (used int, k load.Failure) {
	if p.state == atStatusLine {
		if used, k = p.checkStart(b); k != load.FailureNone {
			return used, k
		}
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		used = len(b)
		p.partial = append(p.partial, b...)
	} else {
		used = end + 1
	}
	if p.state != atChunkSize {
		if p.head += used; p.head > check.MaxHeader {
			return used, load.FailureHeaderTooLarge
		}
	} else if len(p.partial) > maxChunkLine {
		return used, load.FailureMalformed
	}
	if end < 0 {
		return used, load.FailureNone
	}
	line := b[:end]
	if len(p.partial) > 0 {
		p.partial = append(p.partial, line...)
		line = p.partial
		p.partial = p.partial[:0]
	}
	if !p.takeLine(line) {
		return used, load.FailureMalformed
	}
	return used, load.FailureNone
}

// checkStart reads the first bytes of an answer. Bytes that do not begin a status line follow the answer
// before, if there was one: servers that go on after it are so found whenever the bytes come.
func (p *Parser) checkStart(b []byte) (used int, k load.Failure) {
	const start = "HTTP/"
	for i := len(p.partial); i < len(start) && i-len(p.partial) < len(b); i++ {
		switch {
		case b[i-len(p.partial)] == start[i]:
		case p.Served && p.head == len(p.partial): // without interim answers
			return i - len(p.partial), extraAfter(p.afterHead)
		default:
			return i - len(p.partial), load.FailureMalformed
		}
	}
	return 0, load.FailureNone
}

func extraAfter(head bool) load.Failure {
	if head {
		return load.FailureHeadBody
	}
	return load.FailureExtraBytes
}

// takeLine handles one line without its line feed. False means malformed.
func (p *Parser) takeLine(line []byte) bool {
	if p.state == atChunkSize {
		return p.takeChunkSize(line)
	}
	bare := true
	if l := len(line); l > 0 && line[l-1] == '\r' {
		line, bare = line[:l-1], false
	}
	switch p.state {
	case atStatusLine:
		return p.takeStatus(line)
	case atHeader:
		return p.takeHeader(line)
	}
	return p.takeTrailer(line, bare)
}

// takeStatus handles "HTTP/1.1 200 OK".
func (p *Parser) takeStatus(line []byte) bool {
	const version = len("HTTP/1.1")
	if len(line) < version+4 || string(line[:5]) != "HTTP/" || line[6] != '.' || line[version] != ' ' ||
		!digit(line[5]) || !digit(line[7]) {
		return false
	}
	p.http10 = line[5] == '0' || line[5] == '1' && line[7] == '0'
	p.Closing = line[5] == '0' // versions below 1.0 keep no connection
	rest := bytes.TrimLeft(line[version+1:], " ")
	if len(rest) < 3 || len(rest) > 3 && rest[3] != ' ' || !digit(rest[0]) || !digit(rest[1]) || !digit(rest[2]) {
		return false
	}
	p.Status = int(rest[0]-'0')*100 + int(rest[1]-'0')*10 + int(rest[2]-'0')
	p.state, p.firstHeader = atHeader, true
	return true
}

// takeChunkSize handles "1f4;extension\r". A bare line feed is refused here, as
// RFC 9112 section 7.1 demands against request smuggling.
func (p *Parser) takeChunkSize(line []byte) bool {
	if cr := bytes.IndexByte(line, '\r'); cr < 0 || cr != len(line)-1 || len(line) > maxChunkLine {
		return false
	}
	overhead := int64(len(line) + 3)
	line = line[:len(line)-1]
	line = bytes.TrimRight(line, " \t\r\n")
	if semi := bytes.IndexByte(line, ';'); semi >= 0 {
		line = line[:semi]
	}
	size, ok := hex(line)
	if !ok {
		return false
	}
	// A byte a chunk is allowed, but endless extensions are not.
	if p.excess = max(0, p.excess+overhead-16-2*size); p.excess > 16<<10 {
		return false
	}
	p.remain, p.state = size, atChunkData
	if size == 0 {
		p.state, p.firstHeader = atTrailer, true
	}
	return true
}

// takeTrailer checks a trailer field and drops it. Like net/http it requires the
// end of the trailer, and so of the response, to be two full line ends.
func (p *Parser) takeTrailer(line []byte, bare bool) bool {
	if len(line) == 0 {
		p.state = atDone
		return !bare && !p.bareLine
	}
	first := p.firstHeader
	p.firstHeader, p.bareLine = false, bare
	if space(line[0]) {
		return !first && validValue(line)
	}
	name, value, ok := splitField(line)
	return ok && validName(name) && validValue(value)
}

// headerDone decides, at the end of the header, what follows it (RFC 9112 section 6.3).
func (p *Parser) headerDone() bool {
	if p.foreign && !p.http10 || p.encodings > 1 && !p.http10 {
		return false
	}
	p.chunked = p.encodings == 1 && !p.http10
	switch {
	case p.Status/100 == 1 && p.Status != 101:
		head := p.head
		p.Reset(p.bodily)
		p.head = head // the limit holds for all interim answers together
		return true
	case p.http10 && !p.keepAlive, p.Status == 101:
		p.Closing = true
	}
	switch {
	case !p.bodily, p.Status == 101, p.Status == 204, p.Status == 304:
		p.state = atDone
	case p.chunked:
		p.state = atChunkSize
	case p.hasLength && p.length == 0:
		p.state = atDone
	case p.hasLength:
		p.state, p.remain = atBody, p.length
	default:
		p.state, p.Closing = atBodyToEnd, true
	}
	return true
}

// takeEcho compares the received bytes with the expected ones.
func (p *Parser) takeEcho(b []byte) (used int, k load.Failure) {
	if len(p.Until) > 0 {
		return p.takeUntil(b)
	}
	rest := p.Echo[p.Body:]
	b = b[:min(len(b), len(rest))]
	if !bytes.Equal(b, rest[:len(b)]) {
		return 0, p.Unlike
	}
	if p.Body += int64(len(b)); len(b) == len(rest) {
		p.state = atDone
	}
	return len(b), load.FailureNone
}

// takeUntil reads an answer of any length, which begins and ends with the expected bytes.
func (p *Parser) takeUntil(b []byte) (used int, k load.Failure) {
	if seen := min(p.Body, int64(len(p.Echo))); !bytes.HasPrefix(b, p.Echo[seen:]) && !bytes.HasPrefix(p.Echo[seen:], b) {
		return 0, p.Unlike
	}
	before := len(p.partial)
	p.partial = append(p.partial, b...)
	used = len(b)
	if at := bytes.Index(p.partial, p.Until); at >= 0 {
		used, p.state = at+len(p.Until)-before, atDone
	}
	if p.Body += int64(used); p.state == atDone && p.Body < int64(len(p.Echo)) {
		return used, p.Unlike
	}
	p.partial = append(p.partial[:0], p.partial[max(0, len(p.partial)-len(p.Until)+1):]...) // the end may come in pieces
	return used, load.FailureNone
}

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

// BuildRequest encodes the request once, and every send writes the same bytes.
func BuildRequest(u *url.URL, p *load.Profile, body []byte) []byte {
	bodily := hasLength(p.Method, len(body) > 0)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", p.Method, u.RequestURI())
	for _, f := range fieldsOf(u, p, bodily) {
		fmt.Fprintf(&b, "%s: %s\r\n", f[0], f[1])
	}
	if bodily {
		fmt.Fprintf(&b, "Content-Length: %s\r\n", strconv.Itoa(len(body)))
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// hasLength reports whether a request has a Content-Length.
func hasLength(method string, body bool) bool {
	return body || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// fieldsOf are the header fields of a request, except Content-Length.
func fieldsOf(u *url.URL, p *load.Profile, bodily bool) [][2]string {
	fields := [][2]string{{"Host", u.Host}, {"User-Agent", "tare"}}
	if kind := p.BodyType(); bodily && kind != "" {
		fields = append(fields, [2]string{"Content-Type", kind})
	}
	if p.NoKeepAlive {
		fields = append(fields, [2]string{"Connection", "close"})
	}
	return p.WithHeaders(fields)
}
