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
