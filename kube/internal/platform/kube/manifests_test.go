package kube

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func dryRunDeployment(t *testing.T, nodes int, affinity string, m mesh.Definition, topology string) *deployment {
	t.Helper()
	c := must.Get(cluster.Connect(t.Context(), cluster.Options{Recorder: &cluster.Recorder{}}))(t)
	services := must.Get(app.Load(topology))(t)
	var all []Node
	for range nodes {
		all = append(all, Node{Schedulable: true})
	}
	p := New(Options{Cluster: c, Run: "test-1", Image: "localhost/tare-agent:test", Affinity: affinity, Meshes: newBatches(c), Workers: 2}, all)
	d := must.Get(p.deploy(t.Context(), platform.Spec{Topology: services, Mesh: m, Provenance: t.TempDir(), Trial: plan.Trial{Ordinal: 7},
		Treatment: plan.Treatment{Levels: experiment.Levels{Replicas: 3, Protocol: "http1"}}}))(t)
	return d
}

// Placement depends on platform.affinity and the number of nodes.
func TestPlacement(t *testing.T) {
	for name, c := range map[string]struct {
		nodes      int
		affinity   string
		spread     bool
		role, load string
	}{
		"one node":       {1, "", false, "", ""},
		"three nodes":    {3, affinityAuto, true, "", ""},
		"labelled nodes": {5, AffinityLabels, true, RoleApplication, RoleLoad},
		"anywhere":       {5, affinityNone, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := dryRunDeployment(t, c.nodes, c.affinity, noMesh(t), "echo")
			pod := d.manifests.workload(d.spec.Entry(), d.manifests.servicePod(d.spec.Entry())).Spec.Template.Spec
			load := d.manifests.loadJob().Spec.Template.Spec
			if got := len(pod.TopologySpreadConstraints) == 1 && len(load.TopologySpreadConstraints) == 1; got != c.spread {
				t.Errorf("spread: %v", pod.TopologySpreadConstraints)
			}
			if pod.NodeSelector[LabelRole] != c.role || load.NodeSelector[LabelRole] != c.load {
				t.Errorf("the application on %v, the load on %v", pod.NodeSelector, load.NodeSelector)
			}
			if away := load.Affinity != nil; away != c.spread {
				t.Errorf("the load's affinity: %v", load.Affinity)
			}
		})
	}
}

// The factor placement acts in a dry run too, where nodes are not known. A run refuses it without permission to list them.
func TestPlacementWithoutNodes(t *testing.T) {
	for level, alone := range map[string]bool{sameNode: false, otherNodes: true} {
		d := dryRunDeployment(t, 0, "", noMesh(t), "echo")
		d.spec.Treatment.Levels.Placement = level
		pod := d.manifests.workload(d.spec.Entry(), d.manifests.servicePod(d.spec.Entry())).Spec.Template.Spec
		if pod.Affinity == nil || (pod.Affinity.PodAntiAffinity != nil) != alone || (pod.Affinity.PodAffinity != nil) == alone {
			t.Errorf("%s: %+v", level, pod.Affinity)
		}
		if err := New(*d.options, nil).checkPlacement(d.spec); err != nil {
			t.Errorf("%s in a dry run: %v", level, err)
		}
		err := New(Options{Cluster: clustertest.Serve(t, nil)}, nil).checkPlacement(d.spec)
		must.Fail(t, err, "the permission to list nodes is missing", level)
	}
}

// Ports are named for their protocol. The entry's URL is its DNS name, with the method for gRPC.
func TestServicePorts(t *testing.T) {
	d := dryRunDeployment(t, 1, "", noMesh(t), "faces")
	if got := d.Entry(); !slices.Equal(got, []string{"http://face.tare-test-1-7.svc:8080/"}) {
		t.Errorf("%v", got)
	}
	for name, want := range map[string]portProtocol{"smiley": {"http", "http"}, "color": {"grpc", "grpc"}} {
		s, _ := d.spec.Topology.Service(name)
		port := d.manifests.service(s).Spec.Ports[0]
		if port.Name != want.name || *port.AppProtocol != want.app || port.TargetPort.StrVal != d.manifests.servicePod(s).Containers[0].Ports[0].Name {
			t.Errorf("%s: %+v", name, port)
		}
	}
	d.spec.Topology.Entry = "color"
	if got := d.Entry(); len(got) != 1 || !strings.HasSuffix(got[0], ":8080"+app.GRPCMethod) {
		t.Errorf("%v", got)
	}
}

