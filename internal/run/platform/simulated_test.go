package platform

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

// The simulated proxies are awaited until all have the services, or until the reason why they cannot. Their clock is an hour ahead here.
func TestSimulatedProxies(t *testing.T) {
	const token, ahead = "a token of the run", time.Hour
	var polls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		now := time.Now().Add(ahead).UnixNano()
		answers := map[string]any{"/arrivals": []map[string]any{{"number": 7, "atUs": []int{1, 2, 3}}}, "/clock": map[string]int64{"received": now, "sent": now}}
		n := polls.Add(1)
		answers["/proxies"] = map[string]any{"proxies": 3, "synced": min(n, 3), "clusters": max(0, min(n-3, 2)), "error": "too early"}
		_ = json.NewEncoder(w).Encode(answers[r.URL.Path])
	}))
	defer server.Close()
	s := SimulatedProxies{URL: server.URL, Token: token}
	must.OK(t, s.Await(t.Context(), 3, 2, func() error { return nil }, nil))
	if n := polls.Load(); n != 5 {
		t.Errorf("%d polls, and the fifth answer has all", n)
	}
	received := must.Get(s.Received(t.Context()))(t)
	if received.Proxies != 3 || len(received.Arrivals) != 1 || received.Arrivals[0].Number != 7 {
		t.Errorf("received %+v", received)
	}
	got, unsure, err := s.Clock(t.Context())
	if err != nil || (got-ahead).Abs() > unsure {
		t.Errorf("the clock is %v ahead, ±%v, %v", got, unsure, err)
	}
	gone := errors.New("the pod is gone")
	if err := s.Await(t.Context(), 4, 2, func() error {
		if polls.Add(1) > 12 {
			return gone
		}
		return nil
	}, nil); !errors.Is(err, gone) || !strings.HasPrefix(err.Error(), "start the simulated proxies: ") {
		t.Errorf("got %v", err)
	}
	if _, err := (SimulatedProxies{URL: server.URL, Token: "another"}).Received(t.Context()); err == nil {
		t.Error("read without the token")
	}
}

// piped accepts the connections that are dialled in this process.
type piped chan net.Conn

func (p piped) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (piped) Close() error   { return nil }
func (piped) Addr() net.Addr { return &net.UnixAddr{} }

// A control plane that configures a proxy every 700 ms is waited for. With one that stops after 12 of 100 the wait ends at its limit,
// and the message has their number and what to change. The progress is reported.
func TestSimulatedProxiesAreLate(t *testing.T) {
	for most, done := range map[int]bool{100: true, 12: false} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			accepted := make(piped)
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(map[string]any{"proxies": 100, "synced": min(int(time.Since(began)/(700*time.Millisecond)), most)})
			})}
			go func() { _ = server.Serve(accepted) }()
			defer server.Close()
			defer close(accepted)
			var lines []string
			err := SimulatedProxies{URL: "http://proxies", Log: "proxies.log", Dial: func(context.Context, string, string) (net.Conn, error) {
				client, end := net.Pipe()
				accepted <- end
				return client, nil
			}}.Await(t.Context(), 100, 0, func() error { return nil }, func(line string) { lines = append(lines, line) })
			if took := time.Since(began); (err == nil) != done || took > mesh.SimulatedLimit(100)+time.Second {
				t.Errorf("max %d: %v after %v", most, err, took)
			}
			if first := "14 of 100 simulated proxies have a configuration"; done && (len(lines) != 7 || lines[0] != first) {
				t.Errorf("progress %q, want 7 lines, the first %q", lines, first)
			}
			if done {
				return
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			must.Fail(t, err, "12 of 100 simulated proxies have a configuration")
			must.Contain(t, hint.Of(err), "PILOT_MAX_REQUESTS_PER_SECOND", "proxies.log")
		})
	}
}
