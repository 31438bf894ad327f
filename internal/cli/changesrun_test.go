package cli

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/test/programtest"
)

// Known delays of a control plane are recovered: each is the difference to the same mesh without a delay.
func TestRouteChange(t *testing.T) {
	r, code := undisturbed(t, "route-change.yaml", "blocks=1", "control=false", "factors={mesh: [none, envoy-xds, delayed-50ms, delayed-500ms, flapping], rate: [500], connections: [8]}",
		"meshes={delayed-50ms: {from: envoy-xds, options: {delay: 50}}, delayed-500ms: {from: envoy-xds, options: {delay: 500}}, flapping: {from: envoy-xds, options: {flap: 10}}}",
		"changes={every: 60ms, count: 40}", "phases={warmup: 1s, measure: 3s, drain: 200ms}", "validity={rateShortfall: 0.5, lateness: 5s}") // a busy machine is late
	if code != console.Done {
		t.Errorf("exit code %d", code)
	}
	first, last := map[string]float64{}, map[string]float64{}
	for _, tr := range r.Treatments {
		if n := tr.Metrics["changes_made/route-changed"].Estimate; tr.N != 1 || n != 40 {
			t.Errorf("%s: %d valid trials with %v changes: %+v", tr.ID, tr.N, n, r.Warnings)
		}
		for into, name := range map[*map[string]float64]string{&first: "change_first_new_ms/route-changed", &last: "change_last_old_ms/route-changed"} {
			e, known := tr.Metrics[name]
			if !known {
				t.Fatalf("%s: %s is unknown: %+v", tr.ID, name, r.Warnings)
			}
			(*into)[tr.ID] = e.Estimate
		}
		if flaps := tr.Metrics["change_flaps/route-changed"].Estimate; (flaps > 0) != (tr.ID == "flapping") {
			t.Errorf("%s: %v flaps per change", tr.ID, flaps)
		}
		if e, known := tr.Metrics["change_cpu_ms/route-changed-control"]; known && (tr.ID == "none" || tr.ID == "delayed-500ms") {
			t.Errorf("%s: a change costs the control plane %v ms, and there is none, or a change outlasts the time to the next", tr.ID, e.Estimate)
		}
		if most := tr.Metrics["change_last_old_most_ms/route-changed"].Estimate; first[tr.ID] > most {
			t.Errorf("%s: the first new answer comes after at least %v ms, the last old one after at most %v ms", tr.ID, first[tr.ID], most)
		}
	}
	for id, delay := range map[string]float64{"delayed-50ms": 50, "delayed-500ms": 500} { // within 3 ms on a quiet machine
		for what, of := range map[string]map[string]float64{"first effect": first, "last old answer": last} {
			if got := of[id] - of["envoy-xds"]; math.Abs(got-delay) > 40 {
				t.Errorf("%s: the %s comes %v ms later than without a delay, want %v", id, what, got, delay)
			}
		}
	}
}

