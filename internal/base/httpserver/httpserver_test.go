package httpserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// A request in flight finishes after the end, and no further connection is accepted.
func TestRequestsInFlightFinish(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	begun, finish := make(chan struct{}), make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		_, _ = io.WriteString(w, "done")
	})}
	server.RegisterOnShutdown(func() { close(finish) })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, server) }()
	answered := make(chan string, 1)
	go func() {
		resp, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		answered <- string(b)
	}()
	<-begun
	cancel()
	if text := <-answered; text != "done" {
		t.Errorf("answered %q", text)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("a connection is accepted after the end")
	}
}

func TestFailure(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	l.Close()
	if err := Serve(t.Context(), l, &http.Server{}); err == nil {
		t.Error("a closed listener is served")
	}
}
