package local

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/app"
	loads "github.com/tare-mesh/tare/internal/load"
	expect "github.com/tare-mesh/tare/internal/load/check"
)

// request is a request of the load, as a probe sends it.
type request struct {
	name   string // the one of the load, or method and path
	url    *url.URL
	load   loads.Profile // of its target
	method string
	body   []byte
	header http.Header // Host included
	echoes bool        // a message over WebSocket comes back
}

// requestsOf are the requests of the probes, in the order of the load's targets. A load of more targets has some of them.
func requestsOf(p loads.Profile) ([]request, error) {
	all := make([]request, probes)
	for i := range all {
		target := i % len(p.Targets)
		if n := len(p.Targets); n > probes {
			target = i * n / probes
		}
		r, err := requestOf(&p, target)
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", p.Targets[target], err)
		}
		all[i] = r
	}
	return all, nil
}

// requestOf is the request to a target of p.
func requestOf(p *loads.Profile, target int) (request, error) {
	r := request{load: p.ForTarget(target), header: http.Header{}}
	var err error
	if r.url, err = url.Parse(p.Targets[target]); err != nil {
		return r, err
	}
	for _, line := range r.load.Headers {
		name, value, _ := strings.Cut(line, ":")
		r.header.Set(name, strings.TrimSpace(value))
	}
	if r.body = r.load.Body; r.body == nil {
		r.body = make([]byte, r.load.RequestSize)
	}
	if r.method = r.load.Method; r.method == "" {
		if r.method = http.MethodGet; len(r.body) > 0 {
			r.method = http.MethodPost
		}
	}
	if r.name = r.method + " " + r.url.Path; target < len(p.Calls) {
		r.name = cmp.Or(p.Calls[target].Name, r.name)
	}
	return r, nil
}

// send sends the request over HTTP, each time on a connection of its own, and checks a successful answer.
func (r *request) send(ctx context.Context, client http.Client) (a check.Answer, err error) {
	out, err := r.http(ctx)
	if err != nil {
		return a, err
	}
	resp, err := client.Do(out)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	want := expect.New(&r.load)
	content, sum := want.NewContent(), sha256.New()
	var start strings.Builder
	size, err := io.Copy(io.MultiWriter(sum, adder{&content}, &limitWriter{&start, 200}), resp.Body)
	if err != nil {
		return a, fmt.Errorf("read the answer: %w", err)
	}
	if !r.load.Success()[resp.StatusCode] {
		return check.Answer{Status: fmt.Sprint(resp.StatusCode)}, fmt.Errorf("status %s, %q", resp.Status, strings.Join(strings.Fields(start.String()), " "))
	}
	switch failure := want.Check(resp.StatusCode, size, &content); failure {
	case loads.FailureNone:
	case loads.FailureWrongSize:
		return a, fmt.Errorf("%d bytes", size)
	default:
		return a, errors.New(failure.String())
	}
	kind := resp.Header.Get("Content-Type")
	return check.Answer{Status: fmt.Sprint(resp.StatusCode), Bytes: &size, ContentType: &kind, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// http is the request as the load engine sends it, and with the mark of a probe.
func (r *request) http(ctx context.Context) (*http.Request, error) {
	var body io.Reader = http.NoBody
	if len(r.body) > 0 {
		body = bytes.NewReader(r.body)
	}
	out, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), body)
	if err != nil {
		return nil, err
	}
	if out.Header.Set("User-Agent", "tare"); len(r.body) > 0 {
		out.Header.Set("Content-Type", "application/octet-stream")
	}
	maps.Copy(out.Header, r.header)
	out.Host = out.Header.Get("Host") // empty: the host of the URL
	out.Header.Del("Host")
	out.Header.Set(app.AloneHeader, "1")
	return out, nil
}

// limitWriter keeps the first bytes and discards the rest.
type limitWriter struct {
	to   *strings.Builder
	left int
}

func (l *limitWriter) Write(b []byte) (int, error) {
	keep := b[:min(len(b), l.left)]
	l.left -= len(keep)
	l.to.Write(keep)
	return len(b), nil
}

// adder writes to the checked part of an answer.
type adder struct{ to *expect.Content }

func (a adder) Write(b []byte) (int, error) {
	a.to.Add(b)
	return len(b), nil
}
