// Package websocket is the client's side of WebSocket (RFC 6455): bytes in, bytes out. It has no
// sockets and no clocks.
package websocket

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
)

// Conn is the client's side of one connection.
type Conn struct {
	request  *Request
	expect   *check.Expectation
	versions *load.Versions // numbers the values of [load.VersionHeader], nil if they are not of interest

	Open   bool  // the handshake is over
	Reason error // of a failed handshake, or of the server's close
	// Version is of the answer to the handshake: all messages of a connection have it.
	Version int32
	output
	head []byte // of the answer to the handshake

	frame
	within  bool // a message is under way: its last frame is yet to come
	awaited bool // a request is under way
	closing bool // a close was sent

	// The answer to the request under way.
	Messages int
	First    int64 // instant of its first byte, 0 if none came
	Message  int64 // instant at which the first message was whole
	matched  int   // bytes of the message that equal the sent one
	size     int64 // bytes of the message
	flaw     load.Failure
	content  check.Content
}

// output collects the bytes for the server.
type output struct {
	out     []byte
	written int // bytes of out
}

// frame is the one whose bytes are arriving.
type frame struct {
	header [longestHead]byte
	got    int   // bytes of header
	left   int64 // bytes of payload yet to come
	inside bool  // the header is whole
	// Of a control frame:
	control  [maxControl]byte
	controls int // bytes of control
}

// NewConn makes a connection for a request. versions may be nil.
func NewConn(r *Request, expect *check.Expectation, versions *load.Versions) *Conn {
	return &Conn{request: r, expect: expect, versions: versions, content: expect.NewContent()}
}

// Begin sends the message of a request.
func (c *Conn) Begin() {
	c.awaited = true
	c.Messages, c.First, c.Message, c.matched, c.size, c.flaw = 0, 0, 0, 0, 0, load.FailureNone
	c.content.Reset()
	c.out = append(c.out, c.request.message...)
}

// Unsent are the bytes for the server.
func (o *output) Unsent() []byte { return o.out[o.written:] }

// Sent takes n bytes off Unsent.
func (o *output) Sent(n int) {
	o.written += n
	switch {
	case o.written == len(o.out):
		o.out, o.written = o.out[:0], 0
	case o.written >= maxReplies: // a server that floods the client with pings may never let it end
		o.out, o.written = o.out[:copy(o.out, o.out[o.written:])], 0
	}
}

// Feed takes the next bytes from the server, at an instant. done means that the request under way
// has its whole answer, and k that the connection has ended.
func (c *Conn) Feed(b []byte, now int64) (done bool, k load.Failure) {
	if !c.Open {
		if b, k = c.takeHandshake(b); k != load.FailureNone || !c.Open {
			return false, k
		}
	}
	if c.awaited && c.First == 0 && len(b) > 0 {
		c.First = now
	}
	for len(b) > 0 || c.inside && c.left == 0 {
		if !c.inside {
			var n int
			if n, k = c.takeHeader(b); k != load.FailureNone {
				return done, k
			}
			b = b[n:]
			if !c.inside {
				return done, load.FailureNone
			}
		}
		part := b[:min(int64(len(b)), c.left)]
		b, c.left = b[len(part):], c.left-int64(len(part))
		ended, k := c.takePayload(part, now)
		if done = done || ended; k != load.FailureNone {
			return done, k
		}
	}
	return done, load.FailureNone
}

// takeHandshake takes the answer to the handshake, and returns the bytes after it.
func (c *Conn) takeHandshake(b []byte) (rest []byte, k load.Failure) {
	before := len(c.head)
	c.head = append(c.head, b...)
	end := bytes.Index(c.head, []byte("\r\n\r\n"))
	if end < 0 {
		if len(c.head) > check.MaxHeader {
			return nil, load.FailureHeaderTooLarge
		}
		return nil, load.FailureNone
	}
	end += len("\r\n\r\n")
	var header http.Header
	if header, c.Reason = c.request.checkHandshake(c.head[:end]); c.Reason != nil {
		return nil, load.FailureUpgrade
	}
	if version := header.Get(load.VersionHeader); c.versions != nil && version != "" {
		c.Version = c.versions.Number([]byte(version))
	}
	c.Open = true
	return b[end-before:], load.FailureNone
}

// takeHeader takes the header of a frame, or what there is of it.
func (c *Conn) takeHeader(b []byte) (n int, k load.Failure) {
	for n < len(b) {
		c.header[c.got] = b[n]
		n++
		if c.got++; c.got < 2 || c.got < c.headerSize() {
			continue
		}
		c.got, c.inside, c.controls = 0, true, 0
		switch size := c.header[1] &^ bitMasked; size {
		case length16:
			c.left = int64(binary.BigEndian.Uint16(c.header[2:]))
		case length64:
			c.left = int64(binary.BigEndian.Uint64(c.header[2:]))
		default:
			c.left = int64(size)
		}
		return n, c.checkHeader()
	}
	return n, load.FailureNone
}

