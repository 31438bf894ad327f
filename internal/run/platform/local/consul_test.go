package local

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
)

func realConsul(t *testing.T) mesh.Definition {
	t.Helper()
	if testing.Short() || os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("starts a real Consul, which takes twelve minutes to build: make e2e-all runs it")
	}
	return load(t, "consul")
}

// changed is the mesh with another configuration of its control plane.
func changed(t *testing.T, m mesh.Definition, from, to string) mesh.Definition {
	t.Helper()
	local := *m.Local
	local.Control = append([]mesh.Control(nil), local.Control...)
	if !strings.Contains(local.Control[0].Config, from) {
		t.Fatalf("the configuration has no %s", from)
	}
	local.Control[0].Config = strings.ReplaceAll(local.Control[0].Config, from, to)
	m.Local = &local
	return m
}

// Every protocol passes Consul's sidecars, and their counters verify it.
func TestConsulProtocols(t *testing.T) {
	m := realConsul(t)
	for _, protocol := range app.Protocols() {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			top := app.Topology{Name: "two", Entry: "front", Services: []app.Service{
				{Name: "front", Calls: []app.Call{{Service: "back"}}}, {Name: "back", Replicas: 2}}}
			entry := "front"
			if protocol == app.TCP {
				top, entry = app.Topology{Name: "one", Entry: "echo", Services: []app.Service{{Name: "echo"}}}, "echo"
			}
			d := must.Get(deployTopology(t, m, top, protocol))(t)
			seen := map[string]bool{}
			for _, c := range platformtest.Verified(t, d.verifier.Verify) {
				seen[c.Name] = true
				t.Logf("%s: %s", c.Name, c.Detail)
			}
			unit := "requests"
			if protocol == app.TCP {
				unit = "connections"
			}
			for _, want := range []string{
				unit + " into the sidecar of " + entry, "TLS handshakes into the sidecar of " + entry,
				"identity of " + entry + "-0", entry + "-0 refuses connections as an outside client", entry + "-0 denies a known outside-client",
				"version of consul", "version of the sidecar of load",
			} {
				if !seen[want] {
					t.Errorf("no check %q", want)
				}
			}
		})
	}
}

// The control plane has its own plane, kept files contain no secret, and removal leaves nothing.
func TestConsulKeepsNoSecret(t *testing.T) {
	m := realConsul(t)
	d, spec, err := deploy(t, Options{}, m)
	must.OK(t, err)
	platformtest.Verified(t, d.verifier.Verify)
	tasks := must.Get(d.Tasks(t.Context()))(t)
	planes := map[string]metric.Plane{}
	for _, task := range tasks {
		planes[task.ID] = task.Plane
	}
	if planes["consul/control"] != metric.Control || planes["echo-0/sidecar"] != metric.Data {
		t.Errorf("planes are %v", planes)
	}
	private(t, d.workspace.runtime.path)
	must.OK(t, d.Remove(t.Context()))
	if _, err := os.Stat(d.workspace.runtime.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the runtime directory is left: %v", err)
	}
	if len(d.workspace.secrets.values) != 3 {
		t.Errorf("%d secrets, want one to manage and one a pod", len(d.workspace.secrets.values))
	}
	files := must.Get(filepath.Glob(filepath.Join(spec.Provenance, "*")))(t)
	redacted := 0
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		for name, secret := range d.workspace.secrets.values {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s has the secret %s in it", file, name)
			}
		}
		if bytes.Contains(text, []byte("PRIVATE KEY")) {
			t.Errorf("%s has a private key in it", file)
		}
		if bytes.Contains(text, []byte("SECRET-")) {
			redacted++
		}
	}
	if redacted < 4 { // the agent's configuration, both sidecars', the commands
		t.Errorf("%d files have the name of a secret, of %q", redacted, files)
	}
}

// private checks that only this user can read the files of a directory.
func private(t *testing.T, dir string) {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v, %v", dir, info.Mode(), err)
	}
	files := must.Get(os.ReadDir(dir))(t)
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}
}

// With intentions that allow everything, an outside client is admitted, and the checks fail.
func TestConsulThatAllowsByDefault(t *testing.T) {
	m := changed(t, realConsul(t), `"default_intention_policy": "deny"`, `"default_intention_policy": "allow"`)
	wantFailed(t, verdict(t, mustDeploy(t, Options{}, m)), "echo-0 refuses connections as an outside client", "echo-0 denies a known outside-client")
}

// If the topology's call is denied, no request arrives.
func TestConsulThatDeniesTheCaller(t *testing.T) {
	m := changed(t, realConsul(t), `"action": "allow"`, `"action": "deny"`)
	failed := verdict(t, mustDeploy(t, Options{}, m))
	if c := failed["answers of echo"]; !strings.Contains(c.Detail, "403") {
		t.Errorf("answers of echo: %s", c.Detail)
	}
	if c := failed["requests at the application echo"]; !strings.Contains(c.Detail, "increased by 0") {
		t.Errorf("requests at the application echo: %s", c.Detail)
	}
}

