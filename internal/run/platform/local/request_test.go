package local

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	loads "github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/http1"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// proxiesOf are meshes of each kind of proxy: none, the reference proxy and Envoy.
func proxiesOf(t *testing.T) []string {
	if testing.Short() {
		t.Attr("short", "without Envoy")
		return []string{"none", "reference-mtls"}
	}
	return []string{"none", "reference-mtls", "envoy"}
}

// A program that allows one Host is ready, verified and called by that Host alone, without a sidecar and behind one.
func TestHostIsTheSameBehindEachProxy(t *testing.T) {
	t.Parallel()
	for file, allowed := range map[string]string{"": "localhost", "shop.example": "shop.example"} {
		one := own(t, "host", allowed)
		one.Ready = "/healthz"
		for _, name := range proxiesOf(t) {
			spec := specOf(t, name, app.Service{Name: "app", Own: one})
			spec.LoadHost = file
			d, err := deployOwn(t, Options{}, spec)
			if err != nil {
				t.Fatalf("%s, Host %q: %v", name, file, err)
			}
			probe := spec.Completed(platform.Probe{}, d.Entry())
			probe.Load.Headers = []string{"Host: " + d.Host}
			if file != "" {
				probe.Load.Headers = append(probe.Load.Headers, "Host: "+file)
			}
			done := must.Get(d.Verify(t.Context(), probe))(t)
			for _, c := range done.Checks {
				if !c.OK {
					t.Errorf("%s, Host %q: %s: %s", name, file, c.Name, c.Detail)
				}
			}
			if a := done.Answers; len(a) != 1 || a[0].SHA256 == "" {
				t.Errorf("%s, Host %q: %+v", name, file, a)
			} else if d := difftest.Of("a[0].Request", a[0].Request, "GET /", "a[0].Probes", a[0].Probes, probes, "a[0].Status", a[0].Status, "200", "*a[0].Bytes", *a[0].Bytes, 3, "*a[0].ContentType", *a[0].ContentType, ""); d != "" {
				t.Errorf("%s: %s, Host %q: %+v", d, name, file, a)
			}
		}
	}
}

// The URL of a running program has the Host that people call it by.
func TestHostOfRunningProgram(t *testing.T) {
	spec := platform.Spec{Topology: app.Topology{Entry: "app", Services: []app.Service{{Name: "app", Own: app.Own{URL: "http://localhost:8080"}}, {Name: "db"}}}}
	if got := spec.Host(spec.Entry()); got != "localhost:8080" {
		t.Errorf("got %q", got)
	}
	spec.LoadHost = "shop.example"
	if entry, db := spec.OwnHost(spec.Entry()), spec.OwnHost(spec.Topology.Services[1]); entry != "shop.example" || db != "localhost" {
		t.Errorf("entry %q, another service %q", entry, db)
	}
}

// A probe has the bytes of the load's request, but for its connection of its own and the mark of a probe.
func TestProbeIsTheRequestOfTheLoad(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(context.Background())
		_, _ = w.Write([]byte(r.Host + " " + r.Method))
	}))
	defer server.Close()
	for name, p := range map[string]loads.Profile{
		"get":     {Targets: []string{server.URL + "/a?b=1"}, Headers: []string{"Host: localhost"}, ExpectSize: -1},
		"post":    {Targets: []string{server.URL + "/a"}, Headers: []string{"Host: localhost"}, RequestSize: 17, ExpectSize: -1},
		"request": {Targets: []string{server.URL + "/a"}, Headers: []string{"Host: localhost"}, ExpectSize: -1, Calls: []loads.Call{{Name: "n", Method: "PUT", Headers: []string{"Host: shop.example", "content-type: text/plain"}, Body: []byte("x")}}},
	} {
		all := must.Get(requestsOf(p))(t)
		if _, err := clients[app.HTTP1].probe(t.Context(), &all[0]); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		call := p.ForTarget(0)
		call.Method = all[0].method // as validation sets it
		sent := strings.Split(strings.SplitN(string(http1.BuildRequest(all[0].url, &call, all[0].body)), "\r\n\r\n", 2)[0], "\r\n")
		want := map[string]string{}
		for _, line := range sent[1:] {
			field, value, _ := strings.Cut(line, ": ")
			want[http.CanonicalHeaderKey(field)] = value
		}
		has := map[string]string{"Host": got.Host}
		for field, values := range got.Header {
			if !slices.Contains([]string{"Connection", "Tare-Alone"}, field) {
				has[field] = strings.Join(values, ", ")
			}
		}
		if line := got.Method + " " + got.RequestURI + " HTTP/1.1"; line != sent[0] || !maps.Equal(has, want) {
			t.Errorf("%s: %s %v\nwant %s %v", name, line, has, sent[0], want)
		}
	}
}

