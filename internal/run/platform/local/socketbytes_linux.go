package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/routine"
)

// socketBytes sums up the bytes that the accepted connections of an address have received or sent (TCP_INFO). The kernel lists open
// sockets, and announces each that ends (sock_diag). Neither needs privileges.
type socketBytes struct {
	at     netip.AddrPort
	offset int // of the count in struct tcp_info
	ends   *netlink.Conn
	listen *netlink.Conn

	mu    sync.Mutex
	ended int64           // bytes of ended sockets
	since map[uint64]bool // sockets that ended while a list is made, by cookie, else nil
	open  map[uint64]bool // sockets of the last list whose end is not yet announced, by cookie
	lost  error           // of an announcement
}

const (
	// From linux/inet_diag.h, which x/sys lacks.
	diagInfo       = 2  // INET_DIAG_INFO
	diagRequest    = 56 // bytes of struct inet_diag_req_v2
	diagMessage    = 72 // bytes of struct inet_diag_msg
	diagLocal      = 4  // offset of the local port in it
	diagLocalAddr  = 8
	diagCookie     = 44
	infoSent       = 120     // offset of tcpi_bytes_acked in struct tcp_info
	infoReceived   = 128     // offset of tcpi_bytes_received
	announceBuffer = 4 << 20 // bytes
	announceTime   = time.Second
)

// States of sockets that have a count of bytes, and of these the ones that have received the peer's end.
const (
	countedStates = 1<<tcpEstablished | 1<<unix.BPF_TCP_FIN_WAIT1 | 1<<unix.BPF_TCP_FIN_WAIT2 | 1<<unix.BPF_TCP_CLOSE_WAIT | 1<<unix.BPF_TCP_LAST_ACK | 1<<unix.BPF_TCP_CLOSING
	endedStates   = 1<<unix.BPF_TCP_CLOSE | 1<<unix.BPF_TCP_CLOSE_WAIT | 1<<unix.BPF_TCP_LAST_ACK | 1<<unix.BPF_TCP_CLOSING
)

// newSocketBytes counts received bytes, or sent ones that the other end has acknowledged.
func newSocketBytes(at netip.AddrPort, sent bool) (_ *socketBytes, err error) {
	r := &socketBytes{at: at, offset: infoReceived}
	if sent {
		r.offset = infoSent
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("list sockets: %w", err), r.close())
		}
	}()
	if r.listen, err = netlink.Dial(unix.NETLINK_SOCK_DIAG, nil); err != nil {
		return nil, err
	}
	if r.ends, err = netlink.Dial(unix.NETLINK_SOCK_DIAG, nil); err != nil {
		return nil, err
	}
	for _, group := range []uint32{unix.SKNLGRP_INET_TCP_DESTROY, unix.SKNLGRP_INET6_TCP_DESTROY} {
		if err = r.ends.JoinGroup(group); err != nil {
			return nil, err
		}
	}
	_ = r.ends.SetReadBuffer(announceBuffer) // a smaller one may lose announcements, which is noticed
	go routine.Guarded(r.receive)()
	return r, nil
}

func (r *socketBytes) close() error {
	var failed []error
	for _, c := range []*netlink.Conn{r.listen, r.ends} {
		if c != nil {
			failed = append(failed, c.Close())
		}
	}
	return errors.Join(failed...)
}

// receive adds the bytes of ended sockets until close.
func (r *socketBytes) receive() {
	for {
		messages, err := r.ends.Receive()
		r.mu.Lock()
		for _, m := range messages {
			s, ok := r.socket(m.Data)
			if !ok {
				continue
			}
			delete(r.open, s.cookie)
			if r.ended += s.bytes; r.since != nil {
				r.since[s.cookie] = true
			}
		}
		if err != nil {
			r.lost = fmt.Errorf("receive the ends of sockets: %w", err)
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
	}
}

// read returns the bytes of all connections since the beginning. The kernel announces the end of a connection
// some time after it lists the connection last: read waits for that.
func (r *socketBytes) read() (n int64, err error) {
	for began := time.Now(); ; time.Sleep(adminPause) {
		late := time.Since(began) > announceTime
		var complete bool
		if n, complete, err = r.list(late); complete || err != nil {
			return n, err
		}
	}
}

// list returns the bytes of a list of the open connections, and of the announced ends. It is not complete if a connection of
// the last list is neither open nor announced, unless that comes too late: a connection that was reset may remain so.
func (r *socketBytes) list(late bool) (n int64, complete bool, err error) {
	r.mu.Lock()
	r.since = map[uint64]bool{}
	r.mu.Unlock()
	open := map[uint64]int64{}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, diagRequest)
		request[0], request[1], request[2] = family, unix.IPPROTO_TCP, 1<<(diagInfo-1)
		binary.NativeEndian.PutUint32(request[4:], countedStates)
		binary.BigEndian.PutUint16(request[8:], r.at.Port())
		messages, err := r.listen.Execute(netlink.Message{Header: netlink.Header{Type: unix.SOCK_DIAG_BY_FAMILY, Flags: netlink.Request | netlink.Dump}, Data: request})
		if err != nil {
			return 0, false, fmt.Errorf("list sockets: %w", err)
		}
		for _, m := range messages {
			if s, ok := r.socket(m.Data); ok {
				open[s.cookie] = s.bytes
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for cookie := range r.open {
		if _, ok := open[cookie]; !ok && !late {
			return 0, false, r.lost
		}
	}
	n, r.open = r.ended, map[uint64]bool{}
	for cookie, bytes := range open {
		if !r.since[cookie] {
			n += bytes
			r.open[cookie] = true
		}
	}
	r.since = nil
	return n, true, r.lost
}

// countedSocket is an accepted connection.
type countedSocket struct {
	cookie uint64
	bytes  int64
}

// socket reads a message about a socket. ok is false for one of another address.
func (r *socketBytes) socket(message []byte) (s countedSocket, ok bool) {
	if len(message) < diagMessage || binary.BigEndian.Uint16(message[diagLocal:]) != r.at.Port() {
		return s, false
	}
	local := message[diagLocalAddr : diagLocalAddr+16]
	if message[0] == unix.AF_INET {
		local = local[:4]
	}
	if ip, _ := netip.AddrFromSlice(local); ip.Unmap() != r.at.Addr() {
		return s, false
	}
	attributes, err := netlink.UnmarshalAttributes(message[diagMessage:])
	if err != nil {
		return s, false
	}
	for _, a := range attributes {
		if a.Type != diagInfo {
			continue
		}
		if len(a.Data) < infoReceived+8 {
			return s, false // before Linux 4.1
		}
		s.bytes = int64(binary.NativeEndian.Uint64(a.Data[r.offset:]))
		if r.offset == infoReceived && s.bytes > 0 && endedStates>>message[1]&1 == 1 {
			s.bytes-- // the kernel counts the peer's FIN as a byte
		}
	}
	s.cookie = binary.NativeEndian.Uint64(message[diagCookie:])
	return s, true
}
