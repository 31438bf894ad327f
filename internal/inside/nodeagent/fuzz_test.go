package nodeagent

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"
)

// answered is a connection to an agent of others: it takes everything and answers some bytes.
type answered struct {
	net.Conn
	rest *bytes.Reader
}

func (a answered) Read(b []byte) (int, error)       { return a.rest.Read(b) }
func (a answered) Write(b []byte) (int, error)      { return len(b), nil }
func (a answered) Close() error                     { return nil }
func (a answered) SetDeadline(time.Time) error      { return nil }
func (a answered) SetReadDeadline(time.Time) error  { return nil }
func (a answered) SetWriteDeadline(time.Time) error { return nil }

// FuzzAnswers: any answer of an agent is a reading or an error.
func FuzzAnswers(f *testing.F) {
	for _, body := range []string{`{"containers":{"a":{"at":1,"cpu":2}},"missing":{"b":"gone"}}`, `{"error":"no"}`, `[]`} {
		f.Add([]byte("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body))
		f.Add([]byte("HTTP/1.1 503 Busy\r\nConnection: close\r\n\r\n" + body))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := NewClient(func(context.Context, string, string) (net.Conn, error) {
			return answered{rest: bytes.NewReader(b)}, nil
		}, "token")
		defer c.Close()
		_, _ = c.Read(t.Context(), Query{IDs: []string{"a"}})
		_, _ = c.Followed(t.Context(), "plan", 0)
		if ahead, unsure, err := c.Compare(t.Context()); err == nil && unsure < 0 {
			t.Errorf("%v ± %v", ahead, unsure)
		}
	})
}
