package local

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/dial"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
)

// needsNetAdmin skips a test without the capability, after a check of the error that tare returns.
func needsNetAdmin(t *testing.T) {
	t.Helper()
	err := canImpair(platform.Impairment{Loss: 1})
	if err == nil {
		return
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("refused without ErrUnsupported: %v", err)
	}
	if os.Getuid() == 0 && !errors.Is(err, os.ErrPermission) {
		t.Fatalf("root is refused: %v", err)
	}
	if hint.Of(err) == "" {
		t.Errorf("no hint with %v", err)
	}
	t.Skipf("not root: %v", err)
}

// host is an address that echoes every byte until it closes.
type host struct {
	station
	listener net.Listener
}

func newHost(t *testing.T, a *addresses, name string) host {
	t.Helper()
	ip := must.Get(a.reserve())(t)
	l := must.Get(listen(ip))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return host{station{name, ip, netip.MustParseAddrPort(l.Addr().String()).Port(), a.all()}, l}
}

// exchanged is the result of connecting and getting some bytes back.
type exchanged struct {
	took        time.Duration
	retransmits uint32
	err         error
}

// exchange connects from an address (none: the kernel chooses), sends bytes and reads them back.
func (h host) exchange(t *testing.T, from netip.Addr, bytes int, limit time.Duration) exchanged {
	t.Helper()
	began := time.Now()
	ctx := t.Context()
	done := make(chan exchanged, 1)
	go func() {
		conn, err := dial.From(from)(ctx, "tcp4", h.listener.Addr().String())
		if err != nil {
			done <- exchanged{err: err}
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(began.Add(limit))
		go func() { _, _ = conn.Write(make([]byte, bytes)) }()
		_, err = io.CopyN(io.Discard, conn, int64(bytes))
		done <- exchanged{time.Since(began), retransmitted(conn), err}
	}()
	select {
	case a := <-done:
		return a
	case <-time.After(limit):
		return exchanged{took: limit, err: os.ErrDeadlineExceeded}
	}
}

// retransmitted is the number of TCP retransmits of this end.
func retransmitted(conn net.Conn) (n uint32) {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = info.Total_retrans
		}
	})
	return n
}

const (
	// unanswered is how long an answer is waited for that must not come, and
	// answerLimit how long one that must, on a machine that others use.
	unanswered  = 400 * time.Millisecond
	answerLimit = 20 * time.Second
)

func newWireFor(t *testing.T) wire {
	t.Helper()
	needsNetAdmin(t)
	w := must.Get(newWire())(t)
	ended := false
	t.Cleanup(func() {
		if !ended {
			if err := w.end(); err != nil {
				t.Error(err)
			}
		}
	})
	return w
}

var nowhere netip.Addr

// A partitioned pod reaches only itself. Other pods are not affected.
func TestPartition(t *testing.T) {
	w, a := newWireFor(t), newAddressesFor(t)
	hit, other, third := newHost(t, a, "hit"), newHost(t, a, "other"), newHost(t, a, "third")
	must.OK(t, w.impair(hit.station, platform.Impairment{Loss: 1}))
	for name, c := range map[string]struct {
		to   host
		from netip.Addr
		cut  bool
	}{
		"from another pod":        {hit, other.ip, true},
		"from who has no address": {hit, nowhere, true},
		"to another pod":          {other, hit.ip, true},
		"to itself":               {hit, hit.ip, false},
		"between others":          {other, third.ip, false},
		"to another from outside": {other, nowhere, false},
	} {
		limit := answerLimit
		if c.cut {
			limit = unanswered
		}
		if got := c.to.exchange(t, c.from, 1, limit); (got.err != nil) != c.cut {
			t.Errorf("%s: %v, cut off: %v", name, got.err, c.cut)
		}
	}
	must.OK(t, w.mend("hit"))
	for _, from := range []netip.Addr{other.ip, nowhere} {
		if got := hit.exchange(t, from, 1, answerLimit); got.err != nil {
			t.Errorf("healed, from %v: %v", from, got.err)
		}
	}
	if err := w.mend("hit"); err != nil {
		t.Errorf("second mend: %v", err)
	}
}

