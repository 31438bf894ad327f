package predict_test

import (
	"math"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/test/must"
)

// Sidecars that run have the costs of their own requests in both directions, and the memory that they use if it is more.
func TestNeedsOfRunningSidecars(t *testing.T) {
	costs := must.Get(predict.CostsOf([]predict.Source{{Dir: "runs/x", Run: written(t)}}))(t)
	mine := must.Get(predict.CostsFor(costs, "envoy"))(t)
	// The sidecars of the service have 0.4 ms of a request, that of the load 0.2 ms.
	n := must.Get(mine.Needs(predict.Sidecars{Namespace: "shop", Mesh: "envoy", Workloads: []predict.Workload{
		{Kind: "Deployment", Name: "web", Pods: 2, Received: 1000, Sent: 300, Sidecar: predict.Amounts{CPU: 0.1, Memory: 128}},
		{Kind: "Deployment", Name: "big", Pods: 1, Received: 400, Used: &predict.Amounts{Memory: 90}},
		{Kind: "Deployment", Name: "hot", Pods: 4, Received: 10000},
		{Kind: "StatefulSet", Name: "still", Pods: 1},
		{Kind: "Deployment", Name: "lost"},
		{Kind: "Deployment", Name: "held", Pods: 1, Received: 400, LimitCPU: 0.05, Used: &predict.Amounts{CPU: 0.049}, Present: predict.Shares{Received: 1}},
		{Kind: "Deployment", Name: "rich", Pods: 3, Received: 1200, Used: &predict.Amounts{CPU: 0.06}, Present: predict.Shares{Received: 0.25}},
	}}, 0.5))(t)
	web, big, hot, still, rich := n.Workloads[0], n.Workloads[1], n.Workloads[2], n.Workloads[3], n.Workloads[6]
	held := n.Workloads[5]
	if lost := n.Workloads[4]; lost.Refused != "no proxy of Deployment/lost could be read" {
		t.Errorf("%+v", lost)
	}
	for what, c := range map[string]struct{ got, want, within float64 }{
		"CPU of web": {web.CPU.Estimate, 500*0.0004 + 150*0.0002, 0.01}, "memory of web": {web.Memory.Estimate, 40, 1}, "request of web": {web.RequestCPU, 0.345, 0.015},
		"memory request of web": {web.RequestMemory, 61, 3}, "CPU of big": {big.CPU.Estimate, 0.16, 0.01}, "memory request of big": {big.RequestMemory, 136, 0},
		"all": {n.CPU.Estimate, 2*web.CPU.Estimate + big.CPU.Estimate + still.CPU.Estimate + held.CPU.Estimate + 3*rich.CPU.Estimate, 1e-6}, "CPU of held, which its limit throttles": {held.CPU.Estimate, 0.16, 0.01}, "idle": {still.CPU.Estimate, 0.02, 0.005}, "rich, which uses 1.5 times 0.4 ms of 100 requests/s": {rich.CPU.Estimate, 1.5 * 0.16, 0.01}, "its range": {(rich.CPU.High - rich.CPU.Low) / (big.CPU.High - big.CPU.Low), rich.Scaled, 1e-6}, "its scale": {rich.Scaled, 1.5, 0.1}, "scale of web": {web.Scaled, 0, 0}, "most of idle": {still.CPU.High, 0.045, 0.01},
	} {
		if math.Abs(c.got-c.want) > c.within {
			t.Errorf("%s is %v, want %v", what, c.got, c.want)
		}
	}
	if !(web.CPU.Low < 0.23 && 0.23 < web.CPU.High) || web.AsUsed || !big.AsUsed || web.Workers != 1 {
		t.Errorf("web %+v, big %+v", web, big)
	}
	if !strings.Contains(hot.Refused, "2500 requests/s are outside the measured range of 100 to 1600: sidecar of Deployment/hot") || hot.RequestCPU != 0 {
		t.Errorf("2500 requests/s: %+v", hot)
	}
	if !strings.HasPrefix(n.Command, "tare run runs/x/experiment.yaml --set 'factors.rate=[") || !strings.HasSuffix(n.Command, "--set blocks=8") {
		t.Errorf("command %q", n.Command)
	}
	_, err := mine.Needs(predict.Sidecars{Namespace: "shop", Workloads: []predict.Workload{{Kind: "Deployment", Name: "hot", Pods: 1, Received: 9000}}}, 0)
	if must.Fail(t, err, "9000 requests/s are outside"); !strings.Contains(hint.Of(err), "measure them: tare run") {
		t.Errorf("%v, %q", err, hint.Of(err))
	}
	if other := must.Get(predict.CostsFor(costs, "istio"))(t); other.Mesh != "envoy" {
		t.Errorf("costs of %s for istio", other.Mesh)
	}
	must.Fail(t, must.Err(predict.CostsFor(append(costs, costs...), "istio")), "the sidecars are of istio, and the runs have several costs")
	must.Fail(t, must.Err(predict.CostsFor(nil, "istio")), "no run has a mesh with sidecars")
}
