package inplace

import (
	"encoding/json"
	"errors"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// Only workloads whose controllers replace every pod can be restarted.
func TestRestartable(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"deployment": {`{"kind": "Deployment", "metadata": {"name": "a"}, "spec": {}}`, ""},
		"rolling":    {`{"kind": "StatefulSet", "metadata": {"name": "a"}, "spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}}`, ""},
		"pod":        {`{"kind": "Pod", "metadata": {"name": "a"}}`, "Pod a has no controller"},
		"on delete":  {`{"kind": "DaemonSet", "metadata": {"name": "a"}, "spec": {"updateStrategy": {"type": "OnDelete"}}}`, "OnDelete"},
		"partition":  {`{"kind": "StatefulSet", "metadata": {"name": "a"}, "spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}}`, "partition 2"},
		"paused":     {`{"kind": "Deployment", "metadata": {"name": "a"}, "spec": {"paused": true}}`, "paused"},
	} {
		o := &unstructured.Unstructured{}
		must.OK(t, json.Unmarshal([]byte(c.text), &o.Object))
		if partition, ok, _ := unstructured.NestedFloat64(o.Object, "spec", "updateStrategy", "rollingUpdate", "partition"); ok { // as client-go decodes it
			_ = unstructured.SetNestedField(o.Object, int64(partition), "spec", "updateStrategy", "rollingUpdate", "partition")
		}
		err := restartable(o)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A patch sets only its own labels and annotations, and removes absent ones again.
func TestPatch(t *testing.T) {
	old := "off"
	x := changed{Pods: true, Changes: changesOf(mesh.Marks{Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"b": "2"}}, func(_, name string) *string {
		if name == "b" {
			return &old
		}
		return nil
	})}
	set, err := x.patch(x.Changes, func(c change) *string { return &c.Value })
	if want := `{"spec":{"template":{"metadata":{"annotations":{"b":"2"},"labels":{"a":"1"}}}}}`; err != nil || string(set) != want {
		t.Errorf("%s, %v, want %s", set, err, want)
	}
	back, err := x.patch(x.Changes, func(c change) *string { return c.Before })
	if want := `{"spec":{"template":{"metadata":{"annotations":{"b":"off"},"labels":{"a":null}}}}}`; err != nil || string(back) != want {
		t.Errorf("%s, %v, want %s", back, err, want)
	}
}

// A user who may write ConfigMaps of a namespace gets no further permission by a forged state.
func TestStateOfOthers(t *testing.T) {
	namespace := changed{Ref: cluster.Ref{Kind: cluster.KindNamespace, Name: "shop"}, Changes: []change{{Field: "labels", Name: "istio-injection"}}}
	pods := changed{Ref: cluster.Ref{Kind: cluster.KindDeployment, Namespace: "shop", Name: "web"}, Pods: true, Changes: []change{{Field: "annotations", Name: "a"}}}
	elsewhere, secret, owners, security := pods, pods, pods, namespace
	elsewhere.Ref.Namespace, secret.Pods = "kube-system", false
	owners.Changes = []change{{Field: "ownerReferences"}}
	security.Changes = []change{{Field: "labels", Name: "pod-security.kubernetes.io/enforce"}}
	if s := (state{Namespace: "shop", Objects: []changed{namespace, pods}}); !s.own("shop") || s.own("other") {
		t.Error("a state of tare")
	}
	for _, x := range []changed{elsewhere, secret, owners, security} {
		if s := (state{Namespace: "shop", Objects: []changed{namespace, x}}); s.own("shop") {
			t.Errorf("%+v is taken", x)
		}
	}
}

// A namespace is marked and its pods are replaced. Another process puts all back from the cluster alone, except a value
// that someone has changed since.
func TestRealInPlace(t *testing.T) {
	c := clustertest.Connect(t)
	namespace, _ := clustertest.Namespace(t, c)
	ctx := clustertest.Within(t, 3*time.Minute)
	labels, one, grace := map[string]string{"app": "a"}, int32(1), int64(0)
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"kept": "yes", "own": "before"}},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "a", Image: clustertest.Toolbox, ImagePullPolicy: corev1.PullNever, Command: []string{"sleep", "3600"}}}}}
	apps := c.Typed().AppsV1()
	must.Get(apps.Deployments(namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}, metav1.CreateOptions{}))(t)
	ref := cluster.Ref{Kind: cluster.KindDeployment, Namespace: namespace, Name: "a"}
	must.OK(t, c.WaitReady(ctx, nil, ref))
	read := func() (labels map[string]string, template corev1.PodTemplateSpec) {
		ns := must.Get(c.Typed().CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}))(t)
		d := must.Get(apps.Deployments(namespace).Get(ctx, "a", metav1.GetOptions{}))(t)
		return ns.Labels, d.Spec.Template
	}
	pods := func() (names []string) {
		list := must.Get(c.Typed().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{}))(t)
		for _, p := range list.Items {
			names = append(names, p.Name)
		}
		return names
	}
	labelsBefore, templateBefore := read()
	first := pods()

	dead := cluster.ThisProcess()
	ended := exec.Command("true")
	must.OK(t, ended.Run())
	dead.PID = ended.Process.Pid
	stamp := cluster.Stamp{Run: "test-in-place", Owner: dead}
	a := must.Get(Begin(ctx, c, stamp, namespace, []cluster.Ref{ref}, mesh.Marks{Labels: map[string]string{"mesh": "on"}}, mesh.Marks{Annotations: map[string]string{"own": "mesh"}}, Report{}))(t)
	must.OK(t, a.Restart(ctx, nil))
	marked, restarted := read()
	if restarted.Annotations[annotationRestarted] == "" {
		t.Errorf("%v, %v", marked, restarted.Annotations)
	} else if d := difftest.Of(`marked["mesh"]`, marked["mesh"], "on", `restarted.Annotations["own"]`, restarted.Annotations["own"], "mesh", `restarted.Annotations["kept"]`, restarted.Annotations["kept"], "yes"); d != "" {
		t.Errorf("%s: %v, %v", d, marked, restarted.Annotations)
	}
	if second := pods(); len(second) != 1 || slices.Equal(first, second) {
		t.Errorf("pods %v, then %v", first, second)
	}
	// Nothing of it is in the process that puts it back.
	must.OK(t, c.Patch(ctx, cluster.Ref{Kind: cluster.KindNamespace, Name: namespace}, []byte(`{"metadata":{"labels":{"mesh":"mine"}}}`)))
	var reported []string
	must.OK(t, Restore(ctx, c, namespace, Report{Notice: func(s string) { reported = append(reported, s) }}))
	labelsAfter, templateAfter := read()
	if labelsAfter["mesh"] != "mine" || !strings.Contains(strings.Join(reported, "\n"), "changed by another user") {
		t.Errorf("a label that was changed since is %q; %q", labelsAfter["mesh"], reported)
	}
	delete(labelsAfter, "mesh")
	if !maps.Equal(labelsBefore, labelsAfter) || !maps.Equal(templateBefore.Annotations, templateAfter.Annotations) || !maps.Equal(templateBefore.Labels, templateAfter.Labels) {
		t.Errorf("before %v %v, after %v %v", labelsBefore, templateBefore.Annotations, labelsAfter, templateAfter.Annotations)
	}
	if _, err := c.Get(ctx, stateRef(namespace)); !cluster.IsNotFound(err) {
		t.Errorf("the stored values are left: %v", err)
	}
	if err := Restore(ctx, c, namespace, Report{}); err != nil {
		t.Errorf("a second time: %v", err)
	}
	// A later trial of the treatment has the same revision.
	a = must.Get(Begin(ctx, c, stamp, namespace, []cluster.Ref{ref}, mesh.Marks{}, mesh.Marks{Annotations: map[string]string{"own": "mesh"}}, Report{}))(t)
	must.OK(t, errors.Join(a.Restart(ctx, nil), a.Restore(ctx, Report{})))
	revisions, err := apps.ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(revisions.Items) != 2 {
		t.Errorf("%d revisions in the rollout history, want 2: %v", len(revisions.Items), err)
	}
	// A mesh whose labels could not be taken back is refused before it changes anything.
	_, err = Begin(ctx, c, stamp, namespace, []cluster.Ref{ref}, mesh.Marks{Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}, mesh.Marks{}, Report{})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a label for pod security: %v", err)
	}
	if labels, _ := read(); labels["pod-security.kubernetes.io/enforce"] != "" {
		t.Errorf("labels %v", labels)
	}
}
