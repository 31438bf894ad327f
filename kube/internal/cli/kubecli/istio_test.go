package kubecli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// istioExperiment measures Istio with an upstream Envoy. Its validity limits tolerate a busy machine. A task
// without a plane still invalidates a trial.
const istioExperiment = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: istio}
platform: {kind: kubernetes, kubeconfig: %q, image: %q, inUse: allow}
application: {topology: %s}
meshes:
  istio: {version: %q, charts: %q, options: {envoy: stock}}
%sfactors: {mesh: [none, istio%s], rate: [50], connections: [8]}
phases: {warmup: 5s, measure: 10s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
blocks: 1
`

// hidden is a variant whose sidecars use HBONE, which figures published for "sidecar" once had, and have other
// threads and resources.
const hidden = `  hidden: {from: istio, concurrency: 1, environment: {ISTIO_META_ENABLE_HBONE: "true"},
    resources: {requests: {cpu: 30m, memory: 64MiB}, limits: {memory: 512MiB}}}
`

// Istio against none on a real cluster. Istio is installed for its trials and removed after them. The sidecars' own
// counters show that they are in the path, and each task is in its plane. The report lists what a variant ran differently.
func TestKubernetesIstio(t *testing.T) {
	kubeconfig, charts := clusterWithIstio(t)
	const image = "tare.test/tare-agent:istio"
	bin := agentInCluster(t, image)
	c := must.Get(cluster.Connect(t.Context(), cluster.Options{Kubeconfig: kubeconfig}))(t)
	before := objectsIn(t, c)
	perRequest := map[string]float64{}
	for topology, sidecars := range map[string]int{"echo": 2, "faces": 9} {
		t.Run(topology, func(t *testing.T) {
			variant, level := "", ""
			if topology == "echo" {
				variant, level = hidden, ", hidden"
			}
			text := fmt.Sprintf(istioExperiment, kubeconfig, image, topology, os.Getenv("TARE_TEST_ISTIO_TAG"), charts, variant, level)
			report, records, dir := measured(t, bin, text)
			if variant != "" {
				differs(t, report)
			}
			for _, r := range records {
				if !usable(r) {
					t.Errorf("%s: valid %v: %s: %+v", r.ID, r.Valid, r.Error, r.Warnings)
				}
				under := r.Treatment != "none"
				if got := sidecarsOf(r); got != map[bool]int{false: 0, true: sidecars}[under] {
					t.Errorf("%s: %d sidecars: %+v", r.ID, got, r.Tasks)
				}
				verifiedAs(t, r, under)
			}
			if !slices.ContainsFunc(report.Warnings, func(w figures.Warning) bool {
				return w.Code == "verified-with-caution" && w.Trials >= 1 && strings.Contains(w.Message, "the figures do not include the mesh's own telemetry")
			}) {
				t.Errorf("no warning that the Envoy is without Istio's telemetry: %+v", report.Warnings)
			}
			perRequest[topology] = costs(t, report)
			archived(t, dir)
		})
	}
	// Twice as many sidecars in the path of a request cost more CPU time, on a busy machine too.
	if one, three := perRequest["echo"], perRequest["faces"]; three < 1.3*one {
		t.Errorf("four sidecars in the way use %.0f µs a request, and two %.0f", three, one)
	}
	nothingAdded(t, c, before)
}

// differs checks the effective configuration of the variant in the report.
func differs(t *testing.T, report *answer.Report) {
	t.Helper()
	if len(report.Configurations) != 1 {
		t.Fatalf("%+v", report.Configurations)
	}
	found := map[string]string{}
	for _, d := range report.Configurations[0].Differences {
		found[d.Path] += d.A + " -> " + d.B
		t.Logf("%s: %q -> %q in %v", d.Path, d.A, d.B, d.Files)
	}
	for path, want := range map[string]string{
		"command_line_options.concurrency":                         "2 -> 1",
		"bootstrap.node.metadata.ENABLE_HBONE":                     " -> true",
		"initContainers[istio-proxy].env[ISTIO_META_ENABLE_HBONE]": " -> present",
		"initContainers[istio-proxy].resources.requests.cpu":       "100m -> 30m",
		"initContainers[istio-proxy].resources.requests.memory":    "128Mi -> 64Mi",
		"initContainers[istio-proxy].resources.limits.memory":      "1Gi -> 512Mi",
	} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(p string) bool { return strings.Contains(p, path) && strings.Contains(found[p], want) }) {
			t.Errorf("no difference %s: %s", path, want)
		}
	}
}

// clusterWithIstio returns the kubeconfig of a cluster with Istio's images, and the directory of the charts.
func clusterWithIstio(t *testing.T) (kubeconfig, charts string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs experiments on a cluster")
	}
	kubeconfig, charts = clustertest.Kubeconfig(t), os.Getenv("TARE_TEST_ISTIO_CHARTS")
	switch {
	case charts != "":
	case os.Getenv("CI") == "true":
		t.Fatal("TARE_TEST_ISTIO_CHARTS is missing: `tare-cluster run --with istio` sets it")
	default:
		t.Skip("there is no cluster with Istio's images: `bin/tare-cluster up --with istio` leaves one up")
	}
	return kubeconfig, charts
}

// agentInCluster builds both programs and loads the agent's image into the cluster.
func agentInCluster(t *testing.T, image string) string {
	t.Helper()
	bin := programs(t)
	load := exec.Command(filepath.Join(bin, "tare"), "cluster", "image", "load", "--to", "containerd:"+os.Getenv("TARE_TEST_CONTAINERD"), "--tag", image)
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("load the image: %v\n%s", err, out)
	}
	return bin
}

// measured runs an experiment with further settings, and returns its report, its records and its directory. A pause of the
// whole machine that lasts longer than requests wait makes a trial invalid: the experiment is then repeated once.
func measured(t *testing.T, bin, text string, set ...string) (*answer.Report, []result.Record, string) {
	t.Helper()
	report, records, dir := measuredOnce(t, bin, text, set...)
	if slices.ContainsFunc(records, paused) {
		t.Log("requests timed out in a trial: once more")
		return measuredOnce(t, bin, text, set...)
	}
	return report, records, dir
}

// paused reports whether a pause of the machine made a trial invalid, and nothing else did: requests timed out, or
// there was a backlog when the measure phase began.
func paused(r result.Record) bool {
	late := false
	for _, w := range r.Warnings {
		late = late || w.Code == "rate-exceeded"
		if w.Invalidates && !slices.Contains([]string{"errors", "task-missing", "rate-exceeded", "rate-missed"}, w.Code) {
			return false
		}
	}
	return r.Error == "" && r.Load != nil && !r.Valid && (late || r.Load.Classes["timeout"] > 0)
}

func measuredOnce(t *testing.T, bin, text string, set ...string) (*answer.Report, []result.Record, string) {
	t.Helper()
	file, dir := filepath.Join(t.TempDir(), "experiment.yaml"), filepath.Join(t.TempDir(), "run")
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	args := []string{"run", file, "--plain", "--format", "json", "--out", dir}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	run := exec.CommandContext(ctx, filepath.Join(bin, "tare"), args...)
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
	run.WaitDelay = 3 * time.Minute // until what it has put into the cluster is gone
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	err := run.Run()
	t.Log(stderr.String())
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !(ok && exit.ExitCode() == console.Incomplete) {
		t.Fatal(err)
	}
	var report answer.Report
	must.OK(t, json.Unmarshal(stdout.Bytes(), &report))
	d := must.Get(result.Open(dir))(t)
	defer d.Close()
	records, err := d.Records()
	if planned := len(d.Plan().Trials); err != nil || len(records) != planned {
		t.Fatalf("%d records of %d, %v", len(records), planned, err)
	}
	consistent(t, dir)
	return &report, records, dir
}

// sidecarsOf counts the sidecars of a trial, the load's sidecars separately. Istio's control plane must exist exactly when
// they do.
func sidecarsOf(r result.Record) int {
	count, load, control := 0, 0, 0
	for _, task := range r.Tasks {
		switch {
		case task.Plane == metric.Data && task.Role == "sidecar" && strings.HasSuffix(task.ID, "/istio-proxy"):
			count++
			if task.Component == "load" {
				load++
			}
		case task.Plane == metric.Control && strings.HasPrefix(task.ID, "istio-system/istiod-"):
			control++
		}
	}
	if count > 0 && (load != 1 || control != 1) || count == 0 && control > 0 {
		return -1
	}
	return count
}

// verifiedAs requires checks of a trial.
func verifiedAs(t *testing.T, r result.Record, under bool) {
	t.Helper()
	seen := map[string]bool{}
	for _, check := range r.Checks {
		seen[check.Name] = true
		if !check.OK {
			t.Errorf("%s: %s: %s", r.ID, check.Name, check.Detail)
		}
	}
	for _, name := range []string{"each pod has a sidecar", "each pod is enrolled", "requests are understood by the sidecar",
		"mutual TLS is on at the sidecar", "plaintext is refused", "version"} {
		if seen[name] != under {
			t.Errorf("%s: check %q was made: %v", r.ID, name, seen[name])
		}
	}
}

// costs returns the CPU time of the sidecars per request, µs. Without a mesh it must be absent.
func costs(t *testing.T, report *answer.Report) float64 {
	t.Helper()
	of := map[string]map[string]float64{"none": {}, "istio": {}, "hidden": {}}
	for _, trial := range report.Trials {
		for _, plane := range []string{"data", "control", "app"} {
			of[fmt.Sprint(trial.Factors["mesh"])][plane] = trial.Metrics["cpu_us_per_request/"+plane]
		}
	}
	t.Logf("processor time a request, µs: none %v, istio %v", of["none"], of["istio"])
	if none := of["none"]; none["data"] != 0 || none["control"] != 0 {
		t.Errorf("without a mesh its planes used %v", none)
	}
	if istio := of["istio"]; istio["data"] <= istio["app"]/4 || istio["control"] <= 0 {
		t.Errorf("under Istio: %v", istio)
	}
	return of["istio"]["data"]
}

// archived checks that a trial under Istio keeps the installed charts and the configuration of its proxies.
func archived(t *testing.T, dir string) {
	t.Helper()
	for _, pattern := range []string{"installation.json", "images.json", "chart-istiod.yaml*", "proxies/*-load-0-*-config_dump.json*"} {
		found, err := filepath.Glob(filepath.Join(dir, result.TrialsDir, "*-istio-*", result.ProvenanceDir, "mesh", pattern))
		if err != nil || len(found) == 0 {
			t.Errorf("%s is not in the provenance: %v", pattern, err)
		}
	}
}

// nothingAdded requires that a cluster has no new objects.
func nothingAdded(t *testing.T, c *cluster.Cluster, before []string) {
	t.Helper()
	for _, ref := range objectsIn(t, c) {
		if !slices.Contains(before, ref) {
			t.Errorf("left in the cluster: %s", ref)
		}
	}
}

// objectsIn lists the objects of the cluster, without kinds that change by themselves.
func objectsIn(t *testing.T, c *cluster.Cluster) (refs []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c.Rediscover()
	all := must.Get(c.Objects(ctx, cluster.Query{}))(t)
	for _, o := range all {
		if o.Kind.Kind != "Lease" && o.Kind.Kind != "Pod" {
			refs = append(refs, o.Ref.String())
		}
	}
	return refs
}

// Installed by hand, Istio passes the checks of its control plane, and its removal leaves nothing. An application of the
// user is verified with it, and is not left with sidecars that have no control plane.
func TestKubernetesIstioCommands(t *testing.T) {
	kubeconfig, charts := clusterWithIstio(t)
	c := must.Get(cluster.Connect(t.Context(), cluster.Options{Kubeconfig: kubeconfig}))(t)
	before := objectsIn(t, c)
	defer nothingAdded(t, c, before)
	tare := func(args ...string) string {
		t.Helper()
		out, err := call(t, append(args, "--kubeconfig", kubeconfig)...)
		if err != nil {
			t.Errorf("tare %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	version := os.Getenv("TARE_TEST_ISTIO_TAG")
	must.Contain(t, tare("mesh", "install", "istio", "--charts", charts, "--version", version, "--option", "envoy=stock", "--in-use"), "mesh istio "+version+" is installed in namespace istio-system of ")
	must.Contain(t, tare("mesh", "verify", "istio", "--version", version, "--option", "envoy=stock"), "istiod")
	shop := &byHand{cluster: c, kubeconfig: kubeconfig}
	shop.apply(t, shopByHand)
	defer shop.remove(t)
	shop.verified(t)
	shop.sized(t)
	shop.keptInUse(t)
	shop.remove(t)
	must.Contain(t, tare("mesh", "uninstall", "istio"), "nothing of mesh istio is left in ")
	if out, err := call(t, "mesh", "verify", "istio", "--kubeconfig", kubeconfig); err == nil {
		t.Errorf("a mesh that was uninstalled is verified:\n%s", out)
	}
}

// byHand is an application in namespace shop, as a user deploys it.
type byHand struct {
	cluster    *cluster.Cluster
	kubeconfig string
}

// shopByHand has two servers that answer with 404, and two clients that call them all the time.
const shopByHand = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio-injection: enabled}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: TOOLBOX, imagePullPolicy: Never, command: [sh, -c, exec httpd -f -p 8080 -h /tmp]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: client, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: TOOLBOX, imagePullPolicy: Never, command: [sh, -c, "while :; do wget -q -O- http://web/ 2>/dev/null; sleep 0.1; done"]}]
`

// forbidding lets plaintext in, and has Envoy answer it with 403.
const forbidding = `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: tare, namespace: shop}
spec: {mtls: {mode: PERMISSIVE}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: known, namespace: shop}
spec: {rules: [{from: [{source: {principals: ["*"]}}]}]}
`

func (b *byHand) apply(t *testing.T, text string) {
	t.Helper()
	b.kubectl(t, strings.ReplaceAll(text, "TOOLBOX", os.Getenv("TARE_TEST_TOOLBOX")), "apply", "-n", "shop", "-f", "-")
	for _, name := range []string{"web", "client"} {
		must.OK(t, b.cluster.WaitReady(t.Context(), nil, cluster.Ref{Kind: cluster.KindDeployment, Namespace: "shop", Name: name}))
	}
}

func (b *byHand) kubectl(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.Command(os.Getenv("TARE_TEST_KUBECTL"), append(args, "--kubeconfig", b.kubeconfig)...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (b *byHand) remove(t *testing.T) {
	t.Helper()
	must.OK(t, b.cluster.Delete(context.Background(), nil, cluster.Ref{Kind: cluster.KindNamespace, Name: "shop"}))
}

// verify returns what `mesh verify istio --namespace shop` prints.
func (b *byHand) verify(t *testing.T) (string, error) {
	t.Helper()
	out, err := call(t, "mesh", "verify", "istio", "--namespace", "shop", "--timeout", "15s", "--kubeconfig", b.kubeconfig)
	t.Logf("verify: %v\n%s", err, out)
	return out, err
}

// verified verifies the mesh under three policies: none, whose plaintext answer of 404 fails with the object to apply, then
// that object, and a 403 of Envoy, which is a refusal. A stock Envoy counts nothing for Istio's telemetry, which is never ok.
func (b *byHand) verified(t *testing.T) {
	t.Helper()
	out, err := b.verify(t)
	if err == nil || !strings.Contains(err.Error(), "1 of ") {
		t.Errorf("without a policy: %v", err)
	}
	must.Contain(t, spaced(out), "FAILED plaintext is refused port 8080 of pod web-", "answered: status 404",
		"hint: plaintext is refused: trials apply a policy that namespace shop lacks (peerauthentication shop/tare)", "kind: PeerAuthentication",
		"caution telemetry of the sidecar istio_requests_total increased by 0 in 0 of 4 pods")
	_, policy, found := strings.Cut(out, "`kubectl apply -n shop -f -` with\n")
	if !found {
		t.Fatal("the hint has no object to apply")
	}
	b.apply(t, policy)
	out, err = b.verify(t)
	must.OK(t, err)
	must.Contain(t, spaced(out), "ok plaintext is refused 6 of 6 requests without TLS were refused")
	b.apply(t, forbidding)
	pods := must.Get(b.cluster.Typed().CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"}))(t)
	for _, p := range pods.Items {
		await(t, "a 403 of Envoy", func() bool {
			_, err := b.cluster.Typed().CoreV1().Pods("shop").ProxyGet("http", p.Name, "8080", "/", nil).DoRaw(t.Context())
			return apierrors.IsForbidden(err)
		})
	}
	out, err = b.verify(t)
	must.OK(t, err)
	must.Contain(t, spaced(out), "ok plaintext is refused 6 of 6 requests without TLS were refused")
}

// spaced is a text with single spaces.
func spaced(text string) string { return strings.Join(strings.Fields(text), " ") }

// keptInUse requires that the mesh is not uninstalled beside objects of the user, nor beside pods with its sidecars, and
// that both are as before. With --force these pods are named: their sidecars have no control plane.
func (b *byHand) keptInUse(t *testing.T) {
	t.Helper()
	uninstall := func(args ...string) (string, error) {
		return call(t, append([]string{"mesh", "uninstall", "istio", "--kubeconfig", b.kubeconfig}, args...)...)
	}
	out, err := uninstall()
	if err == nil || !strings.Contains(err.Error(), "objects of its kinds that tare did not make would be deleted with it") ||
		!strings.Contains(err.Error(), "peerauthentication shop/tare") {
		t.Errorf("with objects of the user: %v\n%s", err, out)
	}
	b.kubectl(t, "", "get", "-n", "shop", "peerauthentication/tare", "authorizationpolicy/known")
	b.kubectl(t, "", "delete", "-n", "shop", "peerauthentication/tare", "authorizationpolicy/known")
	if out, err := uninstall(); err == nil || !strings.Contains(err.Error(), "4 pods run its proxy: pod shop/client-") {
		t.Errorf("with pods of the user: %v\n%s", err, out)
	}
	if out, err := uninstall("--force"); err == nil || !strings.Contains(err.Error(), "remove mesh istio, which 4 pods need: cannot ask for confirmation without a terminal") ||
		strings.Count(out, "runs the proxy of istio") != 4 {
		t.Errorf("with --force, not confirmed: %v\n%s", err, out)
	}
	b.kubectl(t, "", "get", "-n", "istio-system", "deployment/istiod")
	out, err = uninstall("--force", "--yes")
	must.OK(t, err)
	must.Contain(t, out, "mesh istio is uninstalled from ", "4 pods still run its proxy without a control plane: pod shop/client-", "recreate them")
	if strings.Contains(out, "nothing of mesh istio is left") {
		t.Errorf("it reports that nothing is left:\n%s", out)
	}
}
