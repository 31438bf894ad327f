package meshes

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/must"
)

// istioCharts is the directory of the charts of Istio's Go module.
func istioCharts(t *testing.T) string {
	t.Helper()
	charts := os.Getenv("TARE_TEST_ISTIO_CHARTS")
	switch {
	case charts != "":
	case os.Getenv("CI") == "true":
		t.Fatal("TARE_TEST_ISTIO_CHARTS names no charts: run with `tare-cluster run --with istio`")
	default:
		t.Skip("TARE_TEST_ISTIO_CHARTS names no charts")
	}
	return charts
}

// installed installs a mesh for the time of a test, after which the cluster has what it had before.
func installed(t *testing.T, c *cluster.Cluster, m *Mesh) {
	t.Helper()
	before := inventory(t, c)
	must.Get(m.Install(bounded(t, 5*time.Minute)))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := m.Uninstall(ctx, false); err != nil {
			t.Error(err)
		}
		sameInventory(t, c, before)
	})
}

// TestRealIstio installs Istio from the charts of its Go module (`tare-cluster run --with istio` has them, with the images).
// It verifies it on a service that is called from inside and cannot be called from outside.
func TestRealIstio(t *testing.T) {
	c := connect(t)
	charts := istioCharts(t)
	d, err := mesh.Load("istio")
	must.OK(t, err)
	archive := kept{}
	m := must.Get(New(c, d, mesh.Settings{Hub: os.Getenv("TARE_TEST_ISTIO_HUB"), Version: os.Getenv("TARE_TEST_ISTIO_TAG"),
		Options: map[string]string{"envoy": "stock", "imagePullPolicy": "Never"}},
		Options{Charts: charts, Archive: archive.keep, Report: func(line string) { t.Log(line) }}))(t)
	installed(t, c, m)
	namespace := "tare-test-istio-" + fmt.Sprint(os.Getpid())
	e := must.Get(m.Enrol(namespace, mesh.Way{LoadInside: true}))(t)
	put(t, c, namespace, e.Namespace)
	must.OK(t, m.Enter(bounded(t, time.Minute), cluster.Stamp{Run: namespace}, namespace, e))
	more(t, c, namespace,
		"apiVersion: v1\nkind: Service\nmetadata: {name: shop}\nspec: {selector: {app: shop}, ports: [{name: http, port: 80, targetPort: 8080}]}\n",
		deployment("shop", e.Pod.Labels, e.Pod.Annotations, [2]string{"app", serving}),
		deployment("load", e.Pod.Labels, e.Pod.Annotations, [2]string{"load", "sleep 3600"}))
	probe := func(ctx context.Context) (int, error) {
		const requests = 10
		out, err := exec.CommandContext(ctx, os.Getenv("TARE_TEST_KUBECTL"), "--kubeconfig", os.Getenv("TARE_TEST_KUBECONFIG"), "-n", namespace,
			"exec", "deploy/load", "-c", "load", "--", "sh", "-c", "for i in $(seq 10); do wget -q -O- http://shop/ || exit 1; done").CombinedOutput()
		if err != nil {
			return 0, fmt.Errorf("%w: %s", err, out)
		}
		return requests, nil
	}
	checks := must.Get(m.Verify(bounded(t, 2*time.Minute), Target{Namespace: namespace, LoadInside: true, Probe: probe}))(t)
	for _, check := range checks {
		t.Logf("%v %s: %s", check.OK, check.Name, check.Detail)
	}
	for _, name := range []string{"version", "each pod has a sidecar", "each pod is enrolled", "requests are understood by the sidecar", "mutual TLS is on at the sidecar", "plaintext is refused"} {
		if i := slices.IndexFunc(checks, func(c check.Check) bool { return c.Name == name }); i < 0 || !checks[i].OK {
			t.Errorf("check %q failed or is missing", name)
		}
	}
	// An upstream Envoy is in force, without Istio's telemetry.
	if i := slices.IndexFunc(checks, func(c check.Check) bool { return strings.Contains(c.Caution, "no sidecar of mesh istio (envoy: stock") }); i < 0 {
		t.Errorf("no caution about missing telemetry: %+v", checks)
	}
	idleIsNamed(t, c, m, namespace, e, probe)
	if err := m.Archive(bounded(t, time.Minute), namespace); err != nil {
		t.Error(err)
	}
	for _, part := range []string{"config_dump.json", "server_info.json"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(archive)), func(name string) bool { return strings.HasSuffix(name, part) && len(archive[name]) > 100 }) {
			t.Errorf("no %s in the archive: %q", part, slices.Sorted(maps.Keys(archive)))
		}
	}
	// Under PERMISSIVE plaintext is admitted, and the check that expects STRICT fails.
	more(t, c, namespace, "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: tare}\nspec: {mtls: {mode: PERMISSIVE}}\n")
	seen := false
	for ctx := bounded(t, time.Minute); ctx.Err() == nil && !seen; {
		checks, err = m.Verify(boundedBy(ctx, 3*time.Second), Target{Namespace: namespace, LoadInside: true})
		seen = err == nil && slices.ContainsFunc(failing(checks), func(s string) bool { return strings.HasPrefix(s, "plaintext is refused: port 8080 of pod shop-") })
	}
	if !seen {
		t.Errorf("admitted plaintext is not detected: %q, %v", failing(checks), err)
	}
	deleteNamespace(t, c, namespace)
}

// idleIsNamed deploys a pod without traffic: its sidecar proves nothing, and the check names it alone.
func idleIsNamed(t *testing.T, c *cluster.Cluster, m *Mesh, namespace string, e mesh.Enrolled, probe func(context.Context) (int, error)) {
	t.Helper()
	more(t, c, namespace, deployment("idle", e.Pod.Labels, e.Pod.Annotations, [2]string{"app", serving}))
	all := Traffic{Some: true, Inside: true, HTTP: true}
	traffic := func(p *corev1.Pod) PodTraffic {
		if p.Labels["app"] == "load" {
			return PodTraffic{Out: all}
		}
		return PodTraffic{In: all}
	}
	checks, err := m.Verify(bounded(t, 10*time.Second), Target{Namespace: namespace, LoadInside: true, Probe: probe, Traffic: traffic})
	must.OK(t, err)
	for _, name := range []string{"requests are understood by the sidecar", "mutual TLS is on at the sidecar"} {
		i := slices.IndexFunc(checks, func(c check.Check) bool { return c.Name == name })
		if i < 0 || checks[i].OK || !strings.Contains(checks[i].Detail, "in 1 of 2 pods, not in: idle-") || !strings.Contains(checks[i].Detail, "in 1 of 1 pods; ") {
			t.Errorf("with an idle pod: %+v", checks)
			continue
		}
		t.Logf("%s: %s", name, checks[i].Detail)
	}
	// A pod that expects no traffic need not prove any.
	checks, err = m.Verify(bounded(t, time.Minute), Target{Namespace: namespace, LoadInside: true, Probe: probe, Traffic: func(p *corev1.Pod) PodTraffic {
		if p.Labels["app"] == "idle" {
			return PodTraffic{}
		}
		return traffic(p)
	}})
	if failed := failing(checks); err != nil || len(failed) > 0 {
		t.Errorf("with a pod that expects no traffic: %q, %v", failed, err)
	}
	ref := cluster.Ref{Kind: cluster.KindDeployment, Namespace: namespace, Name: "idle"}
	must.OK(t, c.Delete(bounded(t, time.Minute), nil, ref))
}

func boundedBy(ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	_ = context.AfterFunc(ctx, cancel)
	return ctx
}