// The answers that a file asks for are verified: statuses, constant errors with and without retries, a rate limit.
func TestProbesExpectWhatTheFileAsksFor(t *testing.T) {
	t.Parallel()
	chain := func(front, back app.Behavior) []app.Service {
		return []app.Service{{Name: "front", Behavior: front, Calls: []app.Call{{Service: "back"}}}, {Name: "back", Behavior: back}}
	}
	meshes := []mesh.Definition{load(t, "none"), load(t, "reference-mtls")}
	if testing.Short() {
		t.Attr("short", "without Envoy")
	} else {
		retries := load(t, "envoy-retries")
		local := *retries.Local
		if local.Sidecar.Config = strings.ReplaceAll(local.Sidecar.Config, `retry_on: "`, `retry_on: "5xx,`); local.Sidecar.Config == retries.Local.Sidecar.Config {
			t.Fatal("the configuration has no retry_on")
		}
		retries.Local = &local
		meshes = append(meshes, retries)
	}
	for name, tc := range map[string]struct {
		services []app.Service
		expect   []string
		fails    bool
	}{
		"status 204":            {services: []app.Service{{Name: "echo", Behavior: app.Behavior{Status: 204, ResponseSize: app.FixedSize(0)}}}, expect: []string{"204"}},
		"status 404":            {services: []app.Service{{Name: "echo", Behavior: app.Behavior{Status: 404}}}, expect: []string{"404"}},
		"status 404 unexpected": {services: []app.Service{{Name: "echo", Behavior: app.Behavior{Status: 404}}}, fails: true},
		"errors":                {services: []app.Service{{Name: "echo", Behavior: app.Behavior{Errors: &app.Errors{Ratio: 0.3, Status: 503}}}}},
		"every error":           {services: []app.Service{{Name: "echo", Behavior: app.Behavior{Errors: &app.Errors{Ratio: 1}}}}},
		"rate limit":            {services: []app.Service{{Name: "echo", Behavior: app.Behavior{RateLimit: 5}}}},
		"errors behind":         {services: chain(app.Behavior{}, app.Behavior{Errors: &app.Errors{Ratio: 0.3}})},
		"errors before":         {services: chain(app.Behavior{Errors: &app.Errors{Ratio: 0.3}}, app.Behavior{})},
		"other status":          {services: []app.Service{{Name: "echo", Behavior: app.Behavior{Errors: &app.Errors{Ratio: 0.5, Status: 503}, Status: 302}}}, fails: true},
	} {
		for _, m := range meshes {
			t.Run(name+" "+m.Name, func(t *testing.T) {
				t.Parallel()
				d := must.Get(deployTopology(t, m, app.Topology{Name: "t", Entry: tc.services[0].Name, Services: tc.services}, app.HTTP1))(t)
				probe := d.layout.spec.Completed(platform.Probe{}, d.Entry())
				probe.Load.ExpectStatus = tc.expect
				done := must.Get(d.verifier.Verify(t.Context(), probe))(t)
				failed := false
				for _, c := range done.Checks {
					if failed = failed || !c.OK; !c.OK && !tc.fails {
						t.Errorf("%s: %s", c.Name, c.Detail)
					}
				}
				if failed != tc.fails {
					t.Errorf("failed: %v, want %v", failed, tc.fails)
				}
			})
		}
	}
}
