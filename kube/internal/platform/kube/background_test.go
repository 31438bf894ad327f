package kube

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// Background services are created before the application, without selectors, and change in turn. No controller of Kubernetes may
// manage their endpoints, and clean-up finds them by their labels.
func TestBackground(t *testing.T) {
	d := dryRunDeployment(t, 1, "", noMesh(t), "echo")
	if d.declare(&Platform{}).Background != nil {
		t.Error("background services are declared, and there are none")
	}
	d.spec.Treatment.Levels.BackgroundServices = 3
	if d.declare(&Platform{}).Background == nil {
		t.Error("background services are not declared")
	}
	before := len(d.cluster.Recorder().Steps())
	must.OK(t, d.background.create(t.Context()))
	must.OK(t, d.background.ChangeBackground(t.Context(), 5))
	var order, addresses []string
	for _, step := range d.cluster.Recorder().Steps()[before:] {
		if step.Manifest == nil {
			order = append(order, strings.Join(step.Command, " "))
			continue
		}
		order = append(order, step.Manifest.Ref.String())
		var service corev1.Service
		must.OK(t, yaml.Unmarshal(step.Manifest.YAML, &service))
		if service.Labels[cluster.LabelRun] != "test-1" || service.Labels[labelTrial] != "7" || service.Spec.Selector != nil {
			t.Errorf("%s", step.Manifest.YAML)
		}
		if service.Kind == "Service" {
			continue
		}
		var slice discoveryv1.EndpointSlice
		must.OK(t, yaml.Unmarshal(step.Manifest.YAML, &slice))
		if slice.Labels[discoveryv1.LabelManagedBy] != "tare" || slice.Labels[discoveryv1.LabelServiceName] != slice.Name {
			t.Errorf("labels of %s: %v", slice.Name, slice.Labels)
		}
		for _, e := range slice.Endpoints {
			addresses = append(addresses, e.Addresses...)
		}
	}
	var want []string
	for i := 1; i <= 3; i++ {
		want = append(want, fmt.Sprintf("service tare-test-1-7/background-%d", i), fmt.Sprintf("endpointslice tare-test-1-7/background-%d", i))
	}
	want = append(want, "background-2")
	for i, has := range want {
		if i >= len(order) || !strings.Contains(order[i], has) {
			t.Fatalf("got %q, want %q in each", order, want)
		}
	}
	if last := order[len(order)-1]; len(order) != len(want) || !strings.Contains(last, "198.18.0.5") || strings.Join(addresses, " ") != "198.18.0.0 198.18.0.0 198.18.0.0" {
		t.Errorf("addresses %v, then %q", addresses, last)
	}
}

// Pods of background services are of a Deployment each, shared evenly, outside the mesh and on nodes of KWOK alone. A pod that changes
// gets the address of the change.
func TestBackgroundPods(t *testing.T) {
	d := dryRunDeployment(t, 1, "", must.Get(mesh.Load("istio"))(t), "echo")
	d.spec.Treatment.Levels.BackgroundServices, d.spec.Treatment.Levels.BackgroundPods = 3, 8
	d.background.pods.readyIn([]discoveryv1.EndpointSlice{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: "background-2"}},
		Endpoints: []discoveryv1.Endpoint{{TargetRef: &corev1.ObjectReference{Name: "of-2"}}, {TargetRef: &corev1.ObjectReference{Name: "late"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}}}})
	before := len(d.cluster.Recorder().Steps())
	must.OK(t, d.background.create(t.Context()))
	must.OK(t, d.background.ChangeBackground(t.Context(), 5))
	var replicas []int32
	steps := d.cluster.Recorder().Steps()[before:]
	for _, step := range steps {
		if step.Manifest == nil {
			continue
		}
		var o appsv1.Deployment
		must.OK(t, yaml.Unmarshal(step.Manifest.YAML, &o))
		if o.Kind == "Service" {
			var service corev1.Service
			must.OK(t, yaml.Unmarshal(step.Manifest.YAML, &service))
			if !maps.Equal(service.Spec.Selector, map[string]string{labelBackground: service.Name}) {
				t.Errorf("Service %s selects %v", service.Name, service.Spec.Selector)
			}
			continue
		}
		replicas = append(replicas, *o.Spec.Replicas)
		pod := o.Spec.Template
		if pod.Labels[labelBackground] != o.Name || pod.Labels["sidecar.istio.io/inject"] != "false" || pod.Labels[cluster.LabelRun] != "test-1" ||
			pod.Spec.NodeSelector["type"] != "kwok" || pod.Spec.Tolerations[0].Key != "kwok.x-k8s.io/node" || *pod.Spec.TerminationGracePeriodSeconds != 0 {
			t.Errorf("%s", step.Manifest.YAML)
		}
	}
	last := strings.Join(steps[len(steps)-1].Command, " ")
	if !slices.Equal(replicas, []int32{3, 3, 2}) || !strings.Contains(last, "--subresource status") || !strings.Contains(last, "pod/of-2") || strings.Count(last, "198.18.0.5") != 2 {
		t.Errorf("replicas %v, then %q", replicas, last)
	}
}

