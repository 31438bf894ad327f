package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/show/push"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/show/series"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// Rates come from a real Prometheus with the counters of Istio's proxies, and the rest from the cluster. The busiest minutes of a pod
// count, of the namespace's own workloads alone. A sidecar that uses more now than the run's needs as much more then.
func TestSizeOfANamespaceByPrometheus(t *testing.T) {
	d := startDatabase(t, "remote-write")
	now := time.Now()
	counter := func(reporter, from, fromNamespace, to, toNamespace, pod string, rate func(ago time.Duration) float64) series.Series {
		s := series.Series{Name: "istio_requests_total", Labels: map[string]string{"reporter": reporter, "source_workload": from, "source_workload_namespace": fromNamespace,
			"destination_workload": to, "destination_workload_namespace": toNamespace, "pod": pod}}
		total := 0.0
		for ago := 20 * time.Minute; ago >= 0; ago -= 15 * time.Second {
			if rate(ago) < 0 {
				continue
			}
			s.Points = append(s.Points, series.Point{At: now.Add(-ago), Value: total})
			total += 15 * rate(ago)
		}
		return s
	}
	steady := func(rate float64) func(time.Duration) float64 { return func(time.Duration) float64 { return rate } }
	busy := func(ago time.Duration) float64 { // five minutes of 200 requests/s
		if ago > 8*time.Minute && ago < 13*time.Minute {
			return 100
		}
		return 20
	}
	scaled := func(ago time.Duration) float64 { // a pod of the busy minutes alone
		if busy(ago) < 100 {
			return -1
		}
		return 100
	}
	to := must.Get(series.ParseTarget(d.url+programs["remote-write"].path, series.RemoteWrite))(t)
	must.OK(t, push.Send(t.Context(), to, []series.Series{
		counter("destination", "gateway", "istio-system", "web", "shop", "web-0", busy), counter("destination", "gateway", "istio-system", "web", "shop", "web-1", busy),
		counter("destination", "gateway", "istio-system", "web", "shop", "web-2", scaled),
		counter("source", "web", "shop", "cart", "shop", "web-0", steady(30)), counter("source", "web", "shop", "cart", "shop", "web-1", steady(30)), counter("destination", "web", "shop", "cart", "shop", "cart-0", steady(60)),
		counter("destination", "x", "other", "web", "other", "web-0", steady(300)), // of another namespace
	}))
	cluster := &cli.Kubernetes{Sidecars: func(_ context.Context, namespace string, window time.Duration) (predict.Sidecars, error) {
		if namespace != "shop" || window != 0 {
			t.Errorf("namespace %s, counted for %v", namespace, window)
		}
		return predict.Sidecars{Cluster: "cluster test", Namespace: namespace, Mesh: "istio", Workloads: []predict.Workload{
			{Kind: "Deployment", Name: "cart", Pods: 1, Sidecar: predict.Amounts{CPU: 0.1, Memory: 128}, Used: &predict.Amounts{CPU: 0.04}}, {Kind: "Deployment", Name: "web", Pods: 2, Sidecar: predict.Amounts{CPU: 0.1, Memory: 128}, Used: &predict.Amounts{CPU: 1.5 * (20*0.00033 + 30*0.00027)}}}}, nil
	}}
	curve := filepath.Join(t.TempDir(), "curve")
	must.OK(t, answertest.Sidecars(50, 100, 200, 400).Write(t, curve).Close())
	size := func(args ...string) (code int, out, messages string) {
		var b, e bytes.Buffer
		code = cli.New(console.Console{In: strings.NewReader(""), Out: &b, Err: &e}, cluster).Run(t.Context(), append([]string{"size", curve, "--namespace", "shop"}, args...))
		return code, b.String(), e.String()
	}
	code, out, messages := size("--prometheus", d.url, "--format", "json")
	if code != console.Done {
		t.Fatalf("exit code %d: %s", code, messages)
	}
	var n report.Needs
	must.OK(t, json.Unmarshal([]byte(out), &n))
	if len(n.Workloads) != 2 {
		t.Fatalf("%+v", n)
	}
	cart, web := n.Workloads[0], n.Workloads[1]
	for what, c := range map[string]struct{ got, want float64 }{
		"received by cart": {cart.Received, 60}, "received by web": {web.Received, 200}, "sent by web": {web.Sent, 60},
		"CPU of cart": {cart.CPU.Estimate, 0.04}, "CPU of web": {web.CPU.Estimate, 1.5 * (100*0.00033 + 30*0.00027)}, // 100 in and 30 out of each pod, and now 20 in
		"of cart to the run": {cart.Scaled, 0.04 / (60 * 0.00033)}, "of web to the run": {web.Scaled, 1.5},
	} {
		if math.Abs(c.got/c.want-1) > 0.06 {
			t.Errorf("%s is %v, want %v", what, c.got, c.want)
		}
	}
	if _, out, _ = size("--prometheus", d.url); !strings.Contains(out, "in the busiest two minutes of a day") || !strings.Contains(out, "Deployment/web") {
		t.Errorf("%s", out)
	}
	if code, _, messages = size("--prometheus", "http://127.0.0.1:1"); code != console.Failed || !strings.Contains(messages, "kubectl port-forward") {
		t.Errorf("without Prometheus: exit code %d: %s", code, messages)
	}
	for want, args := range map[string][]string{
		"both --namespace and --rate": {"--rate", "3"}, "--namespace with --format values": {"--format", "values"},
	} {
		if code, _, messages = size(args...); code != console.BadUsage || !strings.Contains(messages, want) {
			t.Errorf("%q: exit code %d: %s", args, code, messages)
		}
	}
}
