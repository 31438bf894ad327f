package engine

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/must"
)

// rawServer accepts connections on loopback and calls handle for each. It closes at
// the end of the test.
func rawServer(t testing.TB, handle func(c net.Conn)) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		conns   = map[net.Conn]bool{}
		closed  bool
	)
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if closed {
				c.Close()
			}
			conns[c] = true
			mu.Unlock()
			running.Go(func() {
				handle(c)
				c.Close()
				mu.Lock()
				delete(conns, c)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		closed = true
		for c := range conns {
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return "http://" + l.Addr().String()
}

// answering reads requests without a body and has answer write to each.
func answering(answer func(c net.Conn, n int) (more bool)) func(net.Conn) {
	return func(c net.Conn) {
		r := bufio.NewReader(c)
		for n := 0; ; n++ {
			for {
				line, err := r.ReadSlice('\n')
				if err != nil {
					return
				}
				if len(line) <= 2 {
					break
				}
			}
			if !answer(c, n) {
				return
			}
		}
	}
}

// replying answers every request with text, and the connection stays open.
func replying(text string) func(net.Conn) {
	b := []byte(text)
	return answering(func(c net.Conn, _ int) bool {
		_, err := c.Write(b)
		return err == nil
	})
}

// replyingOnce answers one request with text and closes.
func replyingOnce(text string) func(net.Conn) {
	return answering(func(c net.Conn, _ int) bool {
		_, _ = c.Write([]byte(text))
		return false
	})
}

const helloResponse = "HTTP/1.1 200 OK\r\nServer: test\r\nDate: Sat, 21 Nov 2026 09:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"

// long marks tests that need seconds.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
}

// brief is a window for the many runs that need only some requests.
const brief = 100 * time.Millisecond

// httpServer is net/http over HTTP/1.1.
func httpServer(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

// h2Server is net/http over cleartext HTTP/2, and nothing else.
func h2Server(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}
