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

	"github.com/tare-mesh/tare/internal/base/routine"
)

// delayer delays packets: the kernel queues them (nfnetlink_queue), and tare releases each at its
// time. That costs tare some microseconds of CPU per packet, in the harness plane. netem of tc
// would need a class for each pod on a shared interface, and many kernels lack netem.
type delayer struct {
	conn   *netlink.Conn
	number uint16
	delay  time.Duration

	held  chan packet
	hurry chan struct{} // closed: nothing is delayed any more
	done  sync.WaitGroup
	err   error // of receive, set before held is closed
}

// packet is a delayed packet and the time of its release.
type packet struct {
	id  uint32
	due time.Time
}

const (
	// maxHeld is the maximum number of delayed packets, beyond which the kernel drops others.
	maxHeld = 1 << 16
	// queueBuffer is the size of the buffer for the kernel's messages, bytes.
	queueBuffer = 8 << 20
	// queueDrain is the time without a message after which the kernel has sent the last one.
	queueDrain = 20 * time.Millisecond
	// maxQueues bounds the search for a free number.
	maxQueues = 64
	// subsystem is the queue of netfilter: nfnetlink.h, NFNL_SUBSYS_QUEUE.
	subsystem = unix.NFNL_SUBSYS_QUEUE << 8
)

// From linux/netfilter/nfnetlink_queue.h, which x/sys lacks.
const (
	msgPacket, msgVerdict, msgConfig                           = 0, 1, 2
	attrPacketHeader, attrVerdictHeader                        = 1, 2
	cfgCommand, cfgParams, cfgMaxLen, cfgMask, cfgFlags        = 1, 2, 3, 4, 5
	commandBind, copyMeta                                      = 1, 1
	flagGSO                                             uint32 = 1 << 2
	verdictAccept                                       uint32 = 1
)

func newDelayer(delay time.Duration) (*delayer, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, err
	}
	l := &delayer{conn: conn, delay: delay, held: make(chan packet, maxHeld), hurry: make(chan struct{})}
	if err := l.bind(); err != nil {
		return nil, errors.Join(fmt.Errorf("queue packets: %w", err), conn.Close())
	}
	l.done.Add(2)
	go routine.Guarded(func() { defer l.done.Done(); l.receive() })()
	go routine.Guarded(func() { defer l.done.Done(); l.release() })()
	return l, nil
}

func (l *delayer) bind() error {
	var err error
	for n := range maxQueues {
		l.number = uint16(os.Getpid()*maxQueues + n)
		err = l.configure(netlink.Attribute{Type: cfgCommand, Data: []byte{commandBind, 0, 0, 0}})
		if err == nil {
			return l.adjust()
		}
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, fs.ErrPermission) { // EPERM: another process has it, or this process lacks the capability
			return err
		}
	}
	return err
}

// adjust requests no contents, unsegmented packets, and a long queue.
func (l *delayer) adjust() error {
	u32 := binaryutil.BigEndian.PutUint32
	return errors.Join(
		l.conn.SetReadBuffer(queueBuffer),
		l.conn.SetOption(netlink.NoENOBUFS, true),
		l.configure(netlink.Attribute{Type: cfgParams, Data: []byte{0, 0, 0, 0, copyMeta}}),
		l.configure(netlink.Attribute{Type: cfgMaxLen, Data: u32(maxHeld)}),
		l.configure(netlink.Attribute{Type: cfgMask, Data: u32(flagGSO)}, netlink.Attribute{Type: cfgFlags, Data: u32(flagGSO)}),
	)
}

func (l *delayer) configure(attributes ...netlink.Attribute) error {
	m, err := l.message(msgConfig, netlink.Acknowledge, attributes...)
	if err == nil {
		_, err = l.conn.Execute(m)
	}
	return err
}

// actions queue packets, and let them pass if no process reads the queue. Kernels without that
// expression may have the target of iptables.
func (l *delayer) actions() []action {
	info := make(xt.Unknown, 8) // struct xt_NFQ_info_v3, aligned: number, count, flags
	binary.NativeEndian.PutUint16(info, l.number)
	binary.NativeEndian.PutUint16(info[2:], 1)
	binary.NativeEndian.PutUint16(info[4:], unix.NFT_QUEUE_FLAG_BYPASS)
	return []action{
		{&expr.Queue{Num: l.number, Flag: expr.QueueFlagBypass}},
		{&expr.Target{Name: "NFQUEUE", Rev: 3, Info: &info}},
	}
}

// receive records every packet, until the end or an error. After an error the kernel queues packets without
// release, and drops them when the queue is full.
func (l *delayer) receive() {
	defer close(l.held)
	for {
		messages, err := l.conn.Receive()
		if errors.Is(err, unix.ENOENT) {
			continue // the packet is gone: the kernel drops delayed packets when another table is deleted
		}
		if err != nil {
			select {
			case <-l.hurry: // the end
				if errors.Is(err, os.ErrDeadlineExceeded) {
					return
				}
			default:
			}
			l.err = fmt.Errorf("packets were not delayed to the end: %w", err)
			return
		}
		due := time.Now().Add(l.delay)
		for _, m := range messages {
			if id, ok := packetOf(m); ok {
				l.held <- packet{id, due}
			}
		}
		select {
		case <-l.hurry: // there may be more
			_ = l.conn.SetReadDeadline(time.Now().Add(queueDrain))
		default:
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

// release releases packets in the order of arrival, as all have the same delay.
func (l *delayer) release() {
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

// accept releases a packet. An error is ignored: TCP retransmits the packet, as a lost one.
func (l *delayer) accept(p packet) {
	verdict := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, verdictAccept), p.id)
	m, err := l.message(msgVerdict, 0, netlink.Attribute{Type: attrVerdictHeader, Data: verdict})
	if err == nil {
		_, _ = l.conn.Send(m)
	}
}

func (l *delayer) message(kind int, flags netlink.HeaderFlags, attributes ...netlink.Attribute) (netlink.Message, error) {
	b, err := netlink.MarshalAttributes(attributes)
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(subsystem | kind), Flags: netlink.Request | flags},
		Data:   append(family(unix.AF_UNSPEC, l.number), b...),
	}, err
}

// end releases all delayed packets at once and unbinds the queue. There are no new packets by
// then.
func (l *delayer) end() error {
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
	return errors.Join(err, l.err)
}