// Traffic continues without a control plane, ended or suspended. After its return everything
// works.
func TestConsulThatIsKilled(t *testing.T) {
	d := mustDeploy(t, Options{}, realConsul(t), "back")
	platformtest.Verified(t, d.verifier.Verify)
	var victim platform.Victim
	for _, v := range d.faults.Victims() {
		if v.Plane == metric.Control {
			victim = v
		}
	}
	if victim.ID != "consul/control" || !victim.Up {
		t.Fatalf("the control plane is no victim: %+v", d.faults.Victims())
	}
	served := func(when string) {
		t.Helper()
		if c := probed(t, d); !c.OK {
			t.Errorf("%s: %s", when, c.Detail)
		}
	}
	must.OK(t, d.faults.Freeze(t.Context(), victim.ID, true))
	served("while the control plane is stopped")
	must.OK(t, d.faults.Freeze(t.Context(), victim.ID, false))
	must.OK(t, d.faults.End(t.Context(), victim.ID, 0))
	served("after the control plane was killed")
	if err := d.processes.Err(); err != nil {
		t.Errorf("a killed control plane breaks the deployment: %v", err)
	}
	if ended := d.faults.Ended(); len(ended) != 1 || ended[0].Plane != metric.Control || ended[0].CPU <= 0 {
		t.Errorf("what ended is accounted for as %+v", ended)
	}
	must.OK(t, d.faults.Restart(t.Context(), victim.ID))
	// A single restarted agent may report no healthy service for some seconds, until its own checks.
	arrives := func(when string) {
		t.Helper()
		start := time.Now()
		within(t, time.Minute, "requests arrive "+when, func() bool { return probed(t, d).OK })
		t.Logf("requests arrive %v %s", time.Since(start), when)
	}
	arrives("after the control plane came back")
	// A restarted sidecar gets its configuration from the restarted control plane.
	must.OK(t, d.faults.End(t.Context(), "back-0/sidecar", 0))
	must.OK(t, d.faults.Restart(t.Context(), "back-0/sidecar"))
	arrives("after the sidecar of back came back")
	// Consul's health checks may take a service back once more before it stays.
	within(t, time.Minute, "every check passes", func() bool {
		checks, err := platformtest.Checks(d.verifier.Verify(t.Context(), platform.Probe{}))
		return err == nil && !slices.ContainsFunc(checks, func(c check.Check) bool { return !c.OK })
	})
}

// A control plane that exits by itself ends the trial, with its output.
func TestConsulThatExits(t *testing.T) {
	m := changed(t, realConsul(t), `"datacenter": "dc1"`, `"datacenter": "dc 1"`)
	_, spec, err := deploy(t, Options{}, m)
	if err == nil || !strings.Contains(err.Error(), "consul/control is gone") || !strings.Contains(err.Error(), "datacenter") {
		t.Fatalf("got %v", err)
	}
	must.Contain(t, hint.Of(err), filepath.Join(spec.Provenance, "consul-control.log"))
}

// After a change of its root, a mesh's certificates are read with the new one. Handshakes are counted.
func TestSerialAfterANewRoot(t *testing.T) {
	d := mustDeploy(t, Options{}, load(t, "reference-mtls"))
	c := &changer{layout: d.layout, workspace: d.workspace, control: d.control, proxies: d.proxies, verifier: d.verifier}
	endpoint := c.Endpoints()[0]
	before := must.Get(c.Serial(t.Context(), endpoint))(t)
	stale := c.clients["echo"].Clone()
	stale.VerifyConnection = func(tls.ConnectionState) error { return x509.UnknownAuthorityError{} }
	c.clients["echo"] = stale
	if after := must.Get(c.Serial(t.Context(), endpoint))(t); after != before || c.clients["echo"] == stale {
		t.Errorf("serial number %s, want %s, and the old root is still in use: %v", after, before, c.clients["echo"] == stale)
	}
	if n := d.layout.pods["echo"][0].handshakes.Load(); n != 2 {
		t.Errorf("%d handshakes counted, want 2", n)
	}
}

// A missing Consul is an error before anything starts.
func TestConsulMissing(t *testing.T) {
	o := Options{AgentPath: agent, FetchProgram: func(_ context.Context, name string) (string, string, error) {
		if name == "consul" {
			return "", "", fs.ErrNotExist
		}
		return "/bin/true", "1", nil
	}}
	if _, err := New(o).Prepare(t.Context(), []mesh.Definition{load(t, "consul")}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "prepare mesh consul: find consul") {
		t.Errorf("got %v", err)
	}
}