// Pods that do not get ready are counted, by the endpoints of background services alone.
func TestBackgroundPodsLate(t *testing.T) {
	slice := func(service string, pods ...string) discoveryv1.EndpointSlice {
		s := discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: service}}}
		for _, name := range pods {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{TargetRef: &corev1.ObjectReference{Name: name}})
		}
		return s
	}
	d := dryRunDeployment(t, 1, "", noMesh(t), "echo")
	d.spec.Treatment.Levels.BackgroundServices, d.spec.Treatment.Levels.BackgroundPods = 2, 5
	d.cluster = clustertest.Serve(t, map[string]any{"/apis/discovery.k8s.io/v1/namespaces/" + d.namespace + "/endpointslices": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("labelSelector") != labelBackground {
			t.Errorf("selector %q", r.URL.RawQuery)
		}
		clustertest.Answer(t, w, discoveryv1.EndpointSliceList{Items: []discoveryv1.EndpointSlice{slice("background-1", "a", "b", "c"), slice("background-2", "d"), slice("waypoint", "e")}})
	})})
	d.options.ReadyWithin = time.Second / 2
	err := d.background.pods.await(t.Context(), func(string) {})
	if err == nil || !strings.HasPrefix(err.Error(), "4 of 5 background pods are ready endpoints, after 500ms; ") || !strings.Contains(hint.Of(err), "KWOK must run") {
		t.Errorf("got %v", err)
	}
}

// Background pods need room on ready nodes of KWOK, before anything is created.
func TestRoomForBackgroundPods(t *testing.T) {
	node := func(ready corev1.ConditionStatus, pods string) corev1.Node {
		return corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	c := clustertest.Serve(t, map[string]any{"/api/v1/nodes": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list := corev1.NodeList{}
		if r.URL.Query().Get("labelSelector") == "type=kwok" {
			list.Items = []corev1.Node{node(corev1.ConditionTrue, "100"), node(corev1.ConditionUnknown, "50"), node(corev1.ConditionTrue, "20")}
		}
		clustertest.Answer(t, w, list)
	})})
	for pods, want := range map[int]string{0: "", 120: "", 121: "background.pods: 121 pods need simulated nodes, and ready ones labelled type: kwok have room for 120"} {
		err := New(Options{Cluster: c, BackgroundPods: pods}, nil).checkKWOK(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want || !strings.Contains(hint.Of(err), "install KWOK")) {
			t.Errorf("%d pods: %v", pods, err)
		}
	}
}

// The simulated proxies have a pod outside the mesh, which connects to the control plane of the trial's revision. Its container is no
// part of the application's, and its memory grows with the proxies. Without a mesh there is none.
func TestSimulatedProxies(t *testing.T) {
	istio := must.Get(must.Get(mesh.Load("istio"))(t).NextRevision("next"))(t)
	for _, m := range []mesh.Definition{noMesh(t), istio} {
		d := dryRunDeployment(t, 1, "", m, "echo")
		d.spec.Treatment.Levels.BackgroundServices, d.spec.Treatment.Levels.BackgroundProxies = 1024, 40
		before := len(d.cluster.Recorder().Steps())
		must.OK(t, d.background.start(t.Context()))
		must.OK(t, d.background.connect(t.Context()))
		steps := slices.DeleteFunc(d.cluster.Recorder().Steps()[before:], func(s cluster.Step) bool { return s.Manifest == nil })
		if m.Kubernetes == nil {
			if len(steps) > 0 {
				t.Errorf("without a mesh: %v", steps)
			}
			continue
		}
		if len(steps) != 1 {
			t.Fatalf("%d objects, want one", len(steps))
		}
		var pod corev1.Pod
		must.OK(t, yaml.Unmarshal(steps[0].Manifest.YAML, &pod))
		c := pod.Spec.Containers[0]
		want := []string{"proxies", "--listen", "127.0.0.1:9098", "--token-file", "/var/run/tare/token", "--control", "istiod-next.istio-system.svc:15010", "--count", "40",
			"--node", "sidecar~{ip}~simulated-{number}.tare-test-1-7~tare-test-1-7.svc.cluster.local", "--metadata"}
		if len(c.Args) != len(want)+1 || !slices.Equal(c.Args[:len(want)], want) || !strings.Contains(c.Args[len(want)], `"NAMESPACE": "tare-test-1-7"`) {
			t.Errorf("arguments %q", c.Args)
		}
		if pod.Kind != "Pod" || pod.Labels["sidecar.istio.io/inject"] != "false" || pod.Labels[cluster.LabelRun] != "test-1" || pod.Labels[labelService] != "" {
			t.Errorf("%s with labels %v", pod.Kind, pod.Labels)
		}
		if got := c.Resources.Limits.Memory().Value(); got != 512<<20+40*(256<<10+1024*512) {
			t.Errorf("a limit of %d bytes", got)
		}
		if task := d.tasks.attribute(mesh.Task{Namespace: d.namespace, Pod: pod.Name, Container: c.Name, Labels: pod.Labels}, "", true, false); task.Plane != metric.Harness {
			t.Errorf("its work is of plane %s", task.Plane)
		}
	}
}
