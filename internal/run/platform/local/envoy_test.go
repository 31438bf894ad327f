package local

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/test/must"
)

func TestEnvoyThatExits(t *testing.T) {
	realEnvoy(t)
	m := load(t, "envoy-plaintext")
	local := *m.Local
	local.Sidecar.Config = "static_resources: {listners: []}\n"
	m.Local = &local
	_, spec, err := deploy(t, Options{}, m)
	var exit *proc.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("got %v", err)
	}
	must.Contain(t, err.Error(), "echo-0/sidecar is gone", "exit status 1", "listners", exit.Command)
	must.Contain(t, hint.Of(err), filepath.Join(spec.Provenance, "echo-0-sidecar.log"))
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("runtime directories are left: %v", left)
	}
}

func TestEnvoyThatDies(t *testing.T) {
	realEnvoy(t)
	d := mustDeploy(t, Options{}, load(t, "envoy-plaintext"))
	for _, p := range d.processes.started {
		if p.task.ID == "load/sidecar" {
			must.OK(t, p.Stop(t.Context(), time.Minute))
		}
	}
	eventually(t, "the deployment is broken", func() bool { return d.processes.Err() != nil })
	must.Contain(t, d.processes.Err().Error(), "load/sidecar is gone")
}

func TestBypassedDataPlane(t *testing.T) {
	realEnvoy(t)
	for name, unit := range map[string]string{"envoy": "requests", "envoy-tcp": "connections"} {
		t.Run(name, func(t *testing.T) {
			d := mustDeploy(t, Options{}, load(t, name))
			d.layout.entry = []string{rootURL(d.layout.pods["echo"][0].app)}
			// The nonces shook hands on the connection that the probes would have reused.
			wantFailed(t, verdict(t, d), unit+" into the sidecar of echo", unit+" from the sidecar of load to echo")
		})
	}
}

func TestBypassInTheMiddle(t *testing.T) {
	realEnvoy(t)
	direct := ""
	o := Options{edit: func(i *app.Instance) {
		if i.Name == "echo" {
			i.Calls[0].URLs = []string{direct}
		}
	}}
	elsewhere := mustDeploy(t, Options{}, load(t, "none"))
	direct = elsewhere.layout.entry[0]
	d := mustDeploy(t, o, load(t, "envoy-plaintext"), "back")
	wantFailed(t, verdict(t, d), "requests from the sidecar of echo to back", "requests into the sidecar of back",
		"requests at the application back")
}

// Its definition has no counters of handshakes, so that the connections of tare alone show it.
func TestPlaintextThatClaimsMTLS(t *testing.T) {
	realEnvoy(t)
	m := load(t, "envoy-plaintext")
	m.Provides.MTLS = true
	wantFailed(t, verdict(t, mustDeploy(t, Options{}, m)), "identity of echo-0", "echo-0 refuses plain text")
}

func TestMTLSWithoutAuthorization(t *testing.T) {
	realEnvoy(t)
	m := load(t, "envoy")
	local := *m.Local
	local.Sidecar.Config = strings.ReplaceAll(local.Sidecar.Config, "- {san_type: URI, matcher: {exact: {{json .}}}}", `- {san_type: URI, matcher: {prefix: "spiffe://"}}`)
	m.Local = &local
	wantFailed(t, verdict(t, mustDeploy(t, Options{}, m)), "echo-0 refuses connections as an outside client")
}
