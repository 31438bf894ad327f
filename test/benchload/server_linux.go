package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The server of this program: one thread, one poller, nothing but a read and a
// write for a request, so that on a core of its own it is faster than a client
// on another. It counts requests and, on request, stamps each with
// the kernel's receive time (SO_TIMESTAMPNS, what a packet capture would show)
// and with its own clock before and after it writes the answer.
//
// A path that begins with an underscore is an order: see [server.order].

// maxSamples bounds the stamps kept, at 8 bytes each.
const maxSamples = 1 << 21

var small = answer("ok")

func answer(body string) []byte {
	return []byte("HTTP/1.1 200 OK\r\nServer: benchload\r\nContent-Type: text/plain\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

type server struct {
	epfd, listener int
	stamp          bool
	buffer         [16 << 10]byte
	control        [128]byte
	requests       int64
	partial        map[int32][]byte

	after []int32 // ns from the kernel's receive stamp to the end of the write
}

// serverStats is the answer to "/_stats".
type serverStats struct {
	// After is the median time in µs from the kernel's receive stamp of the request to the end of the write of its answer.
	After float64 `json:"after"`
}

// serve runs until it is killed.
func serve(stamp bool) error {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(512 << 20)
	s := &server{stamp: stamp, partial: map[int32][]byte{}}
	port, err := s.listen()
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintln(os.Stdout, port)
	events := make([]unix.EpollEvent, 256)
	for {
		n, err := unix.EpollWait(s.epfd, events, -1)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("wait for requests: %w", err)
		}
		for i := range max(0, n) {
			if int(events[i].Fd) == s.listener {
				s.accept()
				continue
			}
			s.handle(events[i].Fd)
		}
	}
}

func (s *server) listen() (port int, err error) {
	if s.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return 0, err
	}
	if s.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, err
	}
	if err = unix.Bind(s.listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	if err = unix.Listen(s.listener, 4096); err != nil {
		return 0, err
	}
	if err = s.watch(s.listener); err != nil {
		return 0, err
	}
	name, err := unix.Getsockname(s.listener)
	if err != nil {
		return 0, err
	}
	return name.(*unix.SockaddrInet4).Port, nil
}

func (s *server) watch(fd int) error {
	return unix.EpollCtl(s.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

func (s *server) accept() {
	for {
		fd, _, err := unix.Accept4(s.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		if s.stamp {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
		}
		if s.watch(fd) != nil {
			_ = unix.Close(fd)
		}
	}
}

// handle reads what has come on fd and answers it. Requests have no body.
func (s *server) handle(fd int32) {
	n, came := s.receive(fd)
	if n <= 0 {
		if n == 0 {
			delete(s.partial, fd)
			_ = unix.Close(int(fd))
		}
		return
	}
	request := s.buffer[:n]
	if held := s.partial[fd]; len(held) > 0 || !bytes.HasSuffix(request, []byte("\r\n\r\n")) {
		held = append(held, request...)
		if s.partial[fd] = held; !bytes.HasSuffix(held, []byte("\r\n\r\n")) {
			return
		}
		request = held
		delete(s.partial, fd)
	}
	if len(request) > 5 && request[5] == '_' {
		s.order(fd, request)
		return
	}
	s.requests++
	if came == 0 {
		s.write(fd, small)
		return
	}
	s.write(fd, small)
	if len(s.after) < maxSamples {
		s.after = append(s.after, int32(time.Now().UnixNano()-came))
	}
}

func (s *server) write(fd int32, b []byte) {
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
}

// receive reads once. came is the kernel's receive stamp in ns since the epoch,
// 0 where there is none; n is negative where there was nothing to read.
func (s *server) receive(fd int32) (n int, came int64) {
	if !s.stamp {
		r, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&s.buffer)), uintptr(len(s.buffer)))
		if errno != 0 {
			return s.refused(errno), 0
		}
		return int(r), 0
	}
	iov := unix.Iovec{Base: &s.buffer[0]}
	iov.SetLen(len(s.buffer))
	msg := unix.Msghdr{Iov: &iov, Control: &s.control[0]}
	msg.SetIovlen(1)
	msg.SetControllen(len(s.control))
	r, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), 0)
	if errno != 0 {
		return s.refused(errno), 0
	}
	if msg.Controllen >= uint64(unix.CmsgLen(16)) {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&s.control[0]))
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS {
			came = (*unix.Timespec)(unsafe.Pointer(&s.control[unix.CmsgLen(0)])).Nano()
		}
	}
	return int(r), came
}

// refused is -1 for a read to be tried again, 0 for a connection that has ended.
func (s *server) refused(errno unix.Errno) int {
	if errno == unix.EAGAIN || errno == unix.EINTR {
		return -1
	}
	return 0
}

// order executes an order: "/_count" returns the number of answered requests,
// "/_reset" clears the stamps, and any other returns their median.
func (s *server) order(fd int32, request []byte) {
	path := string(bytes.Fields(request)[1])
	switch path {
	case "/_count":
		s.write(fd, answer(strconv.FormatInt(s.requests, 10)))
	case "/_reset":
		s.after = s.after[:0]
		s.write(fd, answer("ok"))
	default:
		b, _ := json.Marshal(serverStats{medianUS(s.after)}) // a figure only: it cannot fail
		s.write(fd, answer(string(b)))
	}
}

func medianUS(ns []int32) float64 {
	if len(ns) == 0 {
		return 0
	}
	sorted := slices.Clone(ns)
	slices.Sort(sorted)
	return float64(sorted[len(sorted)/2]) / 1e3
}
