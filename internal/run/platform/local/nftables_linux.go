package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// table is an nftables table of one deployment. The socket it was made through
// owns it (NFT_TABLE_F_OWNER, Linux 5.12): when tare closes that, or dies, the
// kernel takes the table away, so that no packet is lost to a tare that is gone.
type table struct {
	conn  *nftables.Conn
	table *nftables.Table

	mu    sync.Mutex
	pods  map[string]*impaired
	count int32
}

// impaired is a pod's part of the table.
type impaired struct {
	chains []*nftables.Chain // that with the hook first, as they are removed
	late   *late             // nil where packets are not delayed
}

// tableOwned is NFT_TABLE_F_OWNER of linux/netfilter/nf_tables.h, which x/sys has not.
const tableOwned = 1 << 1

// maxTables bounds the search for a name that is free.
const maxTables = 64

func newWire() (wire, error) {
	var err error
	for n := range maxTables {
		var t *table
		if t, err = newTable(fmt.Sprintf("tare-%d-%d", os.Getpid(), n)); err == nil {
			return t, nil
		}
		// Permission is refused for a table that another socket of this process owns, and also in general.
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return nil, refused(err)
}

func newTable(name string) (*table, error) {
	t := &table{table: &nftables.Table{Name: name, Family: nftables.TableFamilyIPv4}, pods: map[string]*impaired{}}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error { return createOwned(c, name) }))
	if err != nil {
		return nil, err
	}
	t.conn = conn
	return t, nil
}

// createOwned makes a table that the socket owns, which [nftables.Conn] has no word for.
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

// family is the header of every message of netfilter: struct nfgenmsg.
func family(f byte, resource uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{f, unix.NFNETLINK_V0}, resource)
}

// refused says why the kernel does not let packets be touched, and what can be done.
func refused(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return hint.Wrap(fmt.Errorf("%w: it takes the capability CAP_NET_ADMIN to touch packets: %w", errors.ErrUnsupported, err),
			"run tare as root, or give it the capability: sudo setcap cap_net_admin+ep $(command -v tare)")
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL), errors.Is(err, fs.ErrNotExist):
		return hint.Wrap(fmt.Errorf("%w: the kernel cannot touch packets so: %w", errors.ErrUnsupported, err),
			"it takes Linux 5.12 with nf_tables (modprobe nf_tables), nft_numgen, nft_limit, and nft_queue with nfnetlink_queue for packet-delay")
	}
	return err
}

func (t *table) impair(p station, how platform.Impairment) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pods[p.name] != nil {
		return errors.New("it is impaired already")
	}
	if how.Bandwidth > maxBandwidth {
		return fmt.Errorf("%w: the kernel counts no more than %.0f bytes/s", errors.ErrUnsupported, float64(maxBandwidth))
	}
	if how.Delay <= 0 {
		return refused(t.add(p, nil, actionOf(how)))
	}
	l, err := newLate(how.Delay)
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

