package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// late holds packets up for a time: the kernel queues them (nfnetlink_queue), tare
// lets each go when its time has come. That costs tare some microseconds of CPU a
// packet, on the harness plane. What tc's netem does in the kernel needs a class
// for each pod on an interface that all share, and many kernels have no netem.
type late struct {
	conn   *netlink.Conn
	number uint16
	delay  time.Duration

	held  chan packet
	hurry chan struct{} // closed: nothing is held up any more
	done  sync.WaitGroup
}

// packet is one that is held, and when it may go.
type packet struct {
	id  uint32
	due time.Time
}

const (
	// maxHeld is how many packets can be held; the kernel loses what is more.
	maxHeld = 1 << 16
	// queueBuffer holds what the kernel tells of packets, bytes.
	queueBuffer = 8 << 20
	// queueDrain is how long the kernel may take to tell of the last packets.
	queueDrain = 20 * time.Millisecond
	// maxQueues bounds the search for a number that is free.
	maxQueues = 64
	// subsystem is the part of netfilter that queues: nfnetlink.h, NFNL_SUBSYS_QUEUE.
	subsystem = unix.NFNL_SUBSYS_QUEUE << 8
)

// From linux/netfilter/nfnetlink_queue.h, of which x/sys has nothing.
const (
	msgPacket, msgVerdict, msgConfig                           = 0, 1, 2
	attrPacketHeader, attrVerdictHeader                        = 1, 2
	cfgCommand, cfgParams, cfgMaxLen, cfgMask, cfgFlags        = 1, 2, 3, 4, 5
	commandBind, copyMeta                                      = 1, 1
	flagGSO                                             uint32 = 1 << 2
	verdictAccept                                       uint32 = 1
)

func newLate(delay time.Duration) (*late, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, err
	}
	l := &late{conn: conn, delay: delay, held: make(chan packet, maxHeld), hurry: make(chan struct{})}
	if err := l.bind(); err != nil {
		return nil, errors.Join(fmt.Errorf("queue packets: %w", err), conn.Close())
	}
	l.done.Add(2)
	go func() { defer l.done.Done(); l.receive() }()
	go func() { defer l.done.Done(); l.release() }()
	return l, nil
}

// bind takes a queue for this socket.
func (l *late) bind() error {
	var err error
	for n := range maxQueues {
		l.number = uint16(os.Getpid()*maxQueues + n)
		err = l.configure(netlink.Attribute{Type: cfgCommand, Data: []byte{commandBind, 0, 0, 0}})
		if err == nil {
			return l.adjust()
		}
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, fs.ErrPermission) { // EPERM: it is another's, or we may not at all
			return err
		}
	}
	return err
}

// adjust asks for no contents, for long segments in one piece, and for a long queue.
func (l *late) adjust() error {
	u32 := binaryutil.BigEndian.PutUint32
	return errors.Join(
		l.conn.SetReadBuffer(queueBuffer),
		l.conn.SetOption(netlink.NoENOBUFS, true),
		l.configure(netlink.Attribute{Type: cfgParams, Data: []byte{0, 0, 0, 0, copyMeta}}),
		l.configure(netlink.Attribute{Type: cfgMaxLen, Data: u32(maxHeld)}),
		l.configure(netlink.Attribute{Type: cfgMask, Data: u32(flagGSO)}, netlink.Attribute{Type: cfgFlags, Data: u32(flagGSO)}),
	)
}

func (l *late) configure(attributes ...netlink.Attribute) error {
	m, err := l.message(msgConfig, netlink.Acknowledge, attributes...)
	if err == nil {
		_, err = l.conn.Execute(m)
	}
	return err
}

func (l *late) message(kind int, flags netlink.HeaderFlags, attributes ...netlink.Attribute) (netlink.Message, error) {
	b, err := netlink.MarshalAttributes(attributes)
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(subsystem | kind), Flags: netlink.Request | flags},
		Data:   append(family(unix.AF_UNSPEC, l.number), b...),
	}, err
}

// actions send packets to the queue, and past it when nobody listens there. A
// kernel that has no expression for that may have what iptables uses.
func (l *late) actions() []action {
	info := make(xt.Unknown, 8) // struct xt_NFQ_info_v3, aligned: number, how many, flags
	binary.NativeEndian.PutUint16(info, l.number)
	binary.NativeEndian.PutUint16(info[2:], 1)
	binary.NativeEndian.PutUint16(info[4:], unix.NFT_QUEUE_FLAG_BYPASS)
	return []action{
		{&expr.Queue{Num: l.number, Flag: expr.QueueFlagBypass}},
		{&expr.Target{Name: "NFQUEUE", Rev: 3, Info: &info}},
	}
}

// receive notes every packet that comes, until the socket is closed.
func (l *late) receive() {
	defer close(l.held)
	for {
		messages, err := l.conn.Receive()
		if errors.Is(err, unix.ENOENT) {
			continue // a packet was gone when it might go: the kernel drops what is held when another's table goes
		}
		if err != nil {
			return
		}
		due := time.Now().Add(l.delay)
		for _, m := range messages {
			if id, ok := packetOf(m); ok {
				l.held <- packet{id, due}
			}
		}
	}
}

func packetOf(m netlink.Message) (id uint32, ok bool) {
	if m.Header.Type != subsystem|msgPacket || len(m.Data) < 4 {
		return 0, false
	}
	d, err := netlink.NewAttributeDecoder(m.Data[4:])
	if err != nil {
		return 0, false
	}
	for d.Next() {
		if b := d.Bytes(); d.Type() == attrPacketHeader && len(b) >= 4 {
			return binary.BigEndian.Uint32(b), true
		}
	}
	return 0, false
}

// release lets packets go in the order in which they came: all wait as long.
func (l *late) release() {
	for p := range l.held {
		wait := time.NewTimer(time.Until(p.due))
		select {
		case <-wait.C:
		case <-l.hurry:
			wait.Stop()
		}
		l.accept(p)
	}
}

// accept lets a packet go. An error has nobody to go to: the packet is sent again, as a lost one is.
func (l *late) accept(p packet) {
	verdict := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, verdictAccept), p.id)
	m, err := l.message(msgVerdict, 0, netlink.Attribute{Type: attrVerdictHeader, Data: verdict})
	if err == nil {
		_, _ = l.conn.Send(m)
	}
}

// end lets go at once what is still held, and gives the queue back. No new packet comes any more.
func (l *late) end() error {
	if l == nil {
		return nil
	}
	close(l.hurry)
	err := l.conn.SetReadDeadline(time.Now().Add(queueDrain))
	if err == nil {
		l.done.Wait()
	}
	err = errors.Join(err, l.conn.Close())
	l.done.Wait()
	return err
}
