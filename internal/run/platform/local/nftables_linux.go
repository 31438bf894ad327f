package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// table is an nftables table of one deployment. The socket that made it owns it
// (NFT_TABLE_F_OWNER, Linux 5.12). When tare closes the socket, or dies, the kernel deletes the
// table, so that no impairment outlives tare.
type table struct {
	conn  *nftables.Conn
	table *nftables.Table

	mu    sync.Mutex
	pods  map[string]*impaired
	spent []*nftables.Chain // empty chains of healed pods, to be deleted: a hook before the chains of its jumps
	count int32
}

// impaired is the part of the table that belongs to one pod.
type impaired struct {
	chains []*nftables.Chain // the hook first
	rules  int               // in all chains
	late   *delayer          // nil: packets are not delayed
}

// tableOwned is NFT_TABLE_F_OWNER of linux/netfilter/nf_tables.h, which x/sys lacks.
const tableOwned = 1 << 1

// ownPort holds the port ID that the kernel would assign to the first netlink socket of this process:
// its process number. A closed socket's port ID is free before the kernel deletes the tables of that port ID,
// so a new socket with the same one would lose its table. All others are random.
var ownPort = sync.OnceValues(func() (*netlink.Conn, error) { return netlink.Dial(unix.NETLINK_NETFILTER, nil) })

func (t *table) impair(p station, how platform.Impairment) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pods[p.name] != nil {
		return errors.New("it is already impaired")
	}
	if how.Bandwidth > maxBandwidth {
		return fmt.Errorf("%w: the maximum of the kernel is %.0f bytes/s", errors.ErrUnsupported, float64(maxBandwidth))
	}
	if how.Delay <= 0 {
		return refused(t.add(p, nil, actionOf(how)))
	}
	l, err := newDelayer(how.Delay)
	if err != nil {
		return refused(err)
	}
	a, err := known(l.actions())
	if err == nil {
		err = t.add(p, l, a)
	}
	if err != nil {
		return errors.Join(refused(err), l.end())
	}
	return nil
}

// queueing is 1 + the index of the action that known found, 0 before. The kernel stays the same, and each
// trial deletes a hook, with which the kernel drops the delayed packets of all pods.
var queueing atomic.Int32

// known is the first action that the kernel supports. Each is tried in its own table: after a
// failed batch a socket still has its other errors to read.
func known(actions []action) (action, error) {
	if n := queueing.Load(); n > 0 {
		return actions[n-1], nil
	}
	var failed []error
	for i, a := range actions {
		w, err := newWire()
		if err != nil {
			return nil, err
		}
		t := w.(*table)
		if err = errors.Join(t.add(unused, nil, a), t.end()); err == nil {
			queueing.Store(int32(i) + 1)
			return a, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// maxTables bounds the search for a free name.
const maxTables = 64

func newWire() (wire, error) {
	var err error
	for n := range maxTables {
		var t *table
		if t, err = newTable(fmt.Sprintf("tare-%d-%d", os.Getpid(), n)); err == nil {
			return t, nil
		}
		// EPERM: another socket of this process owns the table, or this process lacks the capability.
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return nil, refused(err)
}

func newTable(name string) (*table, error) {
	if _, err := ownPort(); err != nil {
		return nil, err
	}
	t := &table{table: &nftables.Table{Name: name, Family: nftables.TableFamilyIPv4}, pods: map[string]*impaired{}}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error { return createOwned(c, name) }))
	if err != nil {
		return nil, err
	}
	t.conn = conn
	return t, nil
}

// createOwned makes a table owned by the socket. [nftables.Conn] does not support this.
func createOwned(c *netlink.Conn, name string) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close()) // nftables.New does not
		}
	}()
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: unix.NFTA_TABLE_NAME, Data: []byte(name + "\x00")},
		{Type: unix.NFTA_TABLE_FLAGS, Data: binaryutil.BigEndian.PutUint32(tableOwned)},
	})
	if err != nil {
		return err
	}
	control := func(kind int) netlink.Message {
		return netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request},
			Data: family(unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)}
	}
	messages := []netlink.Message{
		control(unix.NFNL_MSG_BATCH_BEGIN),
		{
			Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWTABLE,
				Flags: netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl},
			Data: append(family(unix.NFPROTO_IPV4, 0), attributes...),
		},
		control(unix.NFNL_MSG_BATCH_END),
	}
	if _, err := c.SendMessages(messages); err != nil {
		return err
	}
	_, err = c.Receive() // the acknowledgement
	return err
}

// family is the header of every netfilter message: struct nfgenmsg.
func family(f byte, resource uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{f, unix.NFNETLINK_V0}, resource)
}

// refused adds to a kernel's error its reason and a hint.
func refused(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return hint.Wrap(fmt.Errorf("%w: network faults need the capability CAP_NET_ADMIN: %w", errors.ErrUnsupported, err),
			"run tare as root, or give it the capability: sudo setcap cap_net_admin+ep $(command -v tare)")
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL), errors.Is(err, fs.ErrNotExist):
		return hint.Wrap(fmt.Errorf("%w: the kernel does not support this impairment: %w", errors.ErrUnsupported, err),
			"network faults need Linux 5.12 with nf_tables (modprobe nf_tables), nft_numgen, nft_limit, and nft_queue with nfnetlink_queue for packet-delay")
	}
	return err
}

// action is an impairment as nf_tables expressions.
type action []expr.Any

