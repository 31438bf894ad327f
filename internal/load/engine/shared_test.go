package engine

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// eachHTTP runs a test for each version of HTTP.
func eachHTTP(t *testing.T, do func(t *testing.T, p load.Profile, serve func(http.HandlerFunc) string)) {
	t.Helper()
	for _, protocol := range []string{load.ProtocolHTTP1, load.ProtocolHTTP2} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			p := load.Profile{Protocol: protocol, ExpectSize: -1, Timeout: time.Minute, Drain: time.Minute, Measure: time.Minute} // a busy machine is not a failure
			do(t, p, func(handle http.HandlerFunc) string {
				s := httptest.NewUnstartedServer(handle)
				s.Config.Protocols = new(http.Protocols)
				s.Config.Protocols.SetHTTP1(true)
				s.Config.Protocols.SetUnencryptedHTTP2(true)
				s.Start()
				t.Cleanup(s.Close)
				return s.URL
			})
		})
	}
}

// Many requests of one host share few connections. Over HTTP/2 all of them are decoded with one
// header table, whatever their order.
func TestRequestsShareConnections(t *testing.T) {
	t.Parallel()
	eachHTTP(t, func(t *testing.T, p load.Profile, serve func(http.HandlerFunc) string) {
		var mu sync.Mutex
		seen, connections := map[string]int{}, map[string]bool{}
		url := serve(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			connections[r.RemoteAddr] = true
			seen[fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL.Path, r.Host, r.Header.Get("X-Common"), body)+r.Header.Get("X-Own")]++
		})
		p.Headers = []string{"X-Common: all"}
		want := map[string]int{}
		host := strings.TrimPrefix(url, "http://")
		for i := range 40 {
			p.Targets = append(p.Targets, fmt.Sprintf("%s/%d", url, i))
			switch i % 3 {
			case 0:
				p.Calls = append(p.Calls, load.Call{})
				want[fmt.Sprintf("GET /%d %s all ", i, host)] = 10
			case 1:
				p.Calls = append(p.Calls, load.Call{Method: http.MethodPost, Body: []byte(strings.Repeat("x", i)), Headers: []string{"Host: other", fmt.Sprintf("X-Own: %d", i)}})
				want[fmt.Sprintf("POST /%d other all %s%d", i, strings.Repeat("x", i), i)] = 10
			case 2:
				p.Calls = append(p.Calls, load.Call{Method: http.MethodHead})
				want[fmt.Sprintf("HEAD /%d %s all ", i, host)] = 10
			}
		}
		p.Connections, p.Requests = 3, 400
		for _, p.Rate = range []float64{2000, 0} {
			mu.Lock()
			seen, connections = map[string]int{}, map[string]bool{}
			mu.Unlock()
			r := mustRun(t, p)
			mu.Lock()
			if r.Classes[load.OK] != 400 || len(connections) != 3 || fmt.Sprint(seen) != fmt.Sprint(want) {
				t.Errorf("rate %v: %v %v, %d connections\n%v\nwant\n%v", p.Rate, r.Classes, r.Errors, len(connections), seen, want)
			}
			mu.Unlock()
			if len(r.Routes) != 40 || r.Routes["HEAD /2"].Requests != 10 {
				t.Errorf("%+v", r.Routes)
			}
		}
	})
}
