package kubecli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/certificate"
	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// weightMesh is a mesh for this test: its webhook injects the reference proxy, with a known cost, into each pod.
const weightMesh = `name: weight
description: a plain proxy that the webhook of a test puts beside each pod
kubernetes:
  version: 1.0.0
  namespace: tare-weight
  coexists: true
  charts:
  - {release: injector, chart: injector, repository: "https://charts.invalid"}
  profiles: {dev: {replicas: 1}}
  workloads: [{kind: Deployment, name: injector, scaled: true}]
  webhooks: [{kind: MutatingWebhookConfiguration, name: tare-weight}]
  enrolment:
    namespace: {labels: {weight.test/inject: enabled}}
    proof: {labels: {weight.test/injected: "yes"}}
    manifests:
    - |
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: weight-proxy}
      data:
        proxy.json: '{"Pod": "any", "Concurrency": 1, "AdminPath": "/tmp/weight.sock", "Inbound": {"AppIP": "127.0.0.1", "AppPort": 8080, "Port": 15006}}'
  proxies:
  - {role: sidecar, in: pod, container: weight-proxy}
tasks:
- {plane: data, role: sidecar, component: load, service: load, container: weight-proxy}
- {plane: data, role: sidecar, container: weight-proxy}
- {plane: control, namespace: tare-weight}
`

const weightChart = `apiVersion: v1
kind: Secret
metadata: {name: injector, namespace: {{ .Release.Namespace }}}
type: kubernetes.io/tls
stringData: {tls.crt: {{ .Values.certificate | quote }}, tls.key: {{ .Values.key | quote }}}
---
apiVersion: v1
kind: Service
metadata: {name: injector, namespace: {{ .Release.Namespace }}}
spec: {selector: {app: injector}, ports: [{name: https, port: 443, targetPort: 8443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: injector, namespace: {{ .Release.Namespace }}}
spec:
  selector: {matchLabels: {app: injector}}
  template:
    metadata: {labels: {app: injector}}
    spec:
      terminationGracePeriodSeconds: 0
      automountServiceAccountToken: false
      containers:
      - name: injector
        image: {{ .Values.image }}
        imagePullPolicy: Never
        command: [/injector]
        args: {{ .Values.args | toJson }}
        readinessProbe: {httpGet: {path: /ready, port: 8443, scheme: HTTPS}, periodSeconds: 1}
        volumeMounts: [{name: tls, mountPath: /tls, readOnly: true}]
      volumes: [{name: tls, secret: {secretName: injector}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: tare-weight}
webhooks:
- name: inject.weight.test
  clientConfig: {service: {name: injector, namespace: {{ .Release.Namespace }}, path: /inject}, caBundle: {{ .Values.ca }}}
  namespaceSelector: {matchLabels: {weight.test/inject: enabled}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

// issued returns a CA and the certificate of the webhook's server, PEM.
func issued(t *testing.T, host string) (ca, cert, key string) {
	t.Helper()
	root := must.Get(certificate.New(certificate.Authority("test"), nil))(t)
	template := certificate.Leaf(host)
	template.DNSNames = []string{host}
	leaf := must.Get(certificate.New(template, root))(t)
	return string(root.PEM()), string(leaf.PEM()), string(must.Get(leaf.KeyPEM())(t))
}

// weightImage contains the webhook's server, and tare-agent as the proxy.
const weightImage = "tare.test/tare-agent:weight"

// newWeight writes the definition and the chart, and loads the image onto the node. Service native gets a native
// sidecar.
func newWeight(t *testing.T, bin, native string, burn time.Duration) (definition, charts string) {
	t.Helper()
	dir := t.TempDir()
	injector, archive := filepath.Join(dir, "injector"), filepath.Join(dir, "image.tar")
	build := exec.Command("go", "build", "-trimpath", "-o", injector, "../../../test/injector")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	for _, cmd := range []*exec.Cmd{
		build,
		exec.Command(filepath.Join(bin, "tare"), "cluster", "image", "build", "--tag", weightImage, "--with", "injector="+injector, "-o", archive),
		exec.Command(os.Getenv("TARE_TEST_CLUSTER"), "load-image", archive),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", cmd, err, out)
		}
	}
	ca, certificate, key := issued(t, "injector.tare-weight.svc")
	values := must.Get(json.Marshal(map[string]any{
		"ca": base64.StdEncoding.EncodeToString([]byte(ca)), "certificate": certificate, "key": key, "image": weightImage,
		"args": []string{"--image", weightImage, "--toolbox", os.Getenv("TARE_TEST_TOOLBOX"), "--burn", burn.String(), "--native", native},
	}))(t)
	definition, charts = filepath.Join(dir, "weight.yaml"), filepath.Join(dir, "charts")
	for file, text := range map[string]string{
		definition:                                  weightMesh,
		charts + "/injector/Chart.yaml":             "apiVersion: v2\nname: injector\nversion: 1.0.0\nappVersion: 1.0.0\n",
		charts + "/injector/values.yaml":            string(values),
		charts + "/injector/templates/objects.yaml": weightChart,
	} {
		must.OK(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return definition, charts
}

// A proxy from a real admission webhook, with iptables redirection by an init container, belongs to the data plane. This
// holds for a container and for a native sidecar. Its CPU equals its control group's CPU between the same two moments.
func TestKubernetesInjectedSidecar(t *testing.T) {
	const rate, burn = 60, time.Millisecond
	r := experimentOnKubernetes(t, fmt.Sprintf(`
