package http2

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/test/must"
)

// FuzzSession feeds arbitrary server bytes to a session with requests in flight,
// whole and in pieces. Both must end the same, and no stream may be lost.
func FuzzSession(f *testing.F) {
	ok := headBlock(":status", "200", "content-length", "2")
	add := func(piece int, frames ...[]byte) { f.Add(bytes.Join(frames, nil), piece) }
	add(1, framed(frameHeaders, flagEndHeaders, 1, ok), framed(frameData, flagEndStream, 1, "hi"))
	add(7, framed(frameHeaders, 0, 3, ok[:1]), framed(frameContinuation, flagEndHeaders, 3, ok[1:]), framed(frameReset, 0, 1, "\x00\x00\x00\x07"))
	add(2, framed(frameGoAway, 0, 0, "\x00\x00\x00\x01\x00\x00\x00\x00"), framed(frameWindow, 0, 0, "\x00\x00\x00\x09"))
	add(5, framed(frameHeaders, flagPadded|flagEndHeaders, 1, "\x02"+ok+"  "), framed(framePing, 0, 0, "12345678"), framed(frameSettings, 0, 0, "\x00\x04\x00\x00\x00\x09"))
	u := must.Get(url.Parse("http://127.0.0.1/"))(f)
	request := buildRequest(u, &load.Profile{Method: http.MethodPost}, make([]byte, 100_000))
	expect := check.New(&load.Profile{ExpectSize: -1})
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		run := func(piece int) string {
			s := NewSession(&expect, 4, false)
			s.Reset()
			if k := s.Feed(framed(frameSettings, 0, 0, ""), 1); k != load.FailureNone {
				t.Fatal(k)
			}
			for s.Room() {
				s.Begin(request, 0)
			}
			var k load.Failure
			for left := b; len(left) > 0 && k == load.FailureNone; {
				n := min(piece, len(left))
				k = s.Feed(left[:n], 1)
				left = left[n:]
			}
			got := fmt.Sprintln(k, s.Closing, s.Limit)
			for _, st := range s.done {
				got += fmt.Sprintln(st.id, st.Kind, st.Status, st.body)
				s.Retire(st)
			}
			var busy int
			for i := range s.streams {
				if s.streams[i].id != 0 {
					busy++
				}
			}
			if busy != s.Active {
				t.Errorf("%d streams under way, %d counted", busy, s.Active)
			}
			return got
		}
		if whole, pieces := run(max(1, len(b))), run(1+(piece&63)); whole != pieces {
			t.Errorf("whole: %s in pieces: %s", whole, pieces)
		}
	})
}

// buildRequest encodes the only request of an origin.
func buildRequest(u *url.URL, p *load.Profile, body []byte) *Request {
	r := new(Request)
	BuildRequests([]Spec{{Into: r, URL: u, Profile: p, Body: body}})
	return r
}

// framed is one frame.
func framed(kind, flags byte, id uint32, payload string) []byte {
	return append(appendFrame(nil, kind, flags, id, len(payload)), payload...)
}

// headBlock encodes header fields, given as names and values.
func headBlock(fields ...string) string {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.String()
}
