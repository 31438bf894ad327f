package local

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// FuzzAdmin: whatever a sidecar answers, ports are ports and counters are counts.
func FuzzAdmin(f *testing.F) {
	f.Add([]byte(`{"stats":[{"name":"cluster.echo.upstream_rq_total","value":20},{"name":"server.hash","value":18446744073709551615}]}`))
	f.Add([]byte(`{"listener_statuses":[{"name":"inbound","local_address":{"socket_address":{"address":"127.0.0.2","port_value":15006}}}]}`))
	f.Add([]byte(`{"stats":[{"name":"a","value":1},{"name":"a","value":2},{"histograms":{}}]}`))
	f.Add([]byte(`{"stats":[{"name":"a","value":1.5}]}`))
	f.Add([]byte(`{"listener_statuses":[{"local_address":{"pipe":{"path":"/x"}}}]}`))
	f.Add([]byte("404\n"))
	var answer []byte
	sidecar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) }))
	f.Cleanup(sidecar.Close)
	f.Fuzz(func(t *testing.T, body []byte) {
		answer = body
		a := &admin{base: sidecar.URL}
		ports, err := a.ports(t.Context())
		for name, port := range ports {
			if err != nil || port < 0 || port > 65535 {
				t.Errorf("listener %q has port %d, %v", name, port, err)
			}
		}
		counters, err := a.counters(t.Context(), nil)
		for name, n := range counters {
			if err != nil || n < 0 {
				t.Errorf("counter %q is %d, %v", name, n, err)
			}
		}
		_, _ = a.gauges(t.Context())
	})
}

// FuzzField: the version in an answer of a control plane is a text, or an error.
func FuzzField(f *testing.F) {
	f.Add([]byte(`{"Config":{"Version":"1.22.0"}}`), "Config.Version")
	f.Add([]byte(`[1]`), "")
	f.Add([]byte(`{"":{"":"x"}}`), ".")
	f.Fuzz(func(t *testing.T, body []byte, path string) {
		if text, err := field(body, path); err != nil && text != "" {
			t.Errorf("%q beside %v", text, err)
		}
	})
}