application: {topology: chain-2}
factors: {mesh: [weight], rate: [%d], connections: [4]}
phases: {warmup: 3s, measure: 9s, drain: 2s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
blocks: 1
`, rate))
	before := objectsIn(t, r.cluster)
	definition, charts := newWeight(t, r.bin, "back", burn)
	r.args = append(r.args, "--mesh", definition, "--set", "meshes={weight: {charts: '"+charts+"'}}")
	cmd := r.start(t, r.args...)
	r.awaitPhase(t, "warm-up")
	own := map[string]func(time.Time) (int64, bool){}
	for name, id := range r.proxies(t) {
		own[name] = clustertest.Follow(t, id)
	}
	_ = cmd.Wait()
	all := r.recorded(t)
	if code := cmd.ProcessState.ExitCode(); len(all) != 1 || !usable(all[0]) || code != console.Done && code != console.Incomplete {
		t.Fatalf("exit code %d, %d trials, which must be 1 and usable", code, len(all))
	}
	record := all[0]
	compared := 0
	for _, task := range record.Tasks {
		value, is := own[task.Service+"/"+task.Container]
		if !is {
			continue
		}
		if task.Plane != metric.Data || task.Role != "sidecar" || task.Missing != "" {
			t.Errorf("%s: plane %s, role %s, %s", task.ID, task.Plane, task.Role, task.Missing)
			continue
		}
		if task.Service == "load" { // nothing comes in there
			if task.Component != "load" {
				t.Errorf("%s: component %q, want load", task.ID, task.Component)
			}
			continue
		}
		compared++
		from, known := value(task.Start.At)
		to, also := value(task.End.At)
		if !known || !also {
			t.Fatalf("%s: its control group was not read at %v and %v", task.ID, task.Start.At, task.End.At)
		}
		got, want := task.End.CPU-task.Start.CPU, to-from
		wall := task.End.At.Sub(task.Start.At)
		t.Logf("%s: %v in %v, its control group %v: %+.2f %%", task.ID, time.Duration(got), wall.Round(time.Millisecond), time.Duration(want), 100*(float64(got)/float64(want)-1))
		if math.Abs(float64(got)/float64(want)-1) > 0.02 {
			t.Errorf("%s used %v, and its control group counted %v", task.ID, time.Duration(got), time.Duration(want))
		}
		// The proxy uses this CPU for each request; some requests fall between the readings.
		if least := time.Duration(0.8 * float64(burn) * float64(record.Load.Completed) * float64(wall) / (record.Load.MeasureSeconds * 1e9)); time.Duration(got) < least {
			t.Errorf("%s used %v, and the requests alone take %v: they go past it", task.ID, time.Duration(got), least)
		}
	}
	if compared != 2 {
		t.Errorf("%d proxies were held against their control groups, want those of front and back", compared)
	}
	for _, plane := range []metric.Plane{metric.Data, metric.Control, metric.App, metric.Load} {
		want := map[metric.Plane]int{metric.Data: 3, metric.Control: 1, metric.App: 2, metric.Load: 1}[plane]
		if ns, tasks := usedBy(record, plane); tasks != want || ns < 0 {
			t.Errorf("plane %s: %d tasks, want %d", plane, tasks, want)
		}
	}
	for _, name := range []string{"each pod has a sidecar", "each pod is enrolled", "containers"} {
		if !slices.ContainsFunc(record.Checks, func(c check.Check) bool { return c.Name == name && c.OK }) {
			t.Errorf("check %q does not hold: %+v", name, record.Checks)
		}
	}
	for _, ref := range objectsIn(t, r.cluster) {
		if !slices.Contains(before, ref) {
			t.Errorf("left in the cluster: %s", ref)
		}
	}
	t.Run("in place", func(t *testing.T) { r.inPlace(t, definition, charts) })
}

// proxies returns the containers of the injected proxies by service and container, and checks which are native sidecars.
func (r *onKubernetes) proxies(t *testing.T) map[string]string {
	t.Helper()
	pods := must.Get(r.cluster.Typed().CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{LabelSelector: "weight.test/injected=yes"}))(t)
	ids, native := map[string]string{}, map[string]bool{}
	for _, pod := range pods.Items {
		service := pod.Labels["tare.dev/service"]
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if s.Name == "weight-proxy" {
				_, ids[service+"/"+s.Name], _ = strings.Cut(s.ContainerID, "://")
				native[service] = slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == s.Name })
			}
		}
	}
	if want := map[string]bool{"front": false, "back": true, "load": false}; !maps.Equal(native, want) {
		t.Fatalf("native sidecars: %v, want %v", native, want)
	}
	return ids
}
