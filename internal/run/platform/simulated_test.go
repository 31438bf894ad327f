package platform

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
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
	must.OK(t, s.Await(t.Context(), 3, 2, func() error { return nil }))
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
	}); !errors.Is(err, gone) || !strings.HasPrefix(err.Error(), "start the simulated proxies: ") {
		t.Errorf("got %v", err)
	}
	if _, err := (SimulatedProxies{URL: server.URL, Token: "another"}).Received(t.Context()); err == nil {
		t.Error("read without the token")
	}
}
