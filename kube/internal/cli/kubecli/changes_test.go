package kubecli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/scrape"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// removals are pairs of changes in one trial of a study, on a busy machine.
func removals(pairs int, every time.Duration) []string {
	return []string{fmt.Sprintf("changes={every: %v, count: %d, kinds: [endpoint-removed, endpoint-added]}", every, 2*pairs), "blocks=1", "order=random",
		fmt.Sprintf("phases={warmup: 2s, measure: %v, drain: 1s, idle: {cpu: 100, deadline: 1s}}", time.Duration(2*pairs+2)*every), "validity={rateShortfall: 0.5, errorRatio: 0.05, lateness: 10s, generatorCPU: 1}"}
}

// A pod that leaves the entry's Service gets no more requests, and gets them again when it is back. Meanwhile the
// endpoints of Services that no request calls change, in a list from outside. kube-proxy writes its rules at most once a second, and
// later where it waits for a processor: changes that come as fast would wait for one another.
func TestKubernetesEndpointRemoval(t *testing.T) {
	text := must.Get(os.ReadFile("../../../../examples/endpoint-removal.yaml"))(t)
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	disposable(t, clustertest.Connect(t))
	r := fileOnKubernetes(t, text, append(removals(3, 3*time.Second), "factors={mesh: [none], rate: [100], connections: [8], connectionRate: [100], replicas: [2]}",
		"background={services: 20, changes: 2/s}")...)
	all := r.records(t, console.Done, func() { behindChanges(t, r.cluster) })
	if len(all) != 1 || !usable(all[0]) {
		t.Fatalf("%+v", all)
	}
	followed(t, all[0], 3)
	if b := all[0].Background; b == nil || b.Services != 20 || b.Changes != 48 || b.Pushes != nil { // two a second of a measure phase of 24 s
		t.Errorf("background %+v", b)
	}
}