// headerSize is the length of the header, by its first two bytes. A server does not mask.
func (c *Conn) headerSize() int {
	switch c.header[1] &^ bitMasked {
	case length16:
		return 4
	case length64:
		return 10
	}
	return 2
}

// checkHeader refuses what a server may not send (sections 5.1 to 5.5).
func (c *Conn) checkHeader() load.Failure {
	op := c.header[0] & 0x0f
	control := op&bitControl != 0
	final := c.header[0]&bitFinal != 0
	switch {
	case c.header[0]&bitsRSV != 0, c.header[1]&bitMasked != 0, c.left < 0,
		control && (!final || c.left > maxControl || op > opPong),
		!control && op > opBinary,
		!control && (op == opContinuation) != c.within:
		return load.FailureFrame
	}
	return load.FailureNone
}

// takePayload takes the next part of a frame's payload.
func (c *Conn) takePayload(part []byte, now int64) (done bool, k load.Failure) {
	op, final := c.header[0]&0x0f, c.header[0]&bitFinal != 0
	if op&bitControl != 0 {
		c.controls += copy(c.control[c.controls:], part)
		if c.left > 0 {
			return false, load.FailureNone
		}
		c.inside = false
		return c.takeControl(op, c.control[:c.controls], now)
	}
	c.takeData(part)
	if c.left > 0 {
		return false, load.FailureNone
	}
	c.inside, c.within = false, !final
	if !final {
		return false, load.FailureNone
	}
	return c.takeMessage(now), load.FailureNone
}

// takeData compares a part of a message with the expected one.
func (c *Conn) takeData(part []byte) {
	if !c.awaited {
		return // unasked for
	}
	c.size += int64(len(part))
	if c.request.answer != load.AnswerEcho {
		c.content.Add(part)
		return
	}
	rest := c.request.payload[c.matched:]
	if len(part) > len(rest) || !bytes.Equal(part, rest[:len(part)]) {
		c.flaw = load.FailureWrongEcho
		return
	}
	c.matched += len(part)
}

// takeMessage notes the end of a message, and reports whether the answer is whole.
func (c *Conn) takeMessage(now int64) bool {
	if !c.awaited {
		return false
	}
	if c.request.answer == load.AnswerEcho && c.matched != len(c.request.payload) && c.flaw == load.FailureNone {
		c.flaw = load.FailureWrongEcho
	}
	if c.flaw == load.FailureNone && c.request.answer == load.AnswerMessage {
		c.flaw = c.expect.Check(load.StatusEcho, c.size, &c.content)
	}
	if c.Messages == 0 {
		c.Message = now
	}
	c.Messages++
	c.matched, c.size = 0, 0
	c.content.Reset()
	if c.request.answer == load.AnswerPong || c.Messages < c.request.answers {
		return false
	}
	c.awaited = false
	return true
}

// Reset prepares for a new socket, and writes the handshake.
func (c *Conn) Reset() {
	*c = Conn{request: c.request, expect: c.expect, versions: c.versions, content: c.content, head: c.head[:0], output: output{out: c.out[:0]}}
	c.out = append(c.out, c.request.Handshake...)
}

// Outcome is the failure of a whole answer.
func (c *Conn) Outcome() load.Failure { return c.flaw }

func (c *Conn) takeControl(op byte, payload []byte, now int64) (done bool, k load.Failure) {
	switch op {
	case opPing:
		if len(c.out)-c.written > maxReplies+len(c.request.message) {
			return false, load.FailureFrame // a flood of what must be answered
		}
		c.out = appendFrame(c.out, opPong, payload)
	case opPong:
		if c.awaited && c.request.answer == load.AnswerPong {
			c.awaited = false
			return true, load.FailureNone
		}
	case opClose:
		code := uint16(load.CloseNoStatus)
		if len(payload) >= 2 {
			code = binary.BigEndian.Uint16(payload)
			c.Reason = fmt.Errorf("close code %d: %s", code, payload[2:])
			c.Close(code)
		} else {
			c.Close(load.CloseNormal)
		}
		return false, load.CloseFailure(code)
	}
	return false, load.FailureNone
}

// maxReplies bounds the pongs that the server has not read, in bytes.
const maxReplies = 64 << 10

// Close queues a close frame with a status (section 7.4).
func (c *Conn) Close(code uint16) {
	if c.Open && !c.closing {
		c.closing = true
		c.out = appendFrame(c.out, opClose, binary.BigEndian.AppendUint16(nil, code))
	}
}