// The delays of a control plane are recovered on a quiet machine: the interval has a delay within 1 ms or 2 %.
func TestStandardDelays(t *testing.T) {
	r, code := carriedOut(t, "route-change.yaml", "blocks=3", "control=false", "factors={mesh: [envoy-xds, delayed-5ms, delayed-50ms, delayed-500ms], rate: [1000], connections: [8]}",
		"meshes={delayed-5ms: {from: envoy-xds, options: {delay: 5}}, delayed-50ms: {from: envoy-xds, options: {delay: 50}}, delayed-500ms: {from: envoy-xds, options: {delay: 500}}}",
		"baseline={mesh: envoy-xds}", "changes={every: 60ms, count: 100}", "phases={warmup: 1s, measure: 7s, drain: 1s}")
	if code != console.Done {
		t.Errorf("exit code %d: %+v", code, r.Warnings)
	}
	for id, delay := range map[string]float64{"delayed-5ms": 5, "delayed-50ms": 50, "delayed-500ms": 500} {
		for _, name := range []string{"change_first_new_ms/route-changed", "change_last_old_ms/route-changed"} {
			c, _ := r.Find(id, name)
			if c.Difference == nil || !c.Difference.Known() {
				t.Errorf("%s: %s has no interval: %+v", id, name, c)
				continue
			}
			late, bound := *c.Difference, max(1, 0.02*delay)
			t.Logf("%s: %s %.2f [%.2f, %.2f] ms later", id, name, late.Estimate, *late.Low, *late.High)
			// One disturbed trial of three moves the estimate, and widens the interval: it excludes no delay within the bound.
			if *late.Low > delay+bound || *late.High < delay-bound {
				t.Errorf("%s: %s is %.2f [%.2f, %.2f] ms later than without a delay, want %v ± %v", id, name, late.Estimate, *late.Low, *late.High, delay, bound)
			}
			if math.Abs(late.Estimate-delay) > 2*bound { // a wide interval excludes nothing
				t.Errorf("%s: %s is %.2f ms later than without a delay, want %v ± %v", id, name, late.Estimate, delay, 2*bound)
			}
		}
	}
}

// Consul's routers, splitters, intentions and maintenance mode reach the answers, and its agent restarts.
func TestConsulChanges(t *testing.T) {
	if testing.Short() || os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("starts a real Consul, which takes twelve minutes to build: make e2e-all runs it")
	}
	r, code := undisturbed(t, "consul-changes.yaml", "blocks=1", "factors={mesh: [consul], rate: [100], connections: [4], replicas: [2]}", "phases={warmup: 2s, measure: 125s, drain: 1s}",
		"changes={every: 62s, count: 1, kinds: [certificate-renewed]}", "validity={rateShortfall: 0.3}")
	if code != console.Done || len(r.Treatments) != 1 || r.Treatments[0].N != 1 {
		t.Fatalf("exit code %d: %+v", code, r.Warnings)
	}
	if failed := r.Treatments[0].Metrics["change_failed_requests/certificate-renewed"]; failed.Estimate != 0 {
		t.Errorf("%v requests fail with new certificates", failed.Estimate)
	}
	if times := r.ChangeTimes; len(times) != 1 || times[0].Changes != 1 || times[0].ToMS == nil {
		t.Errorf("the new certificate was not seen: %+v", times)
	}
	for _, kinds := range [][]string{
		{"route-changed", "route-added"},
		{"weight-shifted", "endpoint-removed", "endpoint-added"},
		{"policy-denied", "policy-allowed", "proxy-restarted", "control-restarted"}, // apart: no change reaches a proxy meanwhile
	} {
		r, code := undisturbed(t, "consul-changes.yaml", "blocks=1", "factors={mesh: [consul], rate: [200], connections: [4], replicas: [2]}", "phases={warmup: 2s, measure: 18s, drain: 3s}",
			fmt.Sprintf("changes={every: 2s, count: %d, kinds: [%s]}", 2*len(kinds), strings.Join(kinds, ", ")), "validity={rateShortfall: 0.3}")
		if code != console.Done || len(r.Treatments) != 1 || r.Treatments[0].N != 1 {
			t.Fatalf("exit code %d: %+v", code, r.Warnings)
		}
		metrics := r.Treatments[0].Metrics
		for _, kind := range kinds {
			if made := metrics["changes_made/"+kind].Estimate; made != 2 {
				t.Errorf("%s: %v changes, want 2", kind, made)
			}
			never, known := metrics["change_unchanged_connections/"+kind]
			if shown := kind == "route-changed" || kind == "route-added" || kind == "weight-shifted" || kind == "endpoint-removed"; shown && (!known || never.Estimate != 0) {
				t.Errorf("%s: %v connections never change (%v)", kind, never.Estimate, known)
			}
		}
		if errors := metrics["error_ratio"].Estimate; (errors > 0.01) != slices.Contains(kinds, "policy-denied") {
			t.Errorf("%v: %v of the requests fail, want the denied ones", kinds, errors)
		}
	}
}

