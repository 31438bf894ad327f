package main

import (
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tare-mesh/tare/internal/base/httpserver"
	"github.com/tare-mesh/tare/test/must"
)

const token = "0123456789abcdef"

// Services get objects of their own, once the namespace exists, and each change the address of its number.
func TestObjects(t *testing.T) {
	var mu sync.Mutex
	made := map[string]string{} // endpoints by name
	refused := 0
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var o struct {
			Metadata  struct{ Name string }
			Endpoints []struct{ Addresses []string }
		}
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Method != http.MethodGet && json.NewDecoder(r.Body).Decode(&o) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if refused++; refused == 1 {
			w.WriteHeader(http.StatusForbidden) // as without its namespace
			return
		}
		if strings.Contains(r.URL.Path, "endpointslices") {
			name := o.Metadata.Name
			if r.Method == http.MethodPatch {
				name = r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
			}
			made[name] = o.Endpoints[0].Addresses[0]
		}
	}))
	defer api.Close()
	w := must.Get(newWriter(token, api.URL, "secret"))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = w.Serve(t.Context(), l) }()
	over := &http.Transport{}
	t.Cleanup(over.CloseIdleConnections)
	call := func(method, path string, body any) error {
		return httpserver.Call(t.Context(), over, token, method, "http://"+l.Addr().String()+path, body, 1000, nil)
	}
	if err := call(http.MethodPut, "/background/change", 1); err == nil {
		t.Error("a change without services is accepted")
	}
	must.OK(t, call(http.MethodPut, "/background", 2))
	must.OK(t, call(http.MethodGet, "/ready", nil))
	must.OK(t, call(http.MethodPut, "/background/change", 4))
	mu.Lock()
	defer mu.Unlock()
	if want := map[string]string{"background-1": "198.18.0.0", "background-2": "198.18.0.4"}; !maps.Equal(made, want) {
		t.Errorf("got %v of %v, want %v", made, slices.Sorted(maps.Keys(made)), want)
	}
}
