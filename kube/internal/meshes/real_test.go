package meshes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

const toolbox = clustertest.Toolbox

func connect(t *testing.T) *cluster.Cluster { return clustertest.Connect(t) }

func bounded(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// verified are the checks of a mesh. Checks that fail, as here, are repeated until the limit, which is short. On a busy
// machine they need a longer one, until they are as expected.
func verified(t *testing.T, m *Mesh, target Target, expected func([]check.Check) bool) (checks []check.Check, err error) {
	for _, limit := range []time.Duration{5 * time.Second, 15 * time.Second, time.Minute} {
		if checks, err = m.Verify(bounded(t, limit), target); err == nil && expected(checks) {
			break
		}
		t.Logf("within %v: %q, %v", limit, failing(checks), err)
	}
	return checks, err
}

// inventory lists the objects of the cluster, without kinds that change by themselves.
func inventory(t *testing.T, c *cluster.Cluster) map[string]bool {
	t.Helper()
	c.Rediscover()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // also used after the test's context has ended
	defer cancel()
	all := must.Get(c.Objects(ctx, cluster.Query{}))(t)
	found := map[string]bool{}
	for _, o := range all {
		if !slices.Contains([]string{"Lease", "Pod", "CertificateSigningRequest"}, o.Kind.Kind) && !strings.HasPrefix(o.Namespace, "tare-") && !strings.HasPrefix(o.Name, "tare-test-") {
			found[o.Ref.String()] = true
		}
	}
	return found
}

func sameInventory(t *testing.T, c *cluster.Cluster, before map[string]bool) {
	t.Helper()
	after := inventory(t, c)
	for ref := range after {
		if !before[ref] {
			t.Errorf("not removed: %s", ref)
		}
	}
	for ref := range before {
		if !after[ref] {
			t.Errorf("removed: %s", ref)
		}
	}
}

// put applies YAML in a namespace that is deleted with the test.
func put(t *testing.T, c *cluster.Cluster, namespace string, marks mesh.Marks, texts ...string) {
	t.Helper()
	s := cluster.Stamp{Run: namespace}
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}}
	ns.SetLabels(marks.Labels)
	ns.SetAnnotations(marks.Annotations)
	must.OK(t, c.Apply(bounded(t, time.Minute), s, ns))
	t.Cleanup(func() { deleteNamespace(t, c, namespace) })
	must.OK(t, c.WaitReady(bounded(t, time.Minute), nil, cluster.Ref{Kind: cluster.KindNamespace, Name: namespace}))
	more(t, c, namespace, texts...)
}

func more(t *testing.T, c *cluster.Cluster, namespace string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		all := must.Get(cluster.Parse([]byte(text)))(t)
		for _, o := range all {
			o.SetNamespace(namespace)
			must.OK(t, c.Apply(bounded(t, time.Minute), cluster.Stamp{Run: namespace}, runtime.Object(o)))
			if o.GetKind() == "Deployment" {
				ref, _ := cluster.RefOf(o)
				must.OK(t, c.WaitReady(bounded(t, 3*time.Minute), nil, ref))
			}
		}
	}
}

func deleteNamespace(t *testing.T, c *cluster.Cluster, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := c.Delete(ctx, nil, cluster.Ref{Kind: cluster.KindNamespace, Name: namespace}); err != nil {
		t.Errorf("delete the test's namespace: %v", err)
	}
}

// deployment is a deployment of busybox. Each container is a name and a shell command.
func deployment(name string, labels map[string]string, annotations map[string]string, containers ...[2]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s}\nspec:\n  selector: {matchLabels: {app: %s}}\n  template:\n", name, name)
	fmt.Fprintf(&b, "    metadata:\n      labels:\n        app: %s\n", name)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&b, "        %s: %q\n", key, labels[key])
	}
	b.WriteString("      annotations:\n        test: \"yes\"\n")
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		fmt.Fprintf(&b, "        %s: %q\n", key, annotations[key])
	}
	b.WriteString("    spec:\n      terminationGracePeriodSeconds: 0\n      containers:\n")
	for _, c := range containers {
		fmt.Fprintf(&b, "      - {name: %s, image: %s, imagePullPolicy: Never, command: [sh, -c, %q], ports: [{containerPort: 8080, name: http}]}\n", c[0], toolbox, c[1])
	}
	return b.String()
}

const serving = "mkdir -p /tmp/www && echo hello > /tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www"

func failing(checks []check.Check) (failed []string) {
	for _, c := range checks {
		if !c.OK {
			failed = append(failed, c.Name+": "+c.Detail)
		}
	}
	return failed
}