// A connection survives a partition: TCP retransmits the lost segments.
func TestPartitionOfAConnection(t *testing.T) {
	w, a := newWireFor(t), newAddressesFor(t)
	hit, other := newHost(t, a, "hit"), newHost(t, a, "other")
	conn := must.Get(dial.From(other.ip)(t.Context(), "tcp4", hit.listener.Addr().String()))(t)
	defer conn.Close()
	exchange := func(limit time.Duration) error {
		_ = conn.SetDeadline(time.Now().Add(limit))
		if _, err := conn.Write([]byte{1}); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, 1))
		return err
	}
	must.OK(t, exchange(answerLimit))
	must.OK(t, w.impair(hit.station, platform.Impairment{Loss: 1}))
	if err := exchange(unanswered); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("cut off: %v", err)
	}
	must.OK(t, w.mend("hit"))
	if err := exchange(answerLimit); err != nil {
		t.Errorf("healed: %v", err)
	}
	if retransmitted(conn) == 0 {
		t.Error("no TCP retransmits")
	}
}

func TestPacketLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for TCP retransmits")
	}
	w, a := newWireFor(t), newAddressesFor(t)
	hit, other := newHost(t, a, "hit"), newHost(t, a, "other")
	// again is the number of TCP retransmits of some requests. TCP doubles its timeout
	// after each loss: a request may take long, but it ends.
	again := func(requests int) (n uint32) {
		for range requests {
			got := hit.exchange(t, other.ip, 1<<20, 10*answerLimit)
			if got.err != nil {
				t.Fatalf("TCP did not mend it: %v", got.err)
			}
			n += got.retransmits
		}
		return n
	}
	// On a busy machine TCP takes a late acknowledgement for a lost one now and then.
	const row = 4
	clean := func() float64 { return float64(min(again(row), again(row), again(row))) / row }
	before := clean()
	must.OK(t, w.impair(hit.station, platform.Impairment{Loss: 0.1}))
	// A request is 16 segments and more, each of which one in ten is lost of.
	const enough, most = 24, 100
	lost, requests := uint32(0), 0
	for ; lost < enough && requests < most; requests++ {
		lost += again(1)
	}
	must.OK(t, w.mend("hit"))
	during, after := float64(lost)/float64(requests), clean()
	t.Logf("TCP retransmits per request: %.2f before, %.2f during (%d requests), %.2f after", before, during, requests, after)
	if lost < enough || before > during/3 || after > during/3 {
		t.Errorf("TCP retransmits per request: %.2f before, %.2f during (%d requests), %.2f after", before, during, requests, after)
	}
}

func TestBandwidth(t *testing.T) {
	t.Parallel()
	w, a := newWireFor(t), newAddressesFor(t)
	hit, other := newHost(t, a, "hit"), newHost(t, a, "other")
	const rate, size = 1 << 20, 4 << 20
	must.OK(t, w.impair(hit.station, platform.Impairment{Bandwidth: rate}))
	got := hit.exchange(t, other.ip, size, 3*answerLimit)
	if got.err != nil {
		t.Fatal(got.err)
	}
	// At most the bytes of one second, a segment, and the rate times the time pass.
	least := time.Duration(float64(size-rate-segment) / rate * float64(time.Second))
	if got.took < least {
		t.Errorf("%d bytes each way took %v at %d bytes/s, want %v at least", size, got.took, rate, least)
	}
	t.Logf("%d bytes each way in %v at %d bytes/s, %d TCP retransmits", size, got.took, rate, got.retransmits)
	must.OK(t, w.mend("hit"))
	if free := hit.exchange(t, other.ip, size, answerLimit); free.err != nil || free.took > got.took/2 {
		t.Errorf("healed: %v, %v", free.took, free.err)
	}
}

