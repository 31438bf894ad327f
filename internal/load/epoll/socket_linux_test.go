package epoll

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/must"
)

// bytesOut are bytes that are never sent.
type bytesOut struct{ sent int }

func (b *bytesOut) Unsent() []byte { return make([]byte, 10-b.sent) }
func (b *bytesOut) Sent(n int)     { b.sent += n }

// A read after a failed write flushes again: a second failure would end in another read, and so on without end.
func TestFailedWriteIsNotRepeated(t *testing.T) {
	pair := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0))(t)
	defer unix.Close(pair[0])
	unix.Close(pair[1])
	w := &Worker{}
	c := &conn{socket: socket{fd: int32(pair[0])}}
	if k := c.flush(w, &bytesOut{}); k == load.FailureNone {
		t.Error("a write to a closed socket did not fail")
	}
	if k := c.flush(w, &bytesOut{}); k != load.FailureNone {
		t.Errorf("a failed write was repeated: %v", k)
	}
}
