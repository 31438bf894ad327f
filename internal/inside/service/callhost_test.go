package service

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/test/must"
)

// A callee receives one Host, whatever the address of the proxy that leads to it. A redirect to another server has its own.
func TestHostOfCalls(t *testing.T) {
	seen := make(chan string, 1)
	callee := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Host }))
	defer callee.Close()
	moved := httptest.NewServer(http.RedirectHandler(callee.URL+"/", http.StatusFound))
	defer moved.Close()
	for _, tc := range []struct {
		url, host, want string
	}{{callee.URL, "localhost", "localhost"}, {callee.URL, "", callee.Listener.Addr().String()}, {moved.URL, "localhost", callee.Listener.Addr().String()}} {
		caller := serve(t, app.Instance{Name: "a", Calls: []app.Upstream{{Service: "b", URLs: []string{tc.url}, Host: tc.host, CallOptions: app.CallOptions{FollowRedirects: true}}}})
		resp := must.Get(http.Get(caller.URL))(t)
		resp.Body.Close()
		if got := <-seen; resp.StatusCode != http.StatusOK || got != tc.want {
			t.Errorf("%+v: status %s, Host %q", tc, resp.Status, got)
		}
	}
}
