package service

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/test/must"
)

// socket opens a connection to a service.
func socket(t *testing.T, url, answers string) *websocket.Conn {
	t.Helper()
	header := http.Header{}
	if answers != "" {
		header.Set(app.AnswersHeader, answers)
	}
	c, resp, err := new(websocket.Dialer).DialContext(t.Context(), "ws"+strings.TrimPrefix(url, "http"), header)
	must.OK(t, err)
	resp.Body.Close()
	t.Cleanup(func() { c.Close() })
	return c
}

func TestWebSocket(t *testing.T) {
	url, s := listening(t, app.Instance{Protocol: app.WebSocket, Behavior: app.Behavior{ResponseSize: app.FixedSize(100_000)}})
	answer := func(c *websocket.Conn, want int) {
		t.Helper()
		if _, got, err := c.ReadMessage(); err != nil || len(got) != want {
			t.Errorf("%d bytes, want %d, %v", len(got), want, err)
		}
	}
	exchange := func(c *websocket.Conn) {
		t.Helper()
		must.OK(t, c.WriteMessage(websocket.TextMessage, []byte("hello")))
	}
	echo, stream, pong := socket(t, url, ""), socket(t, url, "2"), socket(t, url, "0")
	for range 2 {
		exchange(echo)
		answer(echo, 5)
		exchange(stream)
		answer(stream, 100_000)
		answer(stream, 100_000)
	}
	exchange(pong)
	ponged := make(chan struct{})
	pong.SetPongHandler(func(string) error { close(ponged); return nil })
	go func() { _, _, _ = pong.ReadMessage() }()
	must.OK(t, pong.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Minute)))
	<-ponged
	if n := s.Stats(); n.Messages != 5 || n.Requests != 3 || n.Failed != 0 {
		t.Errorf("%+v", n)
	}
	must.OK(t, s.Change(func(now app.Instance) (app.Instance, error) {
		return app.PatchInstance(now, "t", []byte(`{"errors": {"ratio": 1, "status": 503}}`))
	}))
	exchange(echo)
	if _, _, err := echo.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseInternalServerErr) || s.Stats().Failed != 1 {
		t.Errorf("%v, %+v", err, s.Stats())
	}
	resp, err := http.Get(url + "healthz")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// The service ends its connections with its context, and other protocols have no upgrade.
func TestWebSocketEnds(t *testing.T) {
	s := must.Get(New(app.Instance{Name: "s", Protocol: app.WebSocket}, Options{}))(t)
	l := must.Get(Listen("127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, s) }()
	c := socket(t, "http://"+l.Addr().String()+"/", "")
	cancel()
	if _, _, err := c.ReadMessage(); err == nil {
		t.Error("the connection is open after the end")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	url, _ := listening(t, app.Instance{Protocol: app.HTTP1})
	_, resp, err := new(websocket.Dialer).DialContext(t.Context(), "ws"+strings.TrimPrefix(url, "http"), nil)
	if err == nil || resp == nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%v", err)
	}
}
