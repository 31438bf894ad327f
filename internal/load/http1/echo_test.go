package http1

import (
	"bytes"
	"testing"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/load"
)

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
