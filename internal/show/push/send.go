// Package push sends time series to a database, by Prometheus remote write or OTLP.
package push

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/tare-mesh/tare/internal/show/series"
)

// Limits of a push.
const (
	mostPoints     = 5000             // of a request
	requestTimeout = 15 * time.Second // of one request
	mostTime       = 2 * time.Minute  // of all
	mostAnswer     = 64 << 10         // bytes of an answer
	firstWait      = 500 * time.Millisecond
	longestWait    = 10 * time.Second
	mostRetries    = 5
)

// sender sends one part of the series.
type sender func(ctx context.Context, part []series.Series) error

var senders = map[series.Protocol]func(*series.Target, *http.Client) (sender, error){series.RemoteWrite: remoteWriter, series.OTLP: otlpExporter}

// Send sends series. Some may have arrived before an error.
func Send(outer context.Context, t *series.Target, all []series.Series) error {
	ctx, cancel := context.WithTimeout(outer, mostTime)
	defer cancel()
	send, err := senders[t.Protocol](t, client(t))
	if err != nil {
		return t.Problem(err)
	}
	for _, part := range series.Batches(all, mostPoints) {
		if err := send(ctx, part); err != nil {
			if canceled := outer.Err(); canceled != nil {
				return canceled
			}
			if ctx.Err() != nil {
				err = fmt.Errorf("not complete after %v: %w", mostTime, err)
			}
			return t.Problem(err)
		}
	}
	return nil
}

// client sends the headers of the target, follows no redirect, and bounds answers.
func client(t *series.Target) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = mostAnswer
	return &http.Client{
		Timeout:       requestTimeout,
		Transport:     headers{t.Header, t.URL.RawQuery, transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// headers adds headers and the query to each request.
type headers struct {
	add   http.Header
	query string
	to    http.RoundTripper
}

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, h.add)
	r.URL.RawQuery = h.query // the exporter of OTLP leaves it out
	answer, err := h.to.RoundTrip(r)
	if err == nil {
		answer.Body = bounded{io.LimitReader(answer.Body, mostAnswer), answer.Body}
	}
	return answer, err
}

type bounded struct {
	io.Reader
	io.Closer
}
