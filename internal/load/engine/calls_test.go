package engine

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// Each request of a load has its own method, headers and body, in proportion to its weight.
func TestCallsDiffer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ engine, protocol string }{
		{load.NativeEngine(), load.ProtocolHTTP1}, {load.EnginePortable, load.ProtocolHTTP1}, {load.NativeEngine(), load.ProtocolHTTP2},
	} {
		if test.protocol == load.ProtocolHTTP2 && load.NativeEngine() == load.EnginePortable {
			continue
		}
		t.Run(test.engine+"/"+test.protocol, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			seen := map[string]int64{}
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				seen[fmt.Sprintf("%s %s %s%s %q", r.Method, r.URL.Path, r.Header.Get("X-All"), r.Header.Get("X-One"), body)]++
				mu.Unlock()
				if r.Method == http.MethodDelete {
					w.WriteHeader(http.StatusForbidden)
				}
			}))
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetHTTP1(true)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Start()
			t.Cleanup(s.Close)
			p := on(profile(s.URL+"/a", s.URL+"/a", s.URL+"/b", s.URL+"/c"), test.engine)
			p.Protocol, p.ExpectSize, p.Warmup, p.Tail, p.Timeout, p.Drain = test.protocol, -1, 0, 0, 20*time.Second, 20*time.Second
			p.Headers, p.Weights, p.Requests, p.Measure, p.Rate = []string{"X-All: all"}, []int{3, 1, 1, 1}, 60, time.Minute, 300
			p.Calls = []load.Call{{}, {Method: http.MethodPost, Body: []byte("one")}, {Method: http.MethodHead, Headers: []string{"X-One: 1"}}, {Name: "gone", Method: http.MethodDelete}}
			r := mustRun(t, p)
			want := map[string]int64{`GET /a all ""`: 30, `POST /a all "one"`: 10, `HEAD /b all1 ""`: 10, `DELETE /c all ""`: 10}
			if fmt.Sprint(seen) != fmt.Sprint(want) {
				t.Errorf("server: %v\nwant    %v", seen, want)
			}
			counts := map[string][2]int64{}
			for name, route := range r.Routes {
				counts[name] = [2]int64{route.Requests, route.Failed}
			}
			if fmt.Sprint(counts) != "map[GET /a:[30 0] HEAD /b:[10 0] POST /a:[10 0] gone:[0 10]]" {
				t.Errorf("routes: %v", counts)
			}
		})
	}
}
