package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/tare-mesh/tare/internal/base/routine"
)

// ClientStream is a call that sends and receives many messages.
type ClientStream struct {
	ctx      context.Context
	cancel   context.CancelFunc
	requests *io.PipeWriter
	limit    int64
	opened   chan struct{} // closed when the server has answered
	answer   *http.Response
	err      error // why there is no answer
}

// Open begins a call like [Call], with scheme http or https. Each message received has at most limit bytes. The server may answer
// only after the first message, so that an error may come with the first [ClientStream.Receive].
func Open(ctx context.Context, over http.RoundTripper, scheme, host, method string, header http.Header, limit int64) *ClientStream {
	ctx, cancel := context.WithCancel(ctx)
	body, requests := io.Pipe()
	s := &ClientStream{ctx: ctx, cancel: cancel, requests: requests, limit: limit, opened: make(chan struct{})}
	r := newRequest(ctx, scheme, host, method, header)
	r.Body, r.ContentLength = body, -1
	go routine.Guarded(func() {
		defer close(s.opened)
		if s.answer, s.err = over.RoundTrip(r); s.err != nil {
			body.CloseWithError(s.err)
		}
	})()
	return s
}

// Send sends a message. One goroutine may send while another receives.
func (s *ClientStream) Send(m Message) error {
	whole := m.prefix()
	for _, part := range m {
		whole = append(whole, part...)
	}
	if _, err := s.requests.Write(whole); err != nil {
		return failed(s.ctx, err)
	}
	return nil
}

// Receive returns the next message. The error is [io.EOF] if the server ended the call without one, otherwise an [*Error].
func (s *ClientStream) Receive() ([]byte, error) {
	<-s.opened
	if s.err != nil {
		return nil, failed(s.ctx, s.err)
	}
	if err, found := statusOf(s.answer.Header); found && err != nil {
		return nil, err
	}
	if s.answer.StatusCode != http.StatusOK || !isGRPC(s.answer.Header.Get("Content-Type")) {
		return nil, Errorf(Unavailable, "the answer has status %s and content type %.40q", s.answer.Status, s.answer.Header.Get("Content-Type"))
	}
	m, err := read(s.answer.Body, s.limit)
	switch {
	case errors.Is(err, io.EOF):
		if status, found := statusOf(s.answer.Trailer); found && status != nil {
			return nil, status
		}
		return nil, io.EOF
	case err != nil:
		return nil, failed(s.ctx, err)
	}
	return m, nil
}

// Close ends the call.
func (s *ClientStream) Close() {
	s.cancel()
	_ = s.requests.CloseWithError(context.Canceled)
	<-s.opened
	if s.answer != nil {
		_ = s.answer.Body.Close()
	}
}