// smallMesh is a test mesh: a deployment, a ClusterRole that the chart keeps, and a custom kind.
const smallMesh = `name: tare-test-small
description: a deployment that does nothing
provides: {telemetry: true}
kubernetes:
  version: 1.0.0
  namespace: tare-test-small
  crds:
  - {name: widgets, kinds: [widgets.small.test]}
  charts:
  - {release: small, chart: small, repository: "https://charts.invalid", values: "replicas: {{.Replicas}}"}
  profiles:
    dev: {replicas: 1}
    ha: {replicas: 2, nodes: 100}
  workloads: [{kind: Deployment, name: small, scaled: true}]
  enrolment:
    namespace: {labels: {small.test/inject: enabled}}
    pod: {labels: {small.test/in: "yes"}}
    exempt: {labels: {small.test/in: "no"}}
    proof: {labels: {small.test/in: "yes"}}
    manifests:
    - |
      apiVersion: small.test/v1
      kind: Widget
      metadata: {name: policy}
      spec: {inside: {{.LoadInside}}}
  proxies:
  - role: sidecar
    in: pod
    container: small-proxy
    archive: [{name: metrics.txt, port: 9090, path: /metrics}]
    counters: [{proves: l7, port: 9090, path: /metrics, metric: requests_total, labels: {way: in*}}]
  leftovers:
  - {kind: CustomResourceDefinition, group: apiextensions.k8s.io, name: "*.small.test"}
  - {kind: ClusterRole, group: rbac.authorization.k8s.io, name: "small-*"}
  - {kind: ConfigMap, name: small-root}
tasks:
- {plane: data, role: sidecar, container: small-proxy}
- {plane: control, namespace: tare-test-small}
`

// smallCharts writes the mesh's chart and its CRD.
func smallCharts(t *testing.T, image string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"a/b/Chart.yaml":  "apiVersion: v2\nname: small\nversion: 1.0.0\nappVersion: 1.0.0\n",
		"a/b/values.yaml": "replicas: 1\n",
		"a/b/templates/all.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: small, namespace: {{ .Release.Namespace }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: small}}
  template:
    metadata: {labels: {app: small}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: small, image: "` + image + `", imagePullPolicy: Never, command: [sleep, "3600"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: small-reader, annotations: {helm.sh/resource-policy: keep}}
rules: []
---
apiVersion: v1
kind: Secret
metadata: {name: small-key, namespace: {{ .Release.Namespace }}}
stringData: {key: very-secret}
`,
		"widgets/widgets.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.small.test}
spec:
  group: small.test
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`})
	return dir
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		must.File(t, dir, name, content)
	}
}

// kept is an archive in memory.
type kept map[string][]byte

func (k kept) keep(name string, content []byte) error {
	k[name] = bytes.Clone(content)
	return nil
}

func small(t *testing.T, c *cluster.Cluster, image string, s mesh.Settings, archive kept) *Mesh {
	t.Helper()
	d := must.Get(mesh.Decode("small.yaml", []byte(smallMesh)))(t)
	return must.Get(New(c, d, s, Options{Charts: smallCharts(t, image), Archive: archive.keep, Report: func(line string) { t.Log(line) }}))(t)
}

func TestRealInstallVerifyUninstall(t *testing.T) {
	c := connect(t)
	before := inventory(t, c)
	archive := kept{}
	m := small(t, c, toolbox, mesh.Settings{}, archive)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := m.Uninstall(ctx, true); err != nil {
			t.Error(err)
		}
	})
	i := must.Get(m.Install(bounded(t, 3*time.Minute)))(t)
	if i.Version != "1.0.0" || len(i.Charts) != 1 || len(i.CRDs) != 1 {
		t.Errorf("installed: %+v", i)
	}
	if text := string(archive["chart-small.yaml"]); !strings.Contains(text, "small-reader") || strings.Contains(text, "very-secret") || !strings.Contains(text, "SECRET-") {
		t.Errorf("archived:\n%s", text)
	}
	if _, err := m.Install(bounded(t, time.Minute)); !errors.Is(err, ErrInstalled) {
		t.Errorf("a second installation: %v", err)
	}
	foreign, err := guard.New(c).Foreign(bounded(t, time.Minute))
	if err != nil || slices.ContainsFunc(foreign, func(w guard.Workload) bool { return w.Namespace == "tare-test-small" }) {
		t.Errorf("the mesh is foreign: %v, %v", foreign, err)
	}
	verifySmall(t, c, m, archive)
	// A leftover as controllers create it in every namespace.
	more(t, c, "default", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: small-root}\n")
	must.OK(t, m.Uninstall(bounded(t, 2*time.Minute), false))
	sameInventory(t, c, before)
	if err := m.Uninstall(bounded(t, time.Minute), false); err != nil {
		t.Errorf("without objects: %v", err)
	}
}