func TestPacketDelay(t *testing.T) {
	w, a := newWireFor(t), newAddressesFor(t)
	hit, other := newHost(t, a, "hit"), newHost(t, a, "other")
	const delay = 40 * time.Millisecond
	how := platform.Impairment{Delay: delay}
	if err := canImpair(how); err != nil {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Fatal(err)
		}
		t.Skipf("this kernel queues no packets: %v", err)
	}
	must.OK(t, w.impair(hit.station, how))
	// One round trip to connect, and one for the byte.
	for _, from := range []netip.Addr{other.ip, nowhere} {
		got := hit.exchange(t, from, 1, answerLimit)
		if got.err != nil || got.took < 4*delay {
			t.Errorf("from %v: %v, want %v at least; %v", from, got.took, 4*delay, got.err)
		}
		t.Logf("from %v: %v for two ways there and back of %v each", from, got.took, delay)
	}
	// The answer is a complete megabyte, in order.
	if got := hit.exchange(t, other.ip, 1<<20, answerLimit); got.err != nil {
		t.Error(got.err)
	}
	must.OK(t, w.mend("hit"))
	healed := false
	for range 50 { // one of them is quick, however busy the machine is
		got := hit.exchange(t, other.ip, 1, answerLimit)
		healed = healed || got.err == nil && got.took < delay
	}
	if !healed {
		t.Error("packets are late still")
	}
}

// The kernel drops delayed packets when another table of this network is deleted. TCP retransmits
// them, and later packets are delayed as before.
func TestPacketDelayBesideOthers(t *testing.T) {
	w, beside, a := newWireFor(t), newWireFor(t), newAddressesFor(t)
	hit, other, third := newHost(t, a, "hit"), newHost(t, a, "other"), newHost(t, a, "third")
	how := platform.Impairment{Delay: 200 * time.Millisecond}
	if err := canImpair(how); err != nil {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Fatal(err)
		}
		t.Skipf("this kernel queues no packets: %v", err)
	}
	must.OK(t, w.impair(hit.station, how))
	exchanged := make(chan exchanged, 1)
	go func() { exchanged <- hit.exchange(t, other.ip, 1, answerLimit) }()
	for range 5 { // other tables are made and deleted while the packets are delayed
		must.OK(t, beside.impair(third.station, platform.Impairment{Loss: 1}))
		must.OK(t, beside.mend("third"))
	}
	if got := <-exchanged; got.err != nil || got.took < 4*how.Delay {
		t.Errorf("while tables came and went: %v, want %v at least; %v", got.took, 4*how.Delay, got.err)
	}
	if got := hit.exchange(t, other.ip, 1, answerLimit); got.err != nil || got.took < 4*how.Delay {
		t.Errorf("afterwards: %v, want %v at least; %v", got.took, 4*how.Delay, got.err)
	}
	must.OK(t, w.mend("hit"))
}

// delayedDatagrams sends datagrams between two pods, which are delayed until the heal of the pod "hit". It
// returns a function that counts those that arrive. Nothing retransmits datagrams.
func delayedDatagrams(t *testing.T, w wire, hit, other host, n int) (arrived func() int) {
	t.Helper()
	if err := w.impair(hit.station, platform.Impairment{Delay: time.Hour}); err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skipf("this kernel queues no packets: %v", err)
		}
		t.Fatal(err)
	}
	to := must.Get(net.ListenUDP("udp4", &net.UDPAddr{IP: hit.ip.AsSlice()}))(t)
	t.Cleanup(func() { to.Close() })
	from := must.Get(net.DialUDP("udp4", &net.UDPAddr{IP: other.ip.AsSlice()}, to.LocalAddr().(*net.UDPAddr)))(t)
	t.Cleanup(func() { from.Close() })
	for range n {
		must.Get(from.Write([]byte{1}))(t)
	}
	late := w.(*table).pods["hit"].late
	eventually(t, "the datagrams are delayed", func() bool { return len(late.held) == n-1 }) // one is waited for
	return func() int {
		_ = to.SetReadDeadline(time.Now().Add(time.Second))
		for i := range n {
			if _, err := to.Read(make([]byte, 1)); err != nil {
				return i
			}
		}
		return n
	}
}

