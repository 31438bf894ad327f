package service

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/gorilla/websocket"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// upgrader accepts every origin: the clients are loads and proxies.
var upgrader = websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}

// serveWebSocket answers the messages of one connection until it or ctx ends. The work of a request
// is done for each message. A failure closes the connection with status 1011.
func (s *Service) serveWebSocket(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	answers, echo := 0, true
	if text := r.Header.Get(app.AnswersHeader); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			http.Error(w, app.AnswersHeader+" is not a number of messages", http.StatusBadRequest)
			return
		}
		answers, echo = n, false
	}
	var shown http.Header
	if n := s.now.Load(); n.version != nil {
		shown = http.Header{versionHeader: n.version}
	}
	c, err := upgrader.Upgrade(w, r, shown) // it answers on a failure
	if err != nil {
		s.count.failed.Add(1)
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer c.Close()
	c.SetReadLimit(int64(app.MaxSize))
	in := incoming{alone: isAlone(canonicalAlone, r.Header), trace: traceOf(canonicalTrace, r.Header)}
	var message bytes.Buffer // reused
	for {
		kind, from, err := c.NextReader()
		if err != nil {
			return // the client is gone
		}
		message.Reset()
		if _, err := message.ReadFrom(from); err != nil {
			return
		}
		s.count.messages.Add(1)
		start, n := time.Now(), s.now.Load()
		status := n.status
		if n.work {
			status = s.do(ctx, n, in).status
		}
		s.metrics.observe(n, status, time.Since(start))
		if isError(status) {
			s.count.failed.Add(1)
			_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseInternalServerErr, http.StatusText(status)), time.Now().Add(closeTimeout))
			return
		}
		if echo {
			err = c.WriteMessage(kind, message.Bytes())
		}
		for i := 0; i < answers && err == nil; i++ {
			size := n.size
			if size < 0 {
				size = n.instance.ResponseSize.Draw()
			}
			err = c.WriteMessage(websocket.BinaryMessage, filled(size))
		}
		if err != nil {
			return
		}
	}
}

// closeTimeout limits the write of the last frame.
const closeTimeout = time.Second