// EndReason is the failure of the request under way at the end of the stream.
func (c *Conn) EndReason() load.Failure {
	if c.inside || c.within || c.got > 0 || !c.Open && len(c.head) > 0 {
		return load.FailureHalfResponse
	}
	return load.FailureClosedEarly
}

// Operations of frames (section 5.2), and bits of their first two bytes.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA

	bitFinal    = 0x80
	bitsRSV     = 0x70
	bitControl  = 0x08
	bitMasked   = 0x80
	maxControl  = 125 // bytes of the payload of a control frame
	length16    = 126
	length64    = 127
	longestHead = 14
)

// Request is a request as a WebSocket sends it: the handshake of a connection, and the message,
// framed once. RFC 6455 wants a new mask for each frame, which protects intermediaries from bytes
// that a script chose. The bytes of a load are the user's own, so all frames of a load share one.
type Request struct {
	Handshake []byte
	accept    string   // of the server's answer
	protocols []string // the subprotocols that the server may choose from
	message   []byte   // its frame, and with pong the ping after it
	payload   []byte
	answer    string // one of the answers of load.WebSocket
	answers   int    // messages
}

const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" // section 1.3

// BuildRequest encodes the handshake for u, and the message.
func BuildRequest(u *url.URL, p *load.Profile, body []byte) *Request {
	var random [16]byte
	_, _ = rand.Read(random[:]) // does not fail
	key := base64.StdEncoding.EncodeToString(random[:])
	digest := sha1.Sum([]byte(key + guid)) // by the protocol, but it protects nothing
	r := &Request{accept: base64.StdEncoding.EncodeToString(digest[:]), payload: body, answer: load.AnswerEcho, answers: 1}
	if w := p.WebSocket; w != nil {
		r.answer, r.answers = w.Answer, max(1, w.Messages)
	}
	fields := p.WithHeaders([][2]string{{"Host", u.Host}, {"User-Agent", "tare"}})
	for _, f := range fields {
		if strings.EqualFold(f[0], "Sec-WebSocket-Protocol") {
			for s := range strings.SplitSeq(f[1], ",") {
				r.protocols = append(r.protocols, strings.TrimSpace(s))
			}
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\n", u.RequestURI())
	for _, f := range append(fields, [2]string{"Upgrade", "websocket"}, [2]string{"Connection", "Upgrade"}, [2]string{"Sec-WebSocket-Version", "13"}, [2]string{"Sec-WebSocket-Key", key}) {
		fmt.Fprintf(&b, "%s: %s\r\n", f[0], f[1])
	}
	b.WriteString("\r\n")
	r.Handshake = b.Bytes()
	op := byte(opBinary)
	if utf8.Valid(body) {
		op = opText
	}
	r.message = appendFrame(nil, op, body)
	if r.answer == load.AnswerPong {
		r.message = appendFrame(r.message, opPing, nil)
	}
	return r
}

// mask masks all frames of this process.
var mask = func() (m [4]byte) {
	_, _ = rand.Read(m[:]) // does not fail
	return m
}()

// appendFrame appends a final frame with its payload masked.
func appendFrame(b []byte, op byte, payload []byte) []byte {
	b = append(b, bitFinal|op)
	switch n := len(payload); {
	case n < length16:
		b = append(b, bitMasked|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, bitMasked|length16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, bitMasked|length64), uint64(n))
	}
	b = append(b, mask[:]...)
	for i, c := range payload {
		b = append(b, c^mask[i%4])
	}
	return b
}

// checkHandshake checks the server's answer to the handshake (section 4.1), and returns its header.
func (r *Request) checkHandshake(head []byte) (http.Header, error) {
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), &http.Request{Method: http.MethodGet})
	if err != nil {
		return nil, fmt.Errorf("malformed answer: %w", err)
	}
	_ = answer.Body.Close()
	h := answer.Header
	switch {
	case answer.StatusCode != http.StatusSwitchingProtocols:
		return nil, fmt.Errorf("status %s", answer.Status)
	case !hasToken(h["Upgrade"], "websocket"), !hasToken(h["Connection"], "upgrade"):
		return nil, fmt.Errorf("status 101 without an upgrade to websocket")
	case h.Get("Sec-Websocket-Accept") != r.accept:
		return nil, fmt.Errorf("wrong Sec-WebSocket-Accept")
	case h.Get("Sec-Websocket-Extensions") != "":
		return nil, fmt.Errorf("the server chose an extension that was not offered")
	}
	if chosen := h.Get("Sec-Websocket-Protocol"); chosen != "" && !slices.Contains(r.protocols, chosen) {
		return nil, fmt.Errorf("the server chose a subprotocol that was not offered")
	}
	return h, nil
}

// hasToken reports whether lists separated by commas have a token, in any case.
func hasToken(lists []string, token string) bool {
	for _, list := range lists {
		for s := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.TrimSpace(s), token) {
				return true
			}
		}
	}
	return false
}
