package engine

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/must"
)

// envoyConfig is a listener with mutual TLS that answers by itself, over HTTP/2 or
// HTTP/1.1 as the client chooses. The arguments are a directory and the protocols.
const envoyConfig = `
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
static_resources:
  listeners:
  - name: tls
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          require_client_certificate: true
          common_tls_context:
            alpn_protocols: [%[2]s]
            tls_certificates: [{certificate_chain: {filename: "%[1]s/server.pem"}, private_key: {filename: "%[1]s/server.key"}}]
            validation_context: {trusted_ca: {filename: "%[1]s/ca.pem"}}
      filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: tls
          codec_type: AUTO
          http_filters: [{name: envoy.filters.http.router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{match: {prefix: "/"}, direct_response: {status: 200, body: {inline_string: "hello"}}}]
`

// startEnvoy runs the real proxy with envoyConfig and returns its listener's address.
func startEnvoy(t *testing.T, a *authority, protocols string) string {
	t.Helper()
	return startEnvoyWith(t, fmt.Sprintf(envoyConfig, a.dir, protocols))
}

// startEnvoyWith runs the real proxy with a configuration of one listener and returns its address.
func startEnvoyWith(t *testing.T, config string) string {
	t.Helper()
	found := must.Get(fetch.Envoy().Find(t.Context(), fetch.Options{}))(t)
	admin := filepath.Join(t.TempDir(), "admin")
	var log bytes.Buffer
	cmd := exec.Command(found.Path, "--config-yaml", config, "--disable-hot-restart",
		"--admin-address-path", admin, "--concurrency", "1", "-l", "warning")
	cmd.Stderr = &log
	// Envoy ends with the thread that started it, and the engine ends its threads.
	started, done := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		started <- cmd.Start()
		<-done
	}()
	must.OK(t, <-started)
	t.Cleanup(func() {
		close(done)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	var listeners struct {
		Statuses []struct {
			Address struct {
				Socket struct {
					Port int `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("envoy does not listen")
		}
		address, err := os.ReadFile(admin)
		if err != nil {
			continue
		}
		answer, err := http.Get("http://" + string(address) + "/listeners?format=json")
		if err != nil {
			continue
		}
		err = json.NewDecoder(answer.Body).Decode(&listeners)
		_ = answer.Body.Close()
		if err == nil && len(listeners.Statuses) == 1 && listeners.Statuses[0].Address.Socket.Port > 0 {
			return fmt.Sprintf("127.0.0.1:%d", listeners.Statuses[0].Address.Socket.Port)
		}
	}
}

// TestAgainstEnvoyOverTLS runs against Envoy with mutual TLS, over both protocols,
// with and without keep-alive.
func TestAgainstEnvoyOverTLS(t *testing.T) {
	long(t)
	a := serverAuthority(t)
	a.issue(t, "client", time.Now().Add(time.Hour))
	both, one := startEnvoy(t, a, "h2, http/1.1"), startEnvoy(t, a, "http/1.1")
	for _, test := range []struct {
		address, protocol, spoken string
		fresh                     bool
	}{
		{both, load.ProtocolHTTP1, load.ProtocolHTTP1, false},
		{both, load.ProtocolHTTP1, load.ProtocolHTTP1, true},
		{both, load.ProtocolHTTP2, load.ProtocolHTTP2, false},
		{both, load.ProtocolAuto, load.ProtocolHTTP2, false},
		{one, load.ProtocolAuto, load.ProtocolHTTP1, false},
		{one, load.ProtocolHTTP2, "", false},
	} {
		for _, rate := range []float64{200, 0} {
			p := profileH2("https://" + test.address + "/")
			p.TLS = &load.TLS{CAFile: a.file("ca.pem"), CertFile: a.file("client.pem"), KeyFile: a.file("client.key")}
			p.Protocol, p.NoKeepAlive, p.Rate, p.ExpectSize = test.protocol, test.fresh, rate, 5
			if test.spoken == "" {
				p.Requests, p.Measure = 10, time.Minute
			}
			r := mustRun(t, p)
			switch {
			case test.spoken == "":
				if r.Requests != 10 || r.Errors["alpn mismatch"] != 10 {
					t.Errorf("%s, rate %v: %v", test.protocol, rate, r.Errors)
				}
			case r.Classes[load.OK] != r.Requests || r.Requests == 0 || r.Protocol != test.spoken,
				rate > 0 && r.Requests != 100, !strings.HasPrefix(r.TLS, tls.VersionName(tls.VersionTLS13)),
				test.fresh && r.TLSResumed == 0:
				t.Errorf("%s, rate %v: %+v", test.protocol, rate, r)
			}
		}
	}
}
