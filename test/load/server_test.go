package load

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/certificate"
	"github.com/tare-mesh/tare/test/must"
)

// start serves s on loopback until the end of the test.
func (s *script) start(t *testing.T, config *tls.Config) (address string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var (
		serving sync.WaitGroup
		mu      sync.Mutex
		open    = map[net.Conn]bool{}
	)
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			serving.Go(func() {
				wire := c.(*net.TCPConn)
				if s.tls {
					c = tls.Server(c, config)
				}
				s.serve(c, wire)
				_ = wire.Close()
				mu.Lock()
				delete(open, wire)
				mu.Unlock()
			})
		}
	})
	return l.Addr().String()
}

// serve plays the script on one connection.
func (s *script) serve(c net.Conn, wire *net.TCPConn) {
	if s.greeting != "" && !s.write(c, s.greeting) {
		return
	}
	r := bufio.NewReader(c)
	if !s.awaitRequest(r) {
		return
	}
	go func() { _, _ = io.Copy(io.Discard, r) }() // ends with the connection
	if s.answer != "" && !s.write(c, s.answer) {
		return
	}
	for s.flood != "" {
		if !s.write(c, s.flood) {
			return
		}
	}
	switch s.end {
	case hang:
		_, _ = wire.Read(make([]byte, 1)) // beside the reader above: at the end of the connection both return
	case resets:
		_ = wire.SetLinger(0)
	}
}

// write writes text in the script's pieces.
func (s *script) write(c net.Conn, text string) bool {
	for len(text) > 0 {
		n := len(text)
		if s.piece > 0 {
			n = min(n, s.piece)
		}
		if _, err := io.WriteString(c, text[:n]); err != nil {
			return false
		}
		if text = text[n:]; s.pause > 0 {
			time.Sleep(s.pause) // the pace of this server
		}
	}
	return true
}

// awaitRequest reads up to the end of the first request's header.
func (s *script) awaitRequest(r *bufio.Reader) bool {
	if !strings.Contains(s.args, h2) && !strings.Contains(s.args, grpc) {
		for {
			line, err := r.ReadSlice('\n')
			if err != nil && err != bufio.ErrBufferFull {
				return false
			}
			if len(line) <= 2 {
				return true
			}
		}
	}
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	if _, err := r.Discard(len(preface)); err != nil {
		return false
	}
	for {
		header := make([]byte, 9)
		if _, err := io.ReadFull(r, header); err != nil {
			return false
		}
		if _, err := r.Discard(int(binary.BigEndian.Uint32(header) >> 8)); err != nil {
			return false
		}
		if header[3] == kindHeaders {
			return true
		}
	}
}

// selfSigned is a server's TLS, of a certificate that tare is not to check.
func selfSigned(t *testing.T) *tls.Config {
	t.Helper()
	pair := must.Get(certificate.New(certificate.Leaf(""), nil))(t)
	return &tls.Config{Certificates: []tls.Certificate{pair.TLS()}, NextProtos: []string{"h2", "http/1.1"}}
}
