package kubecli

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// sized sizes the sidecars by what their proxies count, and applies the patch: the pods then have the printed requests. The need is
// the CPU that the kubelet counts meanwhile, several times that of the curve.
func (b *byHand) sized(t *testing.T) {
	t.Helper()
	t.Setenv("KUBECONFIG", b.kubeconfig)
	curve := filepath.Join(t.TempDir(), "curve")
	must.OK(t, answertest.Sidecars(2, 20, 100, 400).Write(t, curve).Close())
	size := func(format string) []byte {
		t.Helper()
		to := filepath.Join(t.TempDir(), "sizes")
		if out, err := call(t, "size", curve, "--namespace", "shop", "--prices", "../../../../examples/prices-gcp.yaml", "--format", format, "-o", to); err != nil {
			t.Fatalf("size: %v\n%s", err, out)
		}
		return must.Get(os.ReadFile(to))(t)
	}
	// The Metrics API has the start of younger pods.
	list := must.Get(b.cluster.Typed().CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{}))(t)
	for _, p := range list.Items {
		must.OK(t, wait.For(t.Context(), time.Until(p.Status.StartTime.Add(time.Minute))))
	}
	var n report.Needs
	used := b.usedBySidecars(t)
	must.OK(t, json.Unmarshal(size("json"), &n))
	for app, used := range used() {
		i := slices.IndexFunc(n.Workloads, func(w predict.Need) bool { return w.Name == app })
		if i < 0 || n.Workloads[i].Scaled == 0 || math.Abs(n.Workloads[i].CPU.Estimate/used-1) > 0.4 {
			t.Errorf("a sidecar of %s uses %.4f cores: %+v", app, used, n.Workloads)
		}
	}
	if len(n.Workloads) != 2 || n.RunningMesh != "istio" || n.Month == nil {
		t.Fatalf("%+v", n)
	}
	client, web := n.Workloads[0], n.Workloads[1]
	if client.Title() != "Deployment/client" || web.Title() != "Deployment/web" || client.Pods != 2 || web.Pods != 2 {
		t.Fatalf("%+v", n.Workloads)
	}
	// The clients call the servers alone, two of each, and nothing calls the clients.
	if !(web.Received > 2) || math.Abs(client.Sent/web.Received-1) > 0.2 || client.Received != 0 || web.Sent != 0 {
		t.Errorf("web receives %v requests/s, client sends %v", web.Received, client.Sent)
	}
	before := b.requested(t)
	for _, w := range n.Workloads {
		if got := fmt.Sprintf("%vm %vMi", math.Round(w.Sidecar.CPU*1000), w.Sidecar.Memory); got != before[w.Name] {
			t.Errorf("%s: printed as %s, and requests %s", w.Name, got, before[w.Name])
		}
	}
	b.kubectl(t, string(size("patch")), "apply", "--server-side", "--field-manager", "tare-size", "-f", "-")
	for _, w := range n.Workloads {
		must.OK(t, b.cluster.WaitReady(t.Context(), nil, cluster.Ref{Kind: cluster.KindDeployment, Namespace: "shop", Name: w.Name}))
	}
	after := b.requested(t)
	for _, w := range n.Workloads {
		if !roughly(after[w.Name], w) {
			t.Errorf("%s requests %s after the patch, want %vm %vMi", w.Name, after[w.Name], w.RequestCPU*1000, w.RequestMemory)
		}
	}
}

// usedBySidecars returns a function with the mean CPU of a sidecar since then, cores, by the label app.
func (b *byHand) usedBySidecars(t *testing.T) func() map[string]float64 {
	t.Helper()
	type counter struct {
		CPU struct {
			Time time.Time
			Used float64 `json:"usageCoreNanoSeconds"`
		}
	}
	read := func() map[string]counter { // by pod
		var summary struct {
			Pods []struct {
				PodRef     struct{ Name, Namespace string }
				Containers []struct {
					Name string
					counter
				}
			}
		}
		nodes := must.Get(b.cluster.Typed().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t)
		must.OK(t, json.Unmarshal(must.Get(b.cluster.Reader().NodeRead(t.Context(), nodes.Items[0].Name, "stats/summary"))(t), &summary))
		all := map[string]counter{}
		for _, p := range summary.Pods {
			for _, c := range p.Containers {
				if p.PodRef.Namespace == "shop" && c.Name == "istio-proxy" {
					all[p.PodRef.Name] = c.counter
				}
			}
		}
		return all
	}
	before := read()
	return func() map[string]float64 {
		mean := map[string]float64{}
		for pod, now := range read() {
			was := before[pod].CPU
			app, _, _ := strings.Cut(pod, "-")
			mean[app] += (now.CPU.Used - was.Used) / float64(now.CPU.Time.Sub(was.Time)) / 2 // pods
		}
		return mean
	}
}

// roughly reports whether pods request a size. The rate and use of the patch were read later, and its request is at most four steps away.
func roughly(requested string, n predict.Need) bool {
	var cpu, memory float64
	_, err := fmt.Sscanf(requested, "%fm %fMi", &cpu, &memory)
	return err == nil && math.Abs(cpu-n.RequestCPU*1000) <= 20 && math.Abs(memory-n.RequestMemory) <= 8
}

// requested returns what the sidecars of the newest pods request, by the label app.
func (b *byHand) requested(t *testing.T) map[string]string {
	t.Helper()
	list := must.Get(b.cluster.Typed().CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{}))(t)
	all, newest := map[string]string{}, map[string]metav1.Time{}
	for _, p := range list.Items {
		app, created := p.Labels["app"], p.CreationTimestamp
		if p.DeletionTimestamp != nil || newest[app].After(created.Time) {
			continue
		}
		for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
			if c.Name == "istio-proxy" {
				newest[app] = created
				all[app] = amounts(c.Resources.Requests)
			}
		}
	}
	return all
}

func amounts(of corev1.ResourceList) string {
	return fmt.Sprintf("%dm %dMi", of.Cpu().MilliValue(), of.Memory().Value()>>20)
}