// behindChanges checks that the cluster has 20 background services whose addresses change three times.
func behindChanges(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	seen, last := 0, ""
	err := wait.Within(t.Context(), 20*time.Second, 100*time.Millisecond, func(ctx context.Context) error {
		list, err := c.Typed().DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{LabelSelector: cluster.LabelRun + ",endpointslice.kubernetes.io/managed-by=tare"})
		if err != nil {
			return err
		}
		all := ""
		for _, s := range list.Items {
			all += s.Labels["kubernetes.io/service-name"] + " " + s.Endpoints[0].Addresses[0] + "\n"
		}
		if all != last {
			seen, last = seen+1, all
		}
		if len(list.Items) != 20 || seen < 4 {
			return fmt.Errorf("%d EndpointSlices, in %d states:\n%s", len(list.Items), seen, all)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Under Istio a pod that leaves the Service gets no more requests, and each change has CPU of the control plane. Each sidecar knows the
// background services, and the control plane counts its stages.
func TestKubernetesIstioChanges(t *testing.T) {
	text := must.Get(os.ReadFile("../../../../examples/endpoint-removal.yaml"))(t)
	_, charts := clusterWithIstio(t)
	disposable(t, clustertest.Connect(t))
	r := fileOnKubernetes(t, text, append(removals(6, 2*time.Second), "platform.meter=node-agent", "factors={mesh: [istio], rate: [100], connections: [8], connectionRate: [100], replicas: [2]}", "background={services: 40}",
		fmt.Sprintf("meshes={istio: {version: %q, charts: %q, options: {envoy: stock}}}", os.Getenv("TARE_TEST_ISTIO_TAG"), charts))...)
	all := r.records(t, console.Done, nil)
	if len(all) != 1 || !usable(all[0]) {
		t.Fatalf("%+v", all)
	}
	followed(t, all[0], 6)
	known := 0
	for _, c := range all[0].Changes {
		if c.CPU == nil {
			continue
		}
		if _, has := c.CPU.NS[metric.Control]; has {
			known++
		}
	}
	if known == 0 {
		t.Error("no change has the CPU time of the control plane")
	}
	sidecars := 0 // of two replicas and the load
	for _, c := range all[0].Checks {
		if c.OK && strings.HasPrefix(c.Name, "background services in the sidecar of ") {
			sidecars++
		}
	}
	if sidecars != 3 {
		t.Errorf("%d sidecars know the background services, want 3: %+v", sidecars, all[0].Checks)
	}
	for _, stage := range []string{"debounce", "push context", "queue", "push", "convergence"} {
		i := slices.IndexFunc(all[0].ControlTimes, func(c result.ControlTime) bool { return c.Stage == stage })
		if i < 0 || all[0].ControlTimes[i].Count < 6 || all[0].ControlTimes[i].Seconds <= 0 { // of twelve changes, some of which may share a push
			t.Errorf("%s: %+v", stage, all[0].ControlTimes)
		}
	}
}

// followed checks that each of the pairs of changes took effect before the next change.
func followed(t *testing.T, r result.Record, pairs int) {
	t.Helper()
	kinds := map[string]int{}
	for i, c := range r.Changes {
		kinds[c.Kind]++
		span := c.LastOld
		if c.Kind == metric.EndpointAdded {
			span = c.FirstNew
		}
		if span == nil || span.BeforeMS == nil || c.Endpoint == "" {
			t.Errorf("%s: change %d (%s of %q) has not taken effect: %+v", r.ID, i+1, c.Kind, c.Endpoint, c)
		}
	}
	if kinds[metric.EndpointRemoved] != pairs || kinds[metric.EndpointAdded] != pairs {
		t.Errorf("%s: %v, want %d changes of each kind", r.ID, kinds, pairs)
	}
}

// The streams of the simulated proxies are those that istiod counts, which configures and hears each of them. Each change reaches all.
// Their pod is outside the mesh, and its work is tare's own.
func TestKubernetesIstioStreams(t *testing.T) {
	_, charts := clusterWithIstio(t)
	disposable(t, clustertest.Connect(t))
	const proxies = 30
	r := experimentOnKubernetes(t, "", "platform.meter=node-agent", "blocks=1", "factors={mesh: [istio], rate: [20], connections: [2]}",
		fmt.Sprintf("background={services: 20, changes: 2/s, proxies: %d}", proxies), "phases={warmup: 2s, measure: 15s, drain: 3s, idle: {cpu: 100, deadline: 1s}}",
		"validity={rateShortfall: 0.5, errorRatio: 0.05, lateness: 10s, generatorCPU: 1}",
		fmt.Sprintf(`meshes={istio: {version: %q, charts: %q, options: {envoy: stock}, values: {istiod: {env: {PILOT_MAX_REQUESTS_PER_SECOND: "1000"}}}}}`,
			os.Getenv("TARE_TEST_ISTIO_TAG"), charts)) // by default it refuses some of 30 streams at once
	all := r.records(t, console.Done, func() { streamsOfIstiod(t, r.cluster, proxies) })
	if len(all) != 1 || !usable(all[0]) {
		t.Fatalf("%+v", all)
	}
	b := all[0].Background
	if b == nil || b.Changes != 30 || b.Pushes == nil {
		t.Fatalf("background %+v, want 30 changes", b)
	}
	if p := b.Pushes; p.Proxies != proxies || p.Reached != b.Changes || p.Missed > 0 || p.Broken > 0 {
		t.Errorf("%+v, want each change at all of %d proxies, without a broken stream", p, proxies)
	}
	var planes []metric.Plane
	for _, task := range all[0].Tasks {
		if task.Pod == "simulated-proxies" {
			planes = append(planes, task.Plane)
		}
	}
	if len(planes) != 1 || planes[0] != metric.Harness {
		t.Errorf("containers of the simulated proxies are of the planes %v, want one of the harness", planes)
	}
}

// streamsOfIstiod checks by istiod itself that the simulated proxies have streams beside the sidecars, and acknowledge endpoints. Their
// number is of the gauge pilot_xds too.
func streamsOfIstiod(t *testing.T, c *cluster.Cluster, want int) {
	t.Helper()
	pods := must.Get(c.Typed().CoreV1().Pods("istio-system").List(t.Context(), metav1.ListOptions{LabelSelector: "app=istiod"}))(t)
	if len(pods.Items) != 1 {
		t.Fatalf("%d pods of istiod", len(pods.Items))
	}
	forward := c.Forward("istio-system", pods.Items[0].Name, 15014)
	defer forward.Close()
	client := http.Client{Transport: &http.Transport{DialContext: forward.DialContext}}
	get := func(path string) []byte {
		response := must.Get(client.Do(must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://istiod"+path, nil))(t)))(t)
		defer response.Body.Close()
		return must.Get(io.ReadAll(response.Body))(t)
	}
	var synced []struct {
		Proxy string `json:"proxy"`
		Sent  string `json:"endpoint_sent"`
		Acked string `json:"endpoint_acked"`
	}
	must.OK(t, json.Unmarshal(get("/debug/syncz"), &synced))
	simulated, heard := map[string]bool{}, 0
	for _, s := range synced {
		if strings.HasPrefix(s.Proxy, "simulated-") {
			simulated[s.Proxy] = true
			if s.Sent != "" && s.Acked != "" {
				heard++
			}
		}
	}
	if len(simulated) != want || heard != want {
		t.Errorf("istiod has %d simulated proxies, of which %d acknowledged endpoints, want %d", len(simulated), heard, want)
	}
	streams := 0.0
	for s, err := range scrape.Samples(get("/metrics"), "pilot_xds{", "pilot_xds ") {
		must.OK(t, err)
		streams += s.Value
	}
	if int(streams) != len(synced) || len(synced) <= want {
		t.Errorf("istiod counts %v streams, and lists %d, want the sidecars beside %d", streams, len(synced), want)
	}
}
