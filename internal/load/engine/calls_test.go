package engine

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/tare-mesh/tare/internal/load"
)

// Each request of a load has its own method, headers and body, in proportion to its weight.
func TestCallsDiffer(t *testing.T) {
	t.Parallel()
	eachHTTP(t, func(t *testing.T, p load.Profile, serve func(http.HandlerFunc) string) {
		var mu sync.Mutex
		seen := map[string]int64{}
		url := serve(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			seen[fmt.Sprintf("%s %s %s%s %q", r.Method, r.URL.Path, r.Header.Get("X-All"), r.Header.Get("X-One"), body)]++
			mu.Unlock()
			if r.Method == http.MethodDelete {
				w.WriteHeader(http.StatusForbidden)
			}
		})
		p.Targets, p.Connections = []string{url + "/a", url + "/a", url + "/b", url + "/c"}, 8
		p.Headers, p.Weights, p.Requests, p.Rate = []string{"X-All: all"}, []int{3, 1, 1, 1}, 60, 300
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
