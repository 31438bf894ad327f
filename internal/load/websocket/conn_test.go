package websocket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// answer returns a server's answer to the handshake of r.
func answer(r *Request, fields ...string) []byte {
	return []byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Accept: " + r.accept + "\r\n" + strings.Join(fields, "") + "\r\n")
}

// frameOf is a frame of a server.
func frameOf(first byte, payload []byte) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < length16:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, length16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, length64), uint64(n))
	}
	return append(b, payload...)
}

func testConn(t testing.TB, w load.WebSocket, body []byte) *Conn {
	u := must.Get(url.Parse("ws://127.0.0.1/chat?a=b"))(t)
	p := load.Profile{Protocol: load.ProtocolWebSocket, WebSocket: &w, ExpectSize: -1, Headers: []string{"Sec-WebSocket-Protocol: one, two"}}.WithDefaults()
	e := check.New(&p)
	c := NewConn(BuildRequest(u, &p, body), &e, nil)
	c.Reset()
	c.Sent(len(c.Unsent()))
	return c
}

// An answer is found however its bytes are cut up, with control frames and fragments in between.
func TestAnswerInPieces(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789"), 7000) // more than 16 bits of length
	c := testConn(t, load.WebSocket{}, body)
	all := bytes.Join([][]byte{
		answer(c.request, "Sec-WebSocket-Protocol: two\r\n"),
		frameOf(opText, body[:100]), frameOf(bitFinal|opPing, []byte("hi")), frameOf(opContinuation, nil), frameOf(opContinuation, body[100:60000]), frameOf(bitFinal|opContinuation, body[60000:]),
	}, nil)
	head := len(answer(c.request, "Sec-WebSocket-Protocol: two\r\n"))
	for _, cut := range []int{1, head - 1, head, head + 1, head + 50, head + 103, head + 105, head + 107, head + 109, head + 111, len(all) - 1} {
		for _, step := range []int{1, 7, len(all)} {
			c.Reset()
			c.Sent(len(c.Unsent()))
			begun, finished := false, false
			feed := func(b []byte) {
				for len(b) > 0 {
					part := b[:min(step, len(b))]
					b = b[len(part):]
					done, k := c.Feed(part, 5)
					if k != load.FailureNone || done && finished {
						t.Fatalf("cut %d, step %d: %v, %v", cut, step, done, k)
					}
					finished = finished || done
					if c.Open && !begun {
						begun = true
						c.Begin()
						c.Sent(len(c.request.message))
					}
				}
			}
			feed(all[:head]) // the request begins after the handshake
			if cut > head {
				feed(all[head:cut])
				feed(all[cut:])
			} else {
				feed(all[head:])
			}
			if !finished || c.Outcome() != load.FailureNone {
				t.Fatalf("cut %d, step %d: done %v, %v, %d messages", cut, step, finished, c.Outcome(), c.Messages)
			} else if d := difftest.Of("c.Messages", c.Messages, 1, "c.Message", c.Message, 5); d != "" {
				t.Fatalf("%s: cut %d, step %d: done %v, %v, %d messages", d, cut, step, finished, c.Outcome(), c.Messages)
			}
			if pong := appendFrame(nil, opPong, []byte("hi")); !bytes.Equal(c.Unsent(), pong) {
				t.Fatalf("cut %d: pong %x, want %x", cut, c.Unsent(), pong)
			}
		}
	}
}

// A frame of the client has the masked payload, with the length in the shortest form (section 5.2).
func TestFrames(t *testing.T) {
	for n, head := range map[int]int{0: 6, 125: 6, 126: 8, 65535: 8, 65536: 14} {
		payload := bytes.Repeat([]byte("x"), n)
		b := appendFrame(nil, opBinary, payload)
		if len(b) != head+n || b[0] != bitFinal|opBinary || b[1]&bitMasked == 0 {
			t.Errorf("%d bytes: %d, %x", n, len(b), b[:2])
		}
		for i, c := range b[head:] {
			if c^b[head-4+i%4] != 'x' {
				t.Fatalf("%d bytes: byte %d is not masked by its mask", n, i)
			}
		}
	}
}