// Packets that are delayed when the fault is healed arrive, also at the end of the trial.
func TestPacketsInFlightAtTheHeal(t *testing.T) {
	for name, heal := range map[string]func(wire) error{
		"mend": func(w wire) error { return w.mend("hit") },
		"end":  func(w wire) error { return w.end() },
	} {
		t.Run(name, func(t *testing.T) {
			everyDatagramArrives(t, func(t *testing.T) int {
				w, a := newWireFor(t), newAddressesFor(t)
				arrived := delayedDatagrams(t, w, newHost(t, a, "hit"), newHost(t, a, "other"), 10)
				must.OK(t, heal(w))
				return arrived()
			})
		})
	}
}

// everyDatagramArrives makes up to three attempts with ten datagrams. The kernel drops the queued packets of all tables
// when a process removes any table, and tests of other packages do.
func everyDatagramArrives(t *testing.T, attempt func(t *testing.T) int) {
	t.Helper()
	var n int
	for try := range 3 {
		t.Run(strconv.Itoa(try), func(t *testing.T) { n = attempt(t) })
		if n == 10 || t.Failed() {
			return
		}
		t.Logf("%d of 10 datagrams in flight arrived", n)
	}
	t.Error("datagrams in flight were lost in each attempt")
}

// The delay of another pod, its heal and its repetition leave the delayed packets of the first alone.
func TestPacketsInFlightBesideAnotherDelay(t *testing.T) {
	everyDatagramArrives(t, func(t *testing.T) int {
		w, a := newWireFor(t), newAddressesFor(t)
		arrived := delayedDatagrams(t, w, newHost(t, a, "hit"), newHost(t, a, "other"), 10)
		third := newHost(t, a, "third")
		for range 2 {
			must.OK(t, w.impair(third.station, platform.Impairment{Delay: time.Millisecond}))
			must.OK(t, w.mend("third"))
		}
		must.OK(t, w.mend("hit"))
		n := arrived()
		chains, err := w.(*table).conn.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
		if err != nil {
			t.Error(err)
		}
		for _, c := range chains {
			if c.Table.Name == w.(*table).table.Name {
				t.Errorf("chain %s is left", c.Name)
			}
		}
		return n
	})
}

// An error of the queue's reader is the heal's error: packets were lost, or not delayed.
func TestFailedDelayIsAnError(t *testing.T) {
	w, a := newWireFor(t), newAddressesFor(t)
	hit := newHost(t, a, "hit")
	if err := w.impair(hit.station, platform.Impairment{Delay: time.Millisecond}); err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skipf("this kernel queues no packets: %v", err)
		}
		t.Fatal(err)
	}
	late := w.(*table).pods["hit"].late
	if err := late.conn.SetReadDeadline(time.Now()); err != nil { // makes its reading fail
		t.Fatal(err)
	}
	late.done.Wait()
	if err := w.mend("hit"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if got := hit.exchange(t, nowhere, 1, answerLimit); got.err != nil {
		t.Errorf("healed: %v", got.err)
	}
}

// An impairment whose rules are gone before the heal is an error, and is removed.
func TestImpairmentThatHasGone(t *testing.T) {
	w, a := newWireFor(t), newAddressesFor(t)
	hit := newHost(t, a, "hit")
	for chain := range 1 + len(directions) {
		must.OK(t, w.impair(hit.station, platform.Impairment{Loss: 1}))
		in := w.(*table)
		in.conn.FlushChain(in.pods["hit"].chains[chain])
		must.OK(t, in.conn.Flush())
		must.Fail(t, w.mend("hit"), "not in force any more", chain)
		if err := w.mend("hit"); err != nil {
			t.Errorf("second mend: %v", err)
		}
	}
}