// verifySmall verifies an application in the mesh, and then variants that must fail.
func verifySmall(t *testing.T, c *cluster.Cluster, m *Mesh, archive kept) {
	namespace := "tare-test-app-" + fmt.Sprint(os.Getpid())
	e := must.Get(m.Enrol(namespace, mesh.Way{}))(t)
	metrics := func(counted int) string {
		return fmt.Sprintf(`mkdir -p /tmp/www && printf '# TYPE requests_total counter\nrequests_total{way="inbound"} %d\nrequests_total{way="out"} 9\n' > /tmp/www/metrics && exec httpd -f -p 9090 -h /tmp/www`, counted)
	}
	put(t, c, namespace, e.Namespace)
	must.OK(t, m.Enter(bounded(t, time.Minute), cluster.Stamp{Run: namespace}, namespace, e))
	more(t, c, namespace,
		deployment("shop", e.Pod.Labels, e.Pod.Annotations, [2]string{"app", serving}, [2]string{"small-proxy", metrics(3)}),
		deployment("load", e.Exempt.Labels, e.Exempt.Annotations, [2]string{"load", "sleep 3600"}))
	checks, err := m.Verify(bounded(t, time.Minute), Target{Namespace: namespace})
	if err != nil || len(failing(checks)) > 0 || len(checks) < 5 {
		t.Errorf("checks %+v, %v", checks, err)
	}
	if !slices.ContainsFunc(checks, func(c check.Check) bool {
		return strings.Contains(c.Detail, "requests_total{way=in*} is 3 in 1 of 1 pods")
	}) {
		t.Errorf("no counter in %+v", checks)
	}
	if err := m.Archive(bounded(t, time.Minute), namespace); err != nil {
		t.Error(err)
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(archive)), func(name string) bool {
		return strings.HasPrefix(name, "proxies/") && bytes.Contains(archive[name], []byte("requests_total"))
	}) || !bytes.Contains(archive["images.json"], []byte("sha256:")) {
		t.Errorf("archived: %q", slices.Sorted(maps.Keys(archive)))
	}
	for what, target := range map[string]struct {
		t    Target
		want string
	}{
		"load inside required":    {Target{Namespace: namespace, LoadInside: true}, "each pod has a sidecar"},
		"counters do not move":    {Target{Namespace: namespace, Probe: func(context.Context) (int, error) { return 7, nil }}, "requests are understood by the sidecar: requests_total{way=in*} increased by 0 in 0 of 1 pods, not in: shop-"},
		"no answer":               {Target{Namespace: namespace, Probe: func(context.Context) (int, error) { return 0, errors.New("no answer") }}, "requests through the application: no answer"},
		"another pod is the load": {Target{Namespace: namespace, IsLoad: func(p *corev1.Pod) bool { return p.Labels["app"] == "shop" }}, "pods outside the mesh"},
		"no such namespace":       {Target{Namespace: "tare-test-none"}, "pods in the mesh"},
	} {
		want := func(s string) bool { return strings.HasPrefix(s, target.want) }
		checks, err := verified(t, m, target.t, func(checks []check.Check) bool { return slices.ContainsFunc(failing(checks), want) })
		if err != nil || !slices.ContainsFunc(failing(checks), want) {
			t.Errorf("%s: %q, %v, want %q", what, failing(checks), err, target.want)
		}
	}
	// A pod that counts nothing is named.
	more(t, c, namespace, deployment("still", e.Pod.Labels, e.Pod.Annotations, [2]string{"app", serving}, [2]string{"small-proxy", metrics(0)}))
	named := func(checks []check.Check) bool {
		failed := failing(checks)
		return len(failed) == 1 && strings.Contains(failed[0], "requests_total{way=in*} is 3 in 1 of 2 pods, not in: still-")
	}
	if checks, err = verified(t, m, Target{Namespace: namespace}, named); err != nil || !named(checks) {
		t.Errorf("with a proxy without traffic: %q, %v", failing(checks), err)
	}
	other := must.Get(New(c, m.definition, mesh.Settings{Version: "9.9.9"}, m.options))(t)
	refused := func(checks []check.Check) bool { return len(failing(checks)) > 0 }
	if checks, err := verified(t, other, Target{}, refused); err != nil || !refused(checks) {
		t.Errorf("another version: %+v, %v", checks, err)
	}
	deleteNamespace(t, c, namespace)
}