// maxBandwidth is the maximum of nft_limit, whose product of nanoseconds and bytes per second is
// below 2^64.
const maxBandwidth = 1 << 34

// segment is the longest packet on loopback, bytes. A smaller bucket would never let one pass.
const segment = 64 << 10

func actionOf(how platform.Impairment) action {
	drop := &expr.Verdict{Kind: expr.VerdictDrop}
	switch {
	case how.Bandwidth > 0:
		// The bucket has the bytes of one second, and one packet.
		return action{&expr.Limit{Type: expr.LimitTypePktBytes, Rate: uint64(max(1, how.Bandwidth)), Over: true, Unit: expr.LimitTimeSecond, Burst: segment}, drop}
	case how.Loss >= 1:
		return action{drop}
	}
	const every = 1 << 31 // the unit of the share
	return action{
		&expr.Numgen{Register: 1, Modulus: every, Type: unix.NFT_NG_RANDOM},
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4}, // comparison is bytewise
		&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binaryutil.BigEndian.PutUint32(uint32(how.Loss * every))},
		drop,
	}
}

func (t *table) add(p station, l *delayer, a action) error {
	in := &impaired{late: l}
	in.chains, in.rules = t.write(p, a)
	if err := t.conn.Flush(); err != nil {
		return err
	}
	t.pods[p.name] = in
	return nil
}

// write adds a pod's chains and rules to the next batch. Each pod has its own hook, so that a
// packet between two impaired pods passes both.
func (t *table) write(p station, a action) (chains []*nftables.Chain, rules int) {
	t.count++
	name := fmt.Sprintf("%s-%d", p.name, t.count) // a healed pod's chains may still exist
	hook := t.conn.AddChain(&nftables.Chain{
		Name: name, Table: t.table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput,
		Priority: nftables.ChainPriorityRef(nftables.ChainPriority(t.count)),
	})
	chains = []*nftables.Chain{hook}
	add := func(c *nftables.Chain, do []expr.Any) {
		t.conn.AddRule(&nftables.Rule{Table: t.table, Chain: c, Exprs: do})
		rules++
	}
	for _, d := range directions {
		c := t.conn.AddChain(&nftables.Chain{Name: name + d.suffix, Table: t.table})
		chains = append(chains, c)
		add(c, a)
		jump := &expr.Verdict{Kind: expr.VerdictJump, Chain: c.Name}
		for _, match := range [][]expr.Any{d.amongPods(p), d.fromOutside(p)} {
			add(hook, append(match, jump))
		}
	}
	return chains, rules
}

// Offsets in the headers, bytes: RFC 791, RFC 9293.
const (
	sourceAddress, destinationAddress = 12, 16
	sourcePort, destinationPort       = 0, 2
)

// direction is one direction of a pod's packets.
type direction struct {
	suffix           string
	own, other, port uint32 // offsets of the pod's address, the other address, and the pod's port
}

var directions = []direction{
	{"-to", destinationAddress, sourceAddress, destinationPort},
	{"-from", sourceAddress, destinationAddress, sourcePort},
}

// amongPods matches packets between the pod and another.
func (d direction) amongPods(p station) []expr.Any {
	mask := netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), p.all.Bits()).Masked().Addr().AsSlice()
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: d.own, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.ip.AsSlice()},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: d.other, Len: 4},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: p.ip.AsSlice()},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.all.Masked().Addr().AsSlice()},
	}
}

// fromOutside matches packets between the pod's port and 127.0.0.1.
func (d direction) fromOutside(p station) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: d.own, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.ip.AsSlice()},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: d.other, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: localhost.AsSlice()},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: d.port, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(p.port)},
	}
}

func (t *table) mend(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	in := t.pods[name]
	if in == nil {
		return nil
	}
	return errors.Join(t.release(name, in), t.tidy())
}

// tidy deletes the chains of healed pods, unless packets of another are delayed.
func (t *table) tidy() error {
	for _, in := range t.pods {
		if in.late != nil {
			return nil
		}
	}
	for _, c := range t.spent {
		t.conn.DelChain(c)
	}
	t.spent = nil
	return t.conn.Flush()
}

func (t *table) end() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var failed []error
	for name, in := range t.pods {
		failed = append(failed, t.release(name, in))
	}
	failed = append(failed, t.conn.CloseLasting()) // the kernel deletes the table
	for _, in := range t.pods {                    // not released
		failed = append(failed, in.late.end())
	}
	t.pods = nil
	return errors.Join(failed...)
}

// release ends the impairment of a pod. Packets in flight arrive: the kernel would drop delayed ones with
// their hook, so that the chains remain.
func (t *table) release(name string, in *impaired) error {
	ended := t.inForce(in)
	for _, c := range in.chains {
		t.conn.FlushChain(c)
	}
	if err := t.conn.Flush(); err != nil {
		return errors.Join(ended, fmt.Errorf("delete its rules: %w", err))
	}
	delete(t.pods, name)
	t.spent = append(t.spent, in.chains...)
	return errors.Join(ended, in.late.end())
}

// inForce returns an error if the kernel does not have all rules of an impairment any more.
func (t *table) inForce(in *impaired) error {
	n := 0
	for _, c := range in.chains {
		rules, err := t.conn.GetRules(t.table, c)
		if err != nil {
			return fmt.Errorf("list its rules: %w", err)
		}
		n += len(rules)
	}
	if n != in.rules {
		return fmt.Errorf("the impairment was not in force any more: the kernel has %d of its %d rules", n, in.rules)
	}
	return nil
}

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
