package http2

import (
	"encoding/binary"
	"net/http"
	"net/url"
	"testing"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/test/must"
)

// reader is a server's side of uploads: it reads bodies in pieces and returns the window by a policy.
type reader struct {
	piece   int                            // bytes of DATA that it reads at once
	returns func(read, unread, i int) bool // whether what was read for the i-th time goes back now; unread is what it may still get
	frames  int
	slivers int // frames below 1,024 bytes that end no body
	got     map[uint32]int
	ended   map[uint32]bool
	owed    map[uint32]int // read and not returned, by stream, 0 for the connection
	left    map[uint32]int // window of the client
	reads   int
}

// read takes the frames of b and returns those for the client.
func (r *reader) read(b []byte) (back []byte) {
	for len(b) > 0 {
		f, size := parseFrameHeader(b)
		b = b[frameHeader+size:]
		if f.kind != frameData {
			continue
		}
		r.frames++
		if r.ended[f.id] = f.flags&flagEndStream != 0; size < 1024 && !r.ended[f.id] {
			r.slivers++
		}
		r.left[0], r.left[f.id] = r.left[0]-size, r.left[f.id]-size
		r.got[f.id] += size
		for size > 0 {
			n := min(size, r.piece)
			size -= n
			r.reads++
			for _, id := range []uint32{0, f.id} {
				if r.owed[id] += n; !r.returns(r.owed[id], r.left[id], r.reads) {
					continue
				}
				back = append(back, framed(frameWindow, 0, id, string(binary.BigEndian.AppendUint32(nil, uint32(r.owed[id]))))...)
				r.left[id] += r.owed[id]
				r.owed[id] = 0
			}
		}
	}
	return back
}

// TestUploadsHaveNoSlivers uploads to servers that return their window in different ways. None may get frames of a
// few bytes, and each gets every body, if need be after a wait.
func TestUploadsHaveNoSlivers(t *testing.T) {
	u := must.Get(url.Parse("http://127.0.0.1/"))(t)
	const size, streams = 200_003, 8
	request := buildRequest(u, &load.Profile{Method: http.MethodPut}, make([]byte, size))
	expect := check.New(&load.Profile{ExpectSize: -1})
	for _, test := range []struct {
		name    string
		piece   int
		returns func(read, unread, i int) bool
		waits   bool
	}{
		{"each read of 8,192 bytes", 8192, func(int, int, int) bool { return true }, false},
		{"each read of 3 bytes", 3, func(int, int, int) bool { return true }, false},
		{"each third read of 777 bytes", 777, func(_, _, i int) bool { return i%3 == 0 }, false},
		{"half of the window", 1000, func(read, _, _ int) bool { return read > defaultWindow/2 }, false},
		{"below a quarter of the window", 1000, func(_, unread, _ int) bool { return unread < defaultWindow/4 }, false},
		{"all of the window but 9,000 bytes", 1000, func(read, _, _ int) bool { return read > defaultWindow-9000 }, true},
	} {
		s := NewSession(&expect, streams, false)
		s.Reset()
		if k := s.Feed(framed(frameSettings, 0, 0, ""), 1); k != load.FailureNone {
			t.Fatal(k)
		}
		s.Sent(len(s.Unsent()))
		r := &reader{piece: test.piece, returns: test.returns, got: map[uint32]int{}, ended: map[uint32]bool{}, owed: map[uint32]int{}, left: map[uint32]int{0: defaultWindow}}
		for s.Room() {
			r.left[s.Begin(request, 1).id] = defaultWindow
		}
		waits := 0
		for {
			n := min(len(s.Unsent()), 40_000) // a socket takes some frames at once
			if n = wholeFrames(s.Unsent(), n); n == 0 {
				if !s.Held || waits == 1000 {
					break
				}
				waits++
				s.Release(true)
				continue
			}
			back := r.read(s.Unsent()[:n])
			s.Sent(n)
			if k := s.Feed(back, 1); k != load.FailureNone {
				t.Fatal(test.name, k)
			}
		}
		for id := uint32(1); id < 2*streams; id += 2 {
			if r.got[id] != size || !r.ended[id] {
				t.Errorf("%s: %d bytes of stream %d, end %v", test.name, r.got[id], id, r.ended[id])
			}
		}
		if r.slivers > 0 || waits > 0 != test.waits {
			t.Errorf("%s: %d of %d frames are slivers, %d waits", test.name, r.slivers, r.frames, waits)
		}
	}
}

// wholeFrames is the length of the frames at the front of b, up to about n bytes.
func wholeFrames(b []byte, n int) (end int) {
	for end < n {
		_, size := parseFrameHeader(b[end:])
		end += frameHeader + size
	}
	return end
}