// A probe shows a change that a slow load would not, and is in none of the load's figures.
func TestProbeOfChanges(t *testing.T) {
	t.Parallel()
	r, code := undisturbed(t, "route-change.yaml", "blocks=1", "control=false", "factors={mesh: [none, envoy-xds], rate: [20], connections: [2]}", "meshes={}", "baseline={mesh: none}",
		"changes={every: 80ms, count: 36, probe: {rate: 800, connections: 8}}", "phases={warmup: 1s, measure: 4s, drain: 1s}", "validity={rateShortfall: 0.5, lateness: 5s}")
	if code != console.Done || len(r.Treatments) != 2 {
		t.Fatalf("exit code %d, %d treatments: %+v", code, len(r.Treatments), r.Warnings)
	}
	for _, tr := range r.Treatments {
		if rate := tr.Metrics["rate"]; math.Abs(rate.Estimate-20) > 10 {
			t.Errorf("%s: a rate of %v requests/s, want 20", tr.ID, rate.Estimate)
		}
		if _, known := tr.Metrics["change_last_old_ms/route-changed"]; !known {
			t.Errorf("%s: the time of route changes is unknown: %+v", tr.ID, r.Warnings)
		}
	}
	for _, trial := range r.Trials {
		if !trial.Valid {
			t.Errorf("%s is invalid: %+v", trial.ID, r.Warnings)
		}
	}
}

// A replica whose sidecar takes no policy from the control plane is named, and only there.
func TestReplicaThatNeverLearns(t *testing.T) {
	t.Parallel()
	r, code := undisturbed(t, "route-change.yaml", "blocks=1", "control=false", "factors={mesh: [envoy-xds, held], rate: [500], connections: [8], replicas: [2]}",
		"meshes={held: {from: envoy-xds, options: {held: \"1\"}}}", "baseline={mesh: envoy-xds}",
		"changes={every: 80ms, count: 36, kinds: [policy-denied, policy-allowed]}", "phases={warmup: 1s, measure: 4s, drain: 1s}", "validity={rateShortfall: 0.5, lateness: 5s}")
	if code != console.Done || len(r.Treatments) != 2 {
		t.Fatalf("exit code %d, %d treatments: %+v", code, len(r.Treatments), r.Warnings)
	}
	var named []string
	for _, w := range r.Warnings {
		if w.Code == "change-unlearned" {
			named = append(named, w.Message)
		}
	}
	if len(named) != 1 || !strings.HasPrefix(named[0], "1 of 2 replicas (127.") || !strings.Contains(named[0], "policy-denied") {
		t.Errorf("warnings of replicas that never change: %q, want one of 1 of 2 replicas", named)
	}
	for _, tr := range r.Treatments {
		if e, known := tr.Metrics["change_unchanged_connections/policy-denied"]; !known || (e.Estimate >= 1) != (tr.ID == "held") {
			t.Errorf("%s: %v connections get no denial (%v)", tr.ID, e.Estimate, known)
		}
	}
}

// Policies, certificates and restarted processes: a restarted sidecar loses requests, the control plane none, and every kind has its
// evidence.
func TestChangesOfProcesses(t *testing.T) {
	t.Parallel()
	r, code := undisturbed(t, "changes.yaml", "blocks=1", "factors={mesh: [envoy-mtls], rate: [300], connections: [8], replicas: [2]}", "phases={warmup: 1s, measure: 16s, drain: 1s}",
		"changes={every: 2s, count: 7, kinds: [route-added, policy-denied, policy-allowed, certificate-renewed, proxy-restarted, control-restarted, control-stopped]}", "validity={rateShortfall: 0.5, lateness: 5s}")
	if code != console.Done || len(r.Treatments) != 1 || r.Treatments[0].N != 1 {
		t.Fatalf("exit code %d: %+v", code, r.Warnings)
	}
	metrics := r.Treatments[0].Metrics
	for _, kind := range []string{"route-added", "policy-denied", "policy-allowed", "certificate-renewed", "proxy-restarted", "control-restarted", "control-stopped"} {
		made, failed := metrics["changes_made/"+kind].Estimate, metrics["change_failed_requests/"+kind].Estimate
		if made != 1 {
			t.Errorf("%s: %v changes, want 1", kind, made)
		}
		if loses := kind == "proxy-restarted"; loses != (failed > 0) {
			t.Errorf("%s: %v failed requests per change, want some: %v", kind, failed, loses)
		}
	}
}

