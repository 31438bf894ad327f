package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/routine"
)

// Healthy calls the health service of a host. The error reports another status than SERVING.
func Healthy(ctx context.Context, over http.RoundTripper, host string) error {
	b, err := Call(ctx, over, host, HealthCheck, nil, nil, exact)
	if err != nil {
		return err
	}
	fields, err := Fields(b)
	if err != nil {
		return err
	}
	for _, f := range fields {
		if f.Number == 1 && f.Int == serving {
			return nil
		}
	}
	return fmt.Errorf("the health of %s is not SERVING", host)
}

// Call makes a unary call: method, such as /grpc.health.v1.Health/Check, at a host
// over a transport of HTTP/2. header may be nil, and a Host in it replaces :authority. The response has at most limit bytes.
// The error of an answer is an [*Error].
func Call(ctx context.Context, over http.RoundTripper, host, method string, header http.Header, request Message, limit int64) ([]byte, error) {
	body := func() (io.ReadCloser, error) { return io.NopCloser(request.reader()), nil }
	r := newRequest(ctx, "http", host, method, header)
	r.GetBody, r.ContentLength = body, int64(prefixSize+request.size())
	r.Body, _ = body()
	resp, err := over.RoundTrip(r)
	if err != nil {
		return nil, failed(ctx, err)
	}
	defer resp.Body.Close()
	return response(ctx, resp, limit)
}

// newRequest is a call without its body.
func newRequest(ctx context.Context, scheme, host, method string, header http.Header) *http.Request {
	if header == nil {
		header = http.Header{}
	}
	header["Content-Type"] = []string{contentType}
	header["Te"] = []string{"trailers"}
	header["User-Agent"] = []string{"tare"}
	if end, ok := ctx.Deadline(); ok {
		header[timeoutHeader] = []string{formatTimeout(time.Until(end))}
	}
	authority := cmp.Or(header.Get("Host"), host)
	header.Del("Host")
	return (&http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: scheme, Host: host, Path: method}, Host: authority, Header: header}).WithContext(ctx)
}

// response reads the message and the status of an answer.
func response(ctx context.Context, resp *http.Response, limit int64) ([]byte, error) {
	if err, found := statusOf(resp.Header); found { // no body
		if err == nil {
			err = Errorf(Internal, "the answer has no message")
		}
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		code, ok := httpCodes[resp.StatusCode]
		if !ok {
			code = Unknown
		}
		return nil, Errorf(code, "status %s", resp.Status)
	}
	if t := resp.Header.Get("Content-Type"); !isGRPC(t) {
		return nil, Errorf(Unknown, "content type %.40q", t)
	}
	m, err := read(resp.Body, limit)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, failed(ctx, err)
	}
	if n, rest := io.Copy(io.Discard, io.LimitReader(resp.Body, 1)); rest != nil {
		return nil, failed(ctx, rest)
	} else if n > 0 {
		return nil, Errorf(Internal, "the answer has more than one message")
	}
	status, found := statusOf(resp.Trailer)
	switch {
	case !found:
		return nil, Errorf(Internal, "the answer has no grpc-status")
	case status != nil:
		return nil, status
	case err != nil:
		return nil, Errorf(Internal, "the answer has no message")
	}
	return m, nil
}

// deadlineSlack is how long before the deadline of a context its server may have reset a call, which knows the deadline too.
const deadlineSlack = time.Millisecond

// failed is the error of a call that did not end with a status.
func failed(ctx context.Context, err error) error {
	cause := ctx.Err()
	if end, ok := ctx.Deadline(); ok && cause == nil && time.Until(end) < deadlineSlack {
		cause = context.DeadlineExceeded
	}
	if cause != nil {
		return &Error{codeOf(cause), cause.Error()}
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Unavailable, err.Error()}
}

// isGRPC reports whether a content type means gRPC with protobuf.
func isGRPC(t string) bool {
	rest, ok := strings.CutPrefix(t, contentType)
	return ok && (rest == "" || rest[0] == ';' || rest == "+proto" || strings.HasPrefix(rest, "+proto;"))
}

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
