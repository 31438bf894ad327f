package http2

import (
	"bytes"
	"testing"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/check"
	"github.com/tare-mesh/tare/test/difftest"
)

// Messages are found however the bytes are cut up, and are counted when they are whole.
func TestGRPCMessagesInPieces(t *testing.T) {
	message := grpcMessage(&load.Profile{}, []byte("hello"))
	all := bytes.Join([][]byte{message, {0, 0, 0, 0, 0}, message}, nil)
	expect := check.New(&load.Profile{ExpectSize: -1, BodyHas: []string{"hello"}})
	for cut := range all {
		st := &Stream{content: expect.NewContent()}
		m := &st.incoming
		m.read(st, all[:cut], -1)
		if want := min(cut/len(message), 1) + min(cut/(len(message)+5), 1); m.whole != want {
			t.Fatalf("%d bytes: %d messages, want %d", cut, m.whole, want)
		}
		for _, b := range all[cut:] {
			m.read(st, []byte{b}, -1)
		}
		if k := expect.Check(load.StatusGRPC, -1, &st.content); m.whole != 3 {
			t.Fatalf("%d bytes: %d messages, %v", cut, m.whole, k)
		} else if d := difftest.Of("m.prefixed", m.prefixed, 0, "k", k, load.FailureNone, "m.flaw", m.flaw, load.FailureNone); d != "" {
			t.Fatalf("%s: %d bytes: %d messages, %v", d, cut, m.whole, k)
		}
	}
}

func TestGRPCPayload(t *testing.T) {
	for _, n := range []int64{0, 1, 2, 126, 127, 128, 129, 16383, 16384, 16385, 1 << 21, 1<<21 + 1} {
		b := grpcMessage(&load.Profile{}, make([]byte, n))
		if got := grpcPayload(int64(len(b)) - grpcPrefixSize); got != n {
			t.Errorf("message of %d bytes: payload %d, want %d", len(b), got, n)
		}
	}
}
