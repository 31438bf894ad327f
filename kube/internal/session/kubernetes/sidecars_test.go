package kubernetes

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/predict"
)

// podOf has an application and Istio's sidecar, a native one or not.
func podOf(name, kind, owner, hash string, native bool) *corev1.Pod {
	request := func(cpu, memory string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{}}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: new(true)}}
	}
	if hash != "" {
		p.Labels["pod-template-hash"] = hash
	}
	p.Spec.Containers = []corev1.Container{{Name: "app", Resources: request("500m", "256Mi")}, {Name: "agent", Resources: request("100m", "0")}}
	sidecar := corev1.Container{Name: "istio-proxy", Resources: request("100m", "128Mi")}
	sidecar.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}
	p.Spec.InitContainers = []corev1.Container{{Name: "istio-init", Resources: request("7", "7Gi")}}
	if native {
		sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		p.Spec.InitContainers = append(p.Spec.InitContainers, sidecar)
	} else {
		p.Spec.Containers = append(p.Spec.Containers, sidecar)
	}
	return p
}

func TestWorkloadsOfPods(t *testing.T) {
	pods := []*corev1.Pod{
		podOf("web-5d4-a", "ReplicaSet", "web-5d4", "5d4", true), podOf("web-5d4-b", "ReplicaSet", "web-5d4", "5d4", true), podOf("web-5d4-c", "ReplicaSet", "web-5d4", "5d4", true),
		podOf("db-0", "StatefulSet", "db", "", false), podOf("alone", "", "", "", false),
	}
	name, proxy := sidecarOf(pods)
	if name != "istio" || proxy.Container != "istio-proxy" {
		t.Fatalf("mesh %q, %+v", name, proxy)
	}
	if name, _ := sidecarOf([]*corev1.Pod{{}}); name != "" {
		t.Errorf("a pod without a sidecar is of %s", name)
	}
	gateway := podOf("gateway", "", "", "", false)
	gateway.Spec.Containers = gateway.Spec.Containers[2:]
	if name, _ := sidecarOf([]*corev1.Pod{gateway}); name != "" {
		t.Errorf("a gateway, whose pod has a proxy alone, has a sidecar of %s", name)
	}
	// Another native sidecar belongs to the application, and the newest pod has the resources of the template.
	pods[1].CreationTimestamp = metav1.NewTime(time.Now())
	pods[1].Spec.InitContainers[1].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("120m")
	logger := *pods[1].Spec.InitContainers[1].DeepCopy()
	logger.Name = "logger"
	pods[1].Spec.InitContainers = append(pods[1].Spec.InitContainers, logger)
	rates := map[types.UID]flow{"web-5d4-a": {10, 1}, "web-5d4-b": {30, 2}, "db-0": {5, 0}, "alone": {}} // one pod of web ended meanwhile
	at := time.Now()
	for i, age := range []time.Duration{time.Hour, time.Hour, time.Hour, 70 * time.Second, time.Hour} {
		pods[i].Status.StartTime = &metav1.Time{Time: at.Add(-age)}
	}
	all := workloadsOf(pods, proxy.Container, rates, map[string]use{"web-5d4-a": {predict.Amounts{CPU: 0.2, Memory: 50}, at}, "web-5d4-b": {predict.Amounts{CPU: 0.1, Memory: 60}, at},
		"db-0": {predict.Amounts{CPU: 3, Memory: 40}, at.Add(-20 * time.Second)}}) // it read the start of db-0
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	web, alone, db := all[0], all[1], all[2]
	if web.Kind == "Pod" {
		web, alone, db = all[1], all[0], all[2]
	}
	if web.Title() != "Deployment/web" || web.Pods != 2 || web.Received != 40 || web.Sent != 3 || web.Busiest != 32 || web.LimitCPU != 0.25 || web.Sidecar != (predict.Amounts{CPU: 0.12, Memory: 128}) ||
		web.Application != (predict.Amounts{CPU: 0.72, Memory: 384}) || web.Used == nil || math.Abs(web.Used.CPU-0.15) > 1e-9 || web.Used.Memory != 60 {
		t.Errorf("%+v, %+v", web, web.Used)
	}
	if alone.Title() != "Pod/alone" || db.Title() != "StatefulSet/db" || db.Received != 5 || *db.Used != (predict.Amounts{Memory: 40}) || db.Application != (predict.Amounts{CPU: 0.6, Memory: 256}) {
		t.Errorf("%+v, %+v", alone, db)
	}
	delete(rates, "db-0")
	if all := workloadsOf(pods, proxy.Container, rates, nil); len(all) != 3 || all[2].Title() != "StatefulSet/db" || all[2].Pods != 0 {
		t.Errorf("a workload without a proxy that was read: %+v", all)
	}
	if all := workloadsOf(pods, proxy.Container, nil, nil); all[0].Pods+all[1].Pods+all[2].Pods != 5 {
		t.Errorf("without rates: %+v", all)
	}
}

// Counters of one direction count the same requests. One may be absent, and a restart begins at 0.
func TestFlowOfCounters(t *testing.T) {
	counters := []mesh.Counter{{Proves: mesh.ProvesL7}, {Proves: mesh.ProvesL7}, {Proves: mesh.ProvesMTLS}, {Proves: mesh.ProvesL7, Direction: mesh.WayOut}}
	if f := flowOf(counters, []float64{0, 100, 5, 1000}, []float64{0, 400, 9000, 50}, 10); f != (flow{in: 30, out: 5}) {
		t.Errorf("%+v", f)
	}
}
