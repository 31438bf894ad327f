package push

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/show/series"
	"github.com/tare-mesh/tare/test/must"
)

var one = []series.Series{{Name: "tare_x", Labels: map[string]string{"run": "a"}, Points: []series.Point{{At: time.Unix(1000, 0), Value: 1}}}}

func to(t *testing.T, protocol series.Protocol, handle http.HandlerFunc) *series.Target {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	target := must.Get(series.ParseTarget(s.URL+"/api/v1/write?key=query-secret", protocol))(t)
	target.Header = http.Header{"Authorization": {"Bearer header-secret"}}
	return target
}

// A receiver that is busy is tried again, with the same headers and query.
func TestBusyReceiver(t *testing.T) {
	for _, protocol := range []series.Protocol{series.RemoteWrite, series.OTLP} {
		var calls, wrong atomic.Int32
		target := to(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer header-secret" || r.URL.RawQuery != "key=query-secret" {
				wrong.Add(1)
			}
			if calls.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		if err := Send(t.Context(), target, one); err != nil || calls.Load() != 2 || wrong.Load() != 0 {
			t.Errorf("%s: %v after %d calls, %d without the secrets", protocol, err, calls.Load(), wrong.Load())
		}
	}
}

// No message has a secret, even if the receiver repeats it, and known causes have a cure.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		status       int
		body, want   string
		cure, header string
	}{
		"bounds":   {http.StatusBadRequest, "out of bounds\x1b[31m", "out of bounds", "out_of_order_time_window", ""},
		"token":    {http.StatusUnauthorized, "wrong: header-secret of query-secret", "401 Unauthorized", "--push-header", ""},
		"redirect": {http.StatusFound, "", "302 Found", "redirects are not followed", "http://127.0.0.1:1/"},
		"endless":  {http.StatusBadRequest, strings.Repeat("x", 1<<20), "400 Bad Request", "", ""},
	} {
		for _, protocol := range []series.Protocol{series.RemoteWrite, series.OTLP} {
			calls := 0
			err := Send(t.Context(), to(t, protocol, func(w http.ResponseWriter, _ *http.Request) {
				calls++
				if c.header != "" {
					w.Header().Set("Location", c.header)
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}), one)
			if err == nil || calls != 1 {
				t.Errorf("%s, %s: %v after %d calls", name, protocol, err, calls)
				continue
			}
			text := err.Error()
			if !strings.Contains(text, c.want) || !strings.Contains(hint.Of(err), c.cure) || len(text) > 700 || strings.Contains(text, "secret") || strings.Contains(text, "\x1b") {
				t.Errorf("%s, %s: %q, hint %q", name, protocol, text, hint.Of(err))
			}
		}
	}
}

// An interrupt ends a push to a receiver that does not answer.
func TestInterrupted(t *testing.T) {
	for _, protocol := range []series.Protocol{series.RemoteWrite, series.OTLP} {
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		target := to(t, protocol, func(http.ResponseWriter, *http.Request) { cancel(); <-release })
		err := Send(ctx, target, one)
		close(release)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}
