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
)

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
	fields := [][2]string{{"Host", u.Host}, {"User-Agent", "tare"}}
	for _, h := range p.Headers {
		name, value, _ := strings.Cut(h, ":")
		value = strings.TrimSpace(value)
		same := slices.IndexFunc(fields[:2], func(f [2]string) bool { return strings.EqualFold(f[0], name) })
		if same >= 0 {
			fields[same][1] = value
		} else {
			fields = append(fields, [2]string{name, value})
		}
		if strings.EqualFold(name, "Sec-WebSocket-Protocol") {
			for s := range strings.SplitSeq(value, ",") {
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