func TestAnswers(t *testing.T) {
	text := func(s string) []byte { return frameOf(bitFinal|opText, []byte(s)) }
	closed := frameOf(bitFinal|opClose, append([]byte{0x03, 0xF1}, "bye"...)) // 1009
	for _, test := range []struct {
		of   load.WebSocket
		in   []byte
		done bool
		flaw load.Failure
		k    load.Failure
	}{
		{load.WebSocket{}, text("hello"), true, load.FailureNone, load.FailureNone},
		{load.WebSocket{}, text("hell"), true, load.FailureWrongEcho, load.FailureNone},
		{load.WebSocket{}, text("hello!"), true, load.FailureWrongEcho, load.FailureNone},
		{load.WebSocket{}, text("other"), true, load.FailureWrongEcho, load.FailureNone},
		{load.WebSocket{}, frameOf(bitFinal|opPong, nil), false, load.FailureNone, load.FailureNone},
		{load.WebSocket{Messages: 2}, text("hello"), false, load.FailureNone, load.FailureNone},
		{load.WebSocket{Messages: 2}, joined(text("hello"), text("hello")), true, load.FailureNone, load.FailureNone},
		{load.WebSocket{Answer: load.AnswerMessage}, text("other"), true, load.FailureNone, load.FailureNone},
		{load.WebSocket{Answer: load.AnswerPong}, text("other"), false, load.FailureNone, load.FailureNone},
		{load.WebSocket{Answer: load.AnswerPong}, frameOf(bitFinal|opPong, nil), true, load.FailureNone, load.FailureNone},
		{load.WebSocket{}, joined(text("hello"), closed), true, load.FailureNone, load.FailureClose1009},
		{load.WebSocket{}, closed, false, load.FailureNone, load.FailureClose1009},
		{load.WebSocket{}, frameOf(bitFinal|opClose, nil), false, load.FailureNone, load.FailureCloseNoStatus},
		{load.WebSocket{}, frameOf(bitFinal|opClose, []byte{0x0F, 0xA0}), false, load.FailureNone, load.FailureCloseOther},
		{load.WebSocket{}, []byte{bitFinal | opText, bitMasked}, false, load.FailureNone, load.FailureFrame},
		{load.WebSocket{}, []byte{bitFinal | 0x40 | opText, 0}, false, load.FailureNone, load.FailureFrame},
		{load.WebSocket{}, []byte{bitFinal | opContinuation, 0}, false, load.FailureNone, load.FailureFrame},
		{load.WebSocket{}, joined(frameOf(opText, nil), text("hello")), false, load.FailureNone, load.FailureFrame},
		{load.WebSocket{}, []byte{bitFinal | 0x3, 0}, false, load.FailureNone, load.FailureFrame},
		{load.WebSocket{}, []byte{bitFinal | 0xB, 0}, false, load.FailureNone, load.FailureFrame},
		{load.WebSocket{}, []byte{opPing, 0}, false, load.FailureNone, load.FailureFrame},
		{load.WebSocket{}, []byte{bitFinal | opPing, length16, 0, 126}, false, load.FailureNone, load.FailureFrame},
		{load.WebSocket{}, []byte{bitFinal | opText, length64, 0xff, 0, 0, 0, 0, 0, 0, 0}, false, load.FailureNone, load.FailureFrame},
	} {
		c := testConn(t, test.of, []byte("hello"))
		if _, k := c.Feed(answer(c.request), 1); k != load.FailureNone {
			t.Fatal(k)
		}
		c.Begin()
		done, k := c.Feed(test.in, 2)
		if done != test.done || k != test.k || c.Outcome() != test.flaw {
			t.Errorf("%+v, %x: done %v, %v, %v", test.of, test.in[:min(20, len(test.in))], done, c.Outcome(), k)
		}
	}
}

