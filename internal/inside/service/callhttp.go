package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tare-mesh/tare/internal/base/dial"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

const (
	// maxReason bounds the part of a failed response in an error, bytes.
	maxReason = 200
	// maxRedirects is the redirect limit of one call, the same as in net/http.
	maxRedirects = 10
)

// transports send requests of one HTTP version.
type transports struct{ kept, single *http.Transport }

// newTransports returns transports that keep all open connections: closing some
// would add handshakes to the measurement.
func newTransports(version int, from dial.Func) transports {
	var protocols http.Protocols
	protocols.SetHTTP1(version == 1)
	protocols.SetUnencryptedHTTP2(version == 2)
	return transports{
		kept: &http.Transport{
			DialContext:         from,
			MaxIdleConns:        0, // no limit
			MaxIdleConnsPerHost: 1 << 16,
			DisableCompression:  true,
			Protocols:           &protocols,
		},
		single: &http.Transport{DialContext: from, DisableKeepAlives: true, DisableCompression: true, Protocols: &protocols},
	}
}

// httpWay calls one URL. Each call copies a prepared request.
type httpWay struct {
	template *http.Request
	header   bool // the template has headers, which must not be shared
	follow   bool
	transports
}

func newHTTPWay(raw, host string, o app.CallOptions, t transports) (*httpWay, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	if o.Path != "" {
		// Set as is: resolving it would parse "//" as a host.
		u.Path, u.RawQuery, _ = strings.Cut(o.Path, "?")
	}
	w := &httpWay{follow: o.FollowRedirects, header: len(o.Headers) > 0, transports: t}
	w.template = &http.Request{Method: http.MethodGet, URL: u, Host: cmp.Or(host, u.Host), Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	for name, value := range o.Headers {
		w.template.Header.Set(name, value)
	}
	return w, nil
}

func (w *httpWay) do(ctx context.Context, size int64, in incoming, alone bool) (sent int, err error) {
	client := w.kept
	if alone {
		client = w.single
	}
	r := w.template.WithContext(ctx)
	if pairs := in.pairs(); len(pairs) > 0 || w.header || size > 0 {
		r.Header = r.Header.Clone()
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Set(pairs[i], pairs[i+1])
		}
	}
	if size > 0 {
		r.Method = http.MethodPost
		r.Header["Content-Type"] = contentType
		r.Body, r.ContentLength = io.NopCloser(&filler{size}), size
	}
	for range maxRedirects {
		sent++
		to, err := w.send(client, r)
		if err != nil || to == nil {
			return sent, err
		}
		next := w.template.WithContext(ctx)
		if next.URL, next.Header = to, r.Header; to.Host != w.template.URL.Host {
			next.Host = to.Host
		}
		r = next
	}
	return sent, fmt.Errorf("sent elsewhere %d times", maxRedirects)
}

// send sends one request and reads the whole response, so that the connection is
// reused. It returns the target of a redirect to follow.
func (w *httpWay) send(client http.RoundTripper, r *http.Request) (*url.URL, error) {
	resp, err := client.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		return nil, nil
	}
	reason, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	_, _ = io.Copy(io.Discard, resp.Body)
	if location := resp.Header.Get("Location"); w.follow && location != "" && resp.StatusCode/100 == 3 {
		to, err := r.URL.Parse(location)
		if err != nil {
			return nil, fmt.Errorf("redirect: %w", err)
		}
		return to, nil
	}
	return nil, errors.New(strings.TrimSpace(resp.Status + ": " + strings.TrimSpace(string(reason))))
}

// filler is a body of equal bytes.
type filler struct{ left int64 }

func (f *filler) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, fill[:min(f.left, chunk)])
	f.left -= int64(n)
	return n, nil
}
