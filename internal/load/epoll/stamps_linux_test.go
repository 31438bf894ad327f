package epoll

import (
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/must"
)

// Lines that are read late have the times at which they came.
func TestTimesOfALateRead(t *testing.T) {
	t.Parallel()
	const late = 30 * time.Millisecond
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	client := must.Get(net.Dial("tcp", listener.Addr().String()))(t).(*net.TCPConn)
	defer client.Close()
	server := must.Get(listener.Accept())(t)
	defer server.Close()
	file := must.Get(client.File())(t)
	defer file.Close()
	c := &socket{fd: int32(file.Fd())}
	must.OK(t, unix.SetNonblock(int(c.fd), true))
	c.stamp()
	read := func() (first, all int64) {
		must.Get(server.Write([]byte("a line\nand half\n")))(t)
		time.Sleep(late)
		c.drained = false
		b, p, k := c.receive(&buffers{raw: make([]byte, 1024)})
		if len(b) != 16 || p != receivedBytes || k != load.FailureNone {
			t.Fatalf("%d bytes, %v, %v", len(b), p, k)
		}
		n := piece(b, true)
		return c.take(b[:n]), c.take(b[n:])
	}
	for range 100 { // the kernel begins to stamp some time after it is asked
		if first, _ := read(); first > 0 {
			break
		}
	}
	if first, all := read(); first < late.Nanoseconds() || all < first {
		t.Errorf("bytes that came %v ago came %d and %d ns ago", late, first, all)
	}
	if n, errno := c.read(make([]byte, 1)); errno != unix.EAGAIN {
		t.Errorf("%d bytes are left: %v", n, errno)
	}
}

func TestAgeOfBytes(t *testing.T) {
	t.Parallel()
	control := make([]byte, unix.CmsgSpace(16))
	binary.NativeEndian.PutUint32(control[12:], unix.SCM_TIMESTAMPNS)
	binary.NativeEndian.PutUint64(control[16:], 100)
	binary.NativeEndian.PutUint64(control[24:], 999_999_000)
	other := slices.Clone(control)
	other[12]++
	for _, test := range []struct {
		name    string
		control []byte
		now     time.Time
		want    int64
	}{
		{"over a second's end", control, time.Unix(101, 500), 1500},
		{"a clock that was set back", control, time.Unix(99, 0), 0},
		{"none", nil, time.Unix(101, 500), 0},
		{"another message", other, time.Unix(101, 500), 0},
	} {
		if got := ageOf(test.control, test.now); got != test.want {
			t.Errorf("%s: %d ns, want %d", test.name, got, test.want)
		}
	}
}

func TestPiece(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		b       string
		started bool
		want    int
	}{
		{"HTTP/1.1 200 OK\r\nA: b\r\n\r\ndata: x\n\n", false, 25},
		{"HTTP/1.1 200 OK\r\nA: b", false, 21},
		{"data: x\n\ndata: y\n", true, 8},
		{"\n", true, 1},
		{"data", true, 4},
	} {
		if got := piece([]byte(test.b), test.started); got != test.want {
			t.Errorf("%q: %d, want %d", test.b, got, test.want)
		}
	}
}