// known is the first action that the kernel knows. Each is tried in a table of its
// own: a socket on which a batch has failed still has the batch's other errors to tell.
func known(actions []action) (action, error) {
	var failed []error
	for _, a := range actions {
		w, err := newWire()
		if err != nil {
			return nil, err
		}
		t := w.(*table)
		if err = errors.Join(t.add(nobody(newAddresses()), nil, a), t.end()); err == nil {
			return a, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// action is what becomes of the packets, in expressions of nf_tables.
type action []expr.Any

// maxBandwidth is what nft_limit can count, in nanoseconds times bytes per second: below 2^64.
const maxBandwidth = 1 << 34

// segment is the longest packet on loopback, bytes: less than that could never pass a limit.
const segment = 64 << 10

func actionOf(how platform.Impairment) action {
	drop := &expr.Verdict{Kind: expr.VerdictDrop}
	switch {
	case how.Bandwidth > 0:
		// The bucket holds what passes in a second, and a packet.
		return action{&expr.Limit{Type: expr.LimitTypePktBytes, Rate: uint64(max(1, how.Bandwidth)), Over: true, Unit: expr.LimitTimeSecond, Burst: segment}, drop}
	case how.Loss >= 1:
		return action{drop}
	}
	const every = 1 << 31 // the share is taken in parts of it
	return action{
		&expr.Numgen{Register: 1, Modulus: every, Type: unix.NFT_NG_RANDOM},
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4}, // comparing is by bytes
		&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binaryutil.BigEndian.PutUint32(uint32(how.Loss * every))},
		drop,
	}
}

// add gives a pod its chains.
func (t *table) add(p station, l *late, a action) error {
	in := &impaired{late: l, chains: t.write(p, a)}
	if err := t.conn.Flush(); err != nil {
		return err
	}
	t.pods[p.name] = in
	return nil
}

// write puts a pod's chains and rules into the next batch. A pod has a hook of its
// own, so that a packet between two pods that are hit goes through both.
func (t *table) write(p station, a action) []*nftables.Chain {
	t.count++
	hook := t.conn.AddChain(&nftables.Chain{
		Name: p.name, Table: t.table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput,
		Priority: nftables.ChainPriorityRef(nftables.ChainPriority(t.count)),
	})
	chains := []*nftables.Chain{hook}
	for _, d := range directions {
		c := t.conn.AddChain(&nftables.Chain{Name: p.name + d.suffix, Table: t.table})
		chains = append(chains, c)
		t.conn.AddRule(&nftables.Rule{Table: t.table, Chain: c, Exprs: a})
		jump := &expr.Verdict{Kind: expr.VerdictJump, Chain: c.Name}
		for _, match := range [][]expr.Any{d.amongPods(p), d.fromOutside(p)} {
			t.conn.AddRule(&nftables.Rule{Table: t.table, Chain: hook, Exprs: append(match, jump)})
		}
	}
	return chains
}

// Offsets in the headers, bytes: RFC 791, RFC 9293.
const (
	sourceAddress, destinationAddress = 12, 16
	sourcePort, destinationPort       = 0, 2
)

// direction is one of the two ways packets go at a pod.
type direction struct {
	suffix           string
	own, other, port uint32 // offsets of the pod's address, of the other's, and of the pod's port
}

var directions = []direction{
	{"-to", destinationAddress, sourceAddress, destinationPort},
	{"-from", sourceAddress, destinationAddress, sourcePort},
}

// amongPods matches what passes between the pod and another.
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

// fromOutside matches what passes between the pod's port and who has no address of its own.
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
	for _, c := range in.chains { // that which jumps goes first
		t.conn.FlushChain(c)
		t.conn.DelChain(c)
	}
	if err := t.conn.Flush(); err != nil {
		return refused(err)
	}
	delete(t.pods, name)
	return in.late.end()
}

func (t *table) end() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	failed := []error{t.conn.CloseLasting()} // and the table is gone
	for _, in := range t.pods {
		failed = append(failed, in.late.end())
	}
	t.pods = nil
	return errors.Join(failed...)
}

// connection is one end of a TCP connection.
type connection struct{ from, to netip.AddrPort }

// stateEstablished is TCP_ESTABLISHED of linux/tcp_states.h.
const stateEstablished = 1

// established lists both ends of the TCP connections of this network namespace that stand.
func established() ([]connection, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 asked once a fault: the text is slower than a netlink dump, and as true
	lines, err := fs.NetTCP()
	if err != nil {
		return nil, err
	}
	var all []connection
	for _, l := range lines {
		from, okFrom := netip.AddrFromSlice(l.LocalAddr)
		to, okTo := netip.AddrFromSlice(l.RemAddr)
		if l.St == stateEstablished && okFrom && okTo {
			all = append(all, connection{netip.AddrPortFrom(from.Unmap(), uint16(l.LocalPort)), netip.AddrPortFrom(to.Unmap(), uint16(l.RemPort))})
		}
	}
	return all, nil
}
