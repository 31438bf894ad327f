package http1

import (
	"bytes"
	"testing"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
)

// An answer up to its end is taken however it is cut into pieces, and one that begins otherwise is refused.
func TestAnswerUntilItsEnd(t *testing.T) {
	whole := []byte("+begin and ab, then abc!")
	for cut := range whole {
		p := Parser{Echo: []byte("+be"), Until: []byte("abc!"), Unlike: load.FailureWrongBody}
		for range 2 { // the parser is used again
			p.Reset(true)
			n, done, k := p.Feed(whole[:cut])
			if d := difftest.Of("n", n, cut, "done", done, false, "k", k, load.FailureNone); d != "" {
				t.Errorf("%s: %d bytes", d, cut)
			}
			if n, done, k = p.Feed(append(whole[cut:len(whole):len(whole)], "more"...)); n != len(whole)-cut || !done || k != load.FailureNone || p.Body != int64(len(whole)) {
				t.Errorf("the rest after %d bytes: %d taken, done %v, %v, body %d", cut, n, done, k, p.Body)
			}
		}
	}
	for _, wrong := range []string{"-begin abc!", "+ba", "abc!"} {
		p := Parser{Echo: []byte("+be"), Until: []byte("abc!"), Unlike: load.FailureWrongBody}
		p.Reset(true)
		if _, done, k := p.Feed([]byte(wrong)); done || k != load.FailureWrongBody {
			t.Errorf("%q: done %v, %v", wrong, done, k)
		}
	}
}

// An echo is compared however it is cut into pieces.
func TestEchoInPieces(t *testing.T) {
	sent := []byte("0123456789")
	for cut := range sent {
		p := Parser{Echo: sent}
		p.Reset(true)
		n, done, k := p.Feed(sent[:cut])
		if d := difftest.Of("n", n, cut, "done", done, false, "k", k, load.FailureNone, "p.Started() != (cut > 0)", p.Started() != (cut > 0), false); d != "" {
			t.Errorf("%s: %d bytes: %d taken, done %v, %v", d, cut, n, done, k)
		}
		if n, done, k = p.Feed(bytes.Join([][]byte{sent[cut:], []byte("!")}, nil)); n != len(sent)-cut || !done || k != load.FailureNone {
			t.Errorf("the rest after %d bytes: %d taken, done %v, %v", cut, n, done, k)
		}
	}
}