// A mesh that tare did not install is used as it is, and kept. No advice removes it while its control plane runs, and changes
// of its control plane are refused before the first trial.
func TestRealForeignMesh(t *testing.T) {
	c := connect(t)
	before := inventory(t, c)
	m := small(t, c, toolbox, mesh.Settings{}, kept{})
	must.Get(m.Install(bounded(t, 3*time.Minute)))(t)
	must.OK(t, writeRecord(t.Context(), c, m.definition.Name, nil)) // as if others had installed it
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		must.OK(t, m.Uninstall(ctx, true))
		sameInventory(t, c, before)
	})
	installed := inventory(t, c)
	_, err := small(t, c, toolbox, mesh.Settings{}, kept{}).Install(bounded(t, time.Minute))
	must.Fail(t, err, "runs in namespace tare-test-small, and tare did not install it", "an installation")
	for what, err := range map[string]error{"install": err, "uninstall": small(t, c, toolbox, mesh.Settings{}, kept{}).Uninstall(bounded(t, time.Minute), false)} {
		if err == nil || strings.Contains(hint.Of(err), "--force") {
			t.Errorf("%s: %v, hint %q", what, err, hint.Of(err))
		}
	}
	archive := kept{}
	verifySmall(t, c, small(t, c, toolbox, mesh.Settings{}, archive), archive)
	batches, definition, none, reported := newBatches(t, c)
	for _, d := range []mesh.Definition{none, definition} {
		must.Get(batches.Ready(bounded(t, time.Minute), d, false))(t)
	}
	if !strings.Contains(strings.Join(*reported, "\n"), "tare did not install it: it is used as it is") {
		t.Errorf("reported %q", *reported)
	}
	must.OK(t, batches.End(bounded(t, time.Minute)))
	sameInventory(t, c, installed)
	changing := NewBatches(c, func(string) Choice {
		return Choice{Options: Options{Changes: []string{metric.RouteChanged, metric.ControlStopped}}}
	}, nil)
	must.Fail(t, must.Err(changing.Foreign(bounded(t, time.Minute), []mesh.Definition{none, definition})), "does not change its control plane: control-stopped", "a change of the control plane")
}

// A failed installation is removed, and its error contains the cause.
func TestRealInstallFails(t *testing.T) {
	c := connect(t)
	before := inventory(t, c)
	for what, want := range map[string]struct {
		image    string
		settings mesh.Settings
		message  string
	}{
		"missing image":   {"tare.test/nosuch:1", mesh.Settings{}, "ErrImageNeverPull"},
		"too few nodes":   {toolbox, mesh.Settings{Profile: mesh.ProfileHA}, "profile ha needs 100 nodes"},
		"another version": {toolbox, mesh.Settings{Version: "9.9.9"}, "version 9.9.9 was requested, and 1.0.0 is available"},
	} {
		_, err := small(t, c, want.image, want.settings, kept{}).Install(bounded(t, 30*time.Second))
		must.Fail(t, err, want.message, what)
		sameInventory(t, c, before)
	}
	more(t, c, "default", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: small-root}\n")
	m := small(t, c, toolbox, mesh.Settings{}, kept{})
	must.Fail(t, must.Err(m.Install(bounded(t, time.Minute))), "configmap default/small-root", "with leftovers")
	if err := m.Uninstall(bounded(t, time.Minute), false); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("a mesh that tare did not install: %v", err)
	}
	if err := m.Uninstall(bounded(t, time.Minute), true); err != nil {
		t.Error(err)
	}
	sameInventory(t, c, before)
}

func TestRealNetworks(t *testing.T) {
	c := connect(t)
	info, err := readClusterInfo(bounded(t, time.Minute), c, "")
	if err != nil || info.nodes < 1 || len(info.services) != 1 {
		t.Fatalf("cluster info %+v, %v", info, err)
	}
	if info.domain != "cluster.local" { // test/cluster/manifests/kubelet.yaml
		t.Errorf("cluster domain %q", info.domain)
	}
	kubernetes := must.Get(c.Get(bounded(t, time.Minute), cluster.Ref{Kind: cluster.KindService, Namespace: "default", Name: "kubernetes"}))(t)
	ip, _, _ := unstructured.NestedString(kubernetes.Object, "spec", "clusterIP")
	if !contains(t, info.services[0], ip) {
		t.Errorf("the service CIDRs are %s, and a Service has %s", info.services, ip)
	}
	if info, err := readClusterInfo(bounded(t, time.Minute), c, "34.118.224.0/20"); err != nil || !slices.Contains(info.networks, "34.118.224.0/20") {
		t.Errorf("a public service CIDR: %+v, %v", info, err)
	}
	if _, err := readClusterInfo(bounded(t, time.Minute), c, "nonsense"); hint.Of(err) == "" {
		t.Errorf("nonsense: %v", err)
	}
}
