package kubecli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

const conservedExperiment = `
application: {topology: chain-2}
factors: {mesh: [%s], rate: [50], connections: [4]}
phases: {warmup: 3s, measure: 9s, drain: 2s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
blocks: 1
`

// Requests that reach a service past its proxy, or without a mesh past the load, make a trial invalid.
func TestKubernetesOutsideClient(t *testing.T) {
	r := experimentOnKubernetes(t, fmt.Sprintf(conservedExperiment, "none"))
	refusedForClient(t, r, " requests appeared between the application front and the application back: ")
}

// The same under Istio: its sidecars have not counted them.
func TestKubernetesIstioOutsideClient(t *testing.T) {
	_, charts := clusterWithIstio(t)
	r := experimentOnKubernetes(t, fmt.Sprintf(conservedExperiment, "istio"),
		fmt.Sprintf("meshes={istio: {version: %q, charts: %q, options: {envoy: stock}}}", os.Getenv("TARE_TEST_ISTIO_TAG"), charts))
	refusedForClient(t, r, " requests appeared between the sidecar of back and its application: ")
}

func refusedForClient(t *testing.T, r *onKubernetes, want string) {
	t.Helper()
	all := r.records(t, console.Incomplete, func() { r.request(t, "back", 200) })
	if len(all) != 1 || all[0].Balance == nil {
		t.Fatalf("%+v", all)
	}
	for _, e := range all[0].Balance.Equations {
		t.Logf("%s: %d expected, %d counted, -%d +%d", e.Where, e.Expected, e.Counted, e.Fewer, e.More)
	}
	i := slices.IndexFunc(all[0].Warnings, func(w result.Warning) bool { return w.Code == "requests-not-conserved" })
	if i < 0 || all[0].Valid {
		t.Fatalf("valid: %v, %+v", all[0].Valid, all[0].Warnings)
	}
	if m := all[0].Warnings[i].Message; !strings.HasPrefix(m, "200"+want) {
		t.Errorf("%q, want %q", m, "200"+want)
	}
}

// request sends requests to the application's port of a service's pod, by a forwarded port.
func (r *onKubernetes) request(t *testing.T, service string, n int) {
	t.Helper()
	pods, err := r.cluster.Typed().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: "tare.dev/service=" + service})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods of %s, %v", len(pods.Items), service, err)
	}
	forward := r.cluster.Forward(pods.Items[0].Namespace, pods.Items[0].Name, 8080)
	defer forward.Close()
	client := http.Client{Transport: &http.Transport{DialContext: forward.DialContext}}
	for range n {
		req := must.Get(http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://"+service+"/", nil))(t)
		resp := must.Get(client.Do(req))(t)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