// No mesh is the baseline of restarts: nothing ends there, and no request fails.
func TestRestartsBesideNoMesh(t *testing.T) {
	t.Parallel()
	r, code := undisturbed(t, "route-change.yaml", "blocks=1", "control=false", "factors={mesh: [none, envoy-xds], rate: [300], connections: [8], replicas: [2]}", "meshes={}",
		"changes={every: 1s, count: 4, kinds: [proxy-restarted, control-restarted]}", "phases={warmup: 1s, measure: 6s, drain: 1s}", "validity={rateShortfall: 0.5, lateness: 5s}")
	if code != console.Done || len(r.Treatments) != 2 || r.Treatments[0].N+r.Treatments[1].N != 2 {
		t.Fatalf("exit code %d: %+v", code, r.Warnings)
	}
	for _, tr := range r.Treatments {
		restarted, failed := tr.Factors["mesh"] != "none", tr.Metrics["change_failed_requests/proxy-restarted"]
		if made := tr.Metrics["changes_made/proxy-restarted"].Estimate; made != 2 || restarted != (failed.Estimate > 0) {
			t.Errorf("%s: %v changes, %v failed requests per change", tr.ID, made, failed.Estimate)
		}
		if marked := slices.Contains(r.Unrestarted, answer.Unrestarted{Treatment: tr.ID, Kind: "proxy-restarted"}); marked == restarted {
			t.Errorf("%s: marked as not restarted: %v", tr.ID, marked)
		}
	}
}

// Reloads of the real proxies reach the answers, without an invalid trial.
func TestReloadsRun(t *testing.T) {
	t.Parallel()
	var meshes []string
	for _, name := range []string{"nginx", "haproxy", "caddy"} {
		path, libraries := programtest.Server(t, name)
		meshes = append(meshes, fmt.Sprintf("%s: {program: %q, environment: {LD_LIBRARY_PATH: %q}}", name, path, libraries))
	}
	r, code := undisturbed(t, "reload.yaml", "meshes={"+strings.Join(meshes, ", ")+"}", "factors={mesh: [nginx, haproxy, caddy], rate: [300], connections: [4]}",
		"changes={every: 400ms, count: 30}", "phases={warmup: 1s, measure: 13s, drain: 1s}", "validity={rateShortfall: 0.5, lateness: 5s}")
	if code != console.Done {
		t.Errorf("exit code %d: %+v", code, r.Warnings)
	}
	for _, tr := range r.Treatments {
		last, known := tr.Metrics["change_last_old_ms/route-changed"]
		most, bounded := tr.Metrics["change_last_old_most_ms/route-changed"]
		if made := tr.Metrics["changes_made/route-changed"].Estimate; !known || !bounded || last.Estimate < 0 || most.Estimate <= last.Estimate || made != 30 {
			t.Errorf("%s: %v changes with the last old answer after %v to %v ms (%v, %v), want 30", tr.ID, made, last.Estimate, most.Estimate, known, bounded)
		}
	}
}