// A mesh's labels and annotations are on the namespace and on the pods of services and load. Its manifests are applied before
// the pods.
func TestEnrolment(t *testing.T) {
	m := mesh.Definition{Name: "m", Kubernetes: &mesh.Kubernetes{Enrolment: mesh.Enrolment{
		Namespace: mesh.Marks{Labels: map[string]string{"inject": "yes"}},
		Pod:       mesh.Marks{Annotations: map[string]string{"proxy": "yes"}},
		Manifests: []string{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-mesh}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: another}\n"},
	}}}
	d := dryRunDeployment(t, 1, "", m, "echo")
	ns := &corev1.Namespace{}
	d.enrolment.markNamespace(ns)
	pod := d.manifests.workload(d.spec.Entry(), d.manifests.servicePod(d.spec.Entry())).Spec.Template
	load := d.manifests.loadJob().Spec.Template
	if ns.Labels["inject"] != "yes" || pod.Annotations["proxy"] != "yes" || load.Annotations["proxy"] != "yes" {
		t.Errorf("%v, %v, %v", ns.Labels, pod.Annotations, load.Annotations)
	}
	applied := must.Get(os.ReadFile(filepath.Join(d.spec.Provenance, manifestsFile)))(t)
	of, service := bytes.Index(applied, []byte("# configmap tare-test-1-7/another\n")), bytes.Index(applied, []byte("# deployment tare-test-1-7/echo\n"))
	if !bytes.Contains(applied, []byte("# configmap tare-test-1-7/of-mesh\n")) || of < 0 || service < of {
		t.Errorf("the mesh's manifests are not applied before the pods:\n%s", applied)
	}
	d.options.Meshes = nil
	if _, err := enrol(d.options, m, "x", sampleFront); err == nil {
		t.Error("a mesh is enrolled although none can be installed")
	}
}

// The loss of a pod or container is described with its reason.
func TestLossOf(t *testing.T) {
	pod := func(edit func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "app", RestartCount: 2, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		}}
		edit(p)
		return p
	}
	before := containerStates{"init": {0, true}, "app": {2, false}}
	now := metav1.Now()
	for name, c := range map[string]struct {
		edit      func(*corev1.Pod)
		gone      bool
		container string
		why       string
	}{
		"nothing": {edit: func(*corev1.Pod) {}},
		"deleted": {edit: func(p *corev1.Pod) { p.DeletionTimestamp = &now }, why: "is gone: it was deleted"},
		"gone":    {edit: func(*corev1.Pod) {}, gone: true, why: "is gone: it was deleted"},
		"evicted": {edit: func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "Evicted", "disk" }, why: "is gone: Evicted: disk"},
		"out of memory": {edit: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].RestartCount = 3
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
		}, container: "app", why: "was restarted: it was killed (OOMKilled)"},
		"ended": {edit: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}}
		}, container: "app", why: "ended: exit status 1 (Error)"},
	} {
		container, why, advice := lossOf(pod(c.edit), c.gone, before)
		if container != c.container || why != c.why || (advice == "") != (why == "") {
			t.Errorf("%s: %q, %q, hint %q", name, container, why, advice)
		}
	}
}

// Containers are attributed by namespace and priority. Those of another run are unattributed.
func TestAttribution(t *testing.T) {
	d := dryRunDeployment(t, 1, "", noMesh(t), "echo")
	ofTare := map[string]string{cluster.LabelManagedBy: cluster.ManagedBy}
	for _, c := range []struct {
		task   mesh.Task
		system bool
		want   metric.Plane
	}{
		{mesh.Task{Namespace: d.namespace, Container: "app", Labels: ofTare}, false, metric.App},
		{mesh.Task{Namespace: d.namespace, Container: "load", Labels: ofTare}, false, metric.Load},
		{mesh.Task{Namespace: d.namespace, Container: "istio-proxy", Labels: ofTare}, false, metric.Unattributed},
		{mesh.Task{Namespace: "tare-other-1", Container: "app", Labels: ofTare}, false, metric.Unattributed},
		{mesh.Task{Namespace: "kube-system", Container: "coredns"}, true, metric.Platform},
		{mesh.Task{Namespace: "monitoring", Container: "agent"}, true, metric.Platform}, // by its priority
		{mesh.Task{Namespace: "shop", Container: "app"}, false, metric.Unattributed},
	} {
		if got := d.tasks.attribute(c.task, "", c.task.Namespace == d.namespace, c.system); got.Plane != c.want {
			t.Errorf("%+v", got)
		}
	}
}

// The archived manifest of a Secret has no values.
func TestRedactSecret(t *testing.T) {
	text, err := redactSecret([]byte("apiVersion: v1\nkind: Secret\nstringData: {token: swordfish}\ndata: {a: c3dvcmRmaXNo}\n"))
	if err != nil {
		t.Errorf("%s, %v", text, err)
	} else if d := difftest.Wrong(`bytes.Contains(text, []byte("swordfish"))`, bytes.Contains(text, []byte("swordfish")), `bytes.Contains(text, []byte("c3dv"))`, bytes.Contains(text, []byte("c3dv")), `!bytes.Contains(text, []byte("token: not recorded"))`, !bytes.Contains(text, []byte("token: not recorded"))); d != "" {
		t.Errorf("%s: %s, %v", d, text, err)
	}
}