func joined(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestRefusedHandshakes(t *testing.T) {
	c := testConn(t, load.WebSocket{}, nil)
	good := string(answer(c.request))
	for name, head := range map[string]string{
		"status 404 Not Found":             "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello",
		"status 101 without an upgrade":    strings.Replace(good, "WebSocket\r\n", "h2c\r\n", 1),
		"wrong Sec-WebSocket-Accept":       strings.Replace(good, c.request.accept, "abc", 1),
		"extension that was not offered":   string(answer(c.request, "Sec-WebSocket-Extensions: permessage-deflate\r\n")),
		"subprotocol that was not offered": string(answer(c.request, "Sec-WebSocket-Protocol: three\r\n")),
		"malformed answer":                 "hello\r\n\r\n",
	} {
		c.Reset()
		if _, k := c.Feed([]byte(head), 1); k != load.FailureUpgrade || c.Reason == nil || !strings.Contains(c.Reason.Error(), name) {
			t.Errorf("%s: %v, %v", name, k, c.Reason)
		}
	}
	c.Reset()
	var k load.Failure
	for range 10 {
		if _, k = c.Feed(bytes.Repeat([]byte("a"), 10<<10), 1); k != load.FailureNone {
			break
		}
	}
	if k != load.FailureHeaderTooLarge {
		t.Error(k)
	}
}

// A server that floods the client with pings and reads nothing ends the connection.
func TestFloodOfPings(t *testing.T) {
	c := testConn(t, load.WebSocket{}, nil)
	_, k := c.Feed(answer(c.request), 1)
	for n := 0; k == load.FailureNone; n++ {
		if _, k = c.Feed(frameOf(bitFinal|opPing, make([]byte, maxControl)), 1); n > 10_000 {
			t.Fatal("no limit")
		}
	}
	if k != load.FailureFrame {
		t.Error(k)
	}
}

// Any bytes end in an answer or a failure, and the memory is bounded.
func FuzzFeed(f *testing.F) {
	f.Add(frameOf(bitFinal|opText, []byte("hello")), 3)
	f.Add(joined(frameOf(opText, []byte("he")), frameOf(bitFinal|opPing, nil), frameOf(bitFinal|opContinuation, []byte("llo"))), 1)
	f.Fuzz(func(t *testing.T, b []byte, step int) {
		whole, pieces := testConn(t, load.WebSocket{}, []byte("hello")), testConn(t, load.WebSocket{}, []byte("hello"))
		for _, c := range []*Conn{whole, pieces} {
			if _, k := c.Feed(answer(c.request), 1); k != load.FailureNone {
				t.Fatal(k)
			}
			c.Begin()
			c.Sent(len(c.Unsent()))
		}
		doneWhole, kWhole := whole.Feed(b, 1)
		var done bool
		var k load.Failure
		for rest := b; len(rest) > 0 && k == load.FailureNone; {
			part := rest[:min(max(1, step), len(rest))]
			rest = rest[len(part):]
			var now bool
			now, k = pieces.Feed(part, 1)
			done = done || now
		}
		if done != doneWhole || k != kWhole || !errors.Is(pieces.Reason, whole.Reason) && (pieces.Reason == nil) != (whole.Reason == nil) {
			t.Errorf("whole: %v, %v; in pieces: %v, %v", doneWhole, kWhole, done, k)
		}
	})
}

// FuzzHandshake: any answer to the handshake is the one that it demands, or a failure.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.1 301 Moved\r\nLocation: /x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := testConn(t, load.WebSocket{}, []byte("hello"))
		accepted := bytes.Contains(b, []byte(c.request.accept))
		done, k := c.Feed(b, 1)
		if done || k == load.FailureNone && !accepted && bytes.Contains(b, []byte("\r\n\r\n")) && bytes.HasPrefix(b, []byte("HTTP/1.1 2")) {
			t.Errorf("%v, %v", done, k)
		}
	})
}