// Reloads end the connections of real proxies. nginx tells each connection of gRPC to end and cuts no stream. It keeps WebSockets, which
// have the route of their handshake, or cuts each of them after an option's time. A route from Envoy's control plane ends none.
func TestConnectionsThatReloadsDrop(t *testing.T) {
	t.Parallel()
	const connections = 4
	nginx, libraries := programtest.Server(t, "nginx")
	haproxy, _ := programtest.Server(t, "haproxy")
	proxy := func(path, more string) string {
		return fmt.Sprintf("{program: %q, environment: {LD_LIBRARY_PATH: %q}%s}", path, libraries, more)
	}
	run := func(protocol, meshes, names string) map[string]map[string]compare.Estimate {
		r, code := undisturbed(t, "reload.yaml", "meshes={"+meshes+"}", fmt.Sprintf("factors={mesh: [%s], rate: [200], connections: [%d], protocol: [%s]}", names, connections, protocol),
			"changes={every: 600ms, count: 9}", "phases={warmup: 1s, measure: 7s, drain: 1s}", "validity={rateShortfall: 0.5, lateness: 5s, errorRatio: 0.5}")
		if code != console.Done {
			t.Errorf("%s: exit code %d: %+v", protocol, code, r.Warnings)
		}
		metrics := map[string]map[string]compare.Estimate{}
		for _, tr := range r.Treatments {
			metrics[fmt.Sprint(tr.Factors["mesh"])] = tr.Metrics
		}
		return metrics
	}
	const dropped, cut, unchanged = "change_dropped_connections/route-changed", "change_cut_requests/route-changed", "change_unchanged_connections/route-changed"
	check := func(protocol, mesh string, metrics map[string]compare.Estimate, want [2]float64, cuts, stays bool) {
		d, c, u := metrics[dropped], metrics[cut], metrics[unchanged]
		if d.N != 1 || d.Estimate < want[0] || d.Estimate > want[1] || cuts != (c.Estimate > 0) || stays != (u.Estimate >= connections-1) {
			t.Errorf("%s with %s: %v connections dropped, %v requests cut, %v connections unchanged; want %v, %v, all unchanged %v", protocol, mesh, d.Estimate, c.Estimate, u.Estimate, want, cuts, stays)
		}
	}
	all, none := [2]float64{0.75 * connections, connections}, [2]float64{} // a reload on a busy machine may end beside the next one
	grpc := run("grpc", "nginx: "+proxy(nginx, "")+", haproxy: "+proxy(haproxy, ""), "none, nginx, haproxy, envoy-xds")
	check("gRPC", "none", grpc["none"], none, false, false)
	check("gRPC", "nginx", grpc["nginx"], all, false, false)
	check("gRPC", "haproxy", grpc["haproxy"], [2]float64{0.25 * connections, connections}, false, false)
	check("gRPC", "envoy-xds", grpc["envoy-xds"], none, false, false)
	sockets := run("websocket", "nginx: "+proxy(nginx, "")+", ending: "+proxy(nginx, ", from: nginx, options: {shutdown: 100}"), "nginx, ending")
	check("WebSocket", "nginx", sockets["nginx"], none, false, true)
	check("WebSocket", "ending", sockets["ending"], all, true, false)
}

// An endpoint that leaves gets no more requests, and no request fails.
func TestEndpointRemoval(t *testing.T) {
	t.Parallel()
	r, code := undisturbed(t, "route-change.yaml", "blocks=1", "control=false", "factors={mesh: [envoy-xds], rate: [500], connections: [8], replicas: [2]}", "meshes={}",
		"changes={every: 60ms, count: 90, kinds: [endpoint-removed, endpoint-added, weight-shifted]}", "phases={warmup: 1s, measure: 6s, drain: 1s}", "validity={rateShortfall: 0.5, lateness: 5s}")
	if code != console.Done || len(r.Treatments) != 1 {
		t.Fatalf("exit code %d, %d treatments", code, len(r.Treatments))
	}
	metrics := r.Treatments[0].Metrics
	for name, want := range map[string]bool{
		"change_last_old_ms/endpoint-removed": true, "change_first_new_ms/endpoint-added": true,
		"change_last_old_ms/weight-shifted": true, "change_last_old_ms/endpoint-added": false, "change_first_new_ms/endpoint-removed": false,
	} {
		if e, known := metrics[name]; known != want || known && e.Estimate < 0 {
			t.Errorf("%s: %v (%v), want it: %v", name, e.Estimate, known, want)
		}
	}
}
