package kubecli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// An adopted cluster runs three working applications of others: a trial beside them is valid, and the report lists the
// applications with their CPU.
func TestKubernetesBesideOthers(t *testing.T) {
	r := experimentOnKubernetes(t, `
factors: {mesh: [none], rate: [50], connections: [2]}
load: {arrivals: constant}
phases: {warmup: 2s, measure: 5s, drain: 1s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
blocks: 1
`)
	namespace := othersWork(t, r.cluster, 3)
	g := guard.New(r.cluster)
	accepted := must.Get(g.Foreign(t.Context()))(t)
	must.Get(g.Adopt(t.Context(), accepted))(t)
	t.Cleanup(func() {
		if err := g.Release(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, record := range r.records(t, console.Done, nil) {
		if !usable(record) {
			t.Errorf("%s: %s%+v", record.ID, record.Error, record.Warnings)
		}
		if used, tasks := usedBy(record, metric.Foreign); tasks < 3 || used == 0 {
			t.Errorf("%s: %d tasks of others used %d ns", record.ID, tasks, used)
		}
		if _, tasks := usedBy(record, metric.Unattributed); tasks != 0 {
			t.Errorf("%s: %d tasks without attribution rule", record.ID, tasks)
		}
	}
	out, err := exec.Command(filepath.Join(r.bin, "tare"), "report", r.dir).CombinedOutput()
	for i := range 3 {
		if name := fmt.Sprintf("%s/work-%d (0.", namespace, i); err != nil || !strings.Contains(strings.Join(strings.Fields(string(out)), " "), name) {
			t.Errorf("the report lacks %q: %v\n%s", name, err, out)
		}
	}
}

// othersWork deploys applications that use some CPU all the time, in a namespace that it returns, and waits until they run.
func othersWork(t *testing.T, k *cluster.Cluster, applications int) string {
	t.Helper()
	const namespace = "others"
	core, apps := k.Typed().CoreV1(), k.Typed().AppsV1()
	must.Get(core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))(t)
	clustertest.Removed(t, k, namespace)
	for i := range applications {
		name := fmt.Sprintf("work-%d", i)
		labels := map[string]string{"app": name}
		zero, no := int64(0), false
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: &zero, AutomountServiceAccountToken: &no,
				Containers: []corev1.Container{{Name: "sh", Image: os.Getenv("TARE_TEST_TOOLBOX"), ImagePullPolicy: corev1.PullNever,
					Command: []string{"/bin/busybox", "sh", "-c", "while :; do for i in 0 1 2 3 4 5 6 7 8 9; do echo $i; done; sleep 0.02; done >/dev/null"}}},
			}}}}
		must.Get(apps.Deployments(namespace).Create(t.Context(), d, metav1.CreateOptions{}))(t)
		must.OK(t, k.WaitReady(t.Context(), nil, cluster.Ref{Kind: cluster.KindDeployment, Namespace: namespace, Name: name}))
	}
	pods, err := core.Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != applications || slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning }) {
		t.Fatalf("%d pods, %v", len(pods.Items), err)
	}
	return namespace
}

// The permissions that `cluster rbac --for` prints are enough to copy a running application, with kubelets as the meter, and
// with node agents on a disposable cluster. The copy has none of tare's objects, such as the Role that permits the copy.
func TestKubernetesPrintedPermissions(t *testing.T) {
	const text = `
application: {namespace: desk, entry: front}
factors: {mesh: [none], rate: [20], connections: [2]}
phases: {warmup: 2s, measure: 5s, drain: 1s, idle: {cpu: 100, deadline: 1s}}
validity: {errorRatio: 0.05, rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
blocks: 1
`
	if testing.Short() {
		t.Skip("runs experiments")
	}
	c := clustertest.Connect(t)
	must.Get(kubernetesPrograms())(t)                                                                                    // loads the image
	apply := exec.Command(os.Getenv("TARE_TEST_KUBECTL"), "--kubeconfig", clustertest.Kubeconfig(t), "apply", "-f", "-") // as its owner does, without marks of a run
	apply.Stdin = strings.NewReader(deskObjects)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	clustertest.Removed(t, c, "desk")
	workloads := []cluster.Ref{{Kind: cluster.KindDeployment, Namespace: "desk", Name: "front"}, {Kind: cluster.KindStatefulSet, Namespace: "desk", Name: "back"}}
	must.OK(t, c.WaitReady(t.Context(), nil, workloads...))
	for _, meter := range []string{session.MeterKubelet, session.MeterNodeAgent} {
		t.Run(meter, func(t *testing.T) {
			r := experimentOnKubernetes(t, text)
			if meter == session.MeterNodeAgent {
				disposable(t, c)
				for i := range r.args {
					r.args[i] = strings.ReplaceAll(r.args[i], "inUse: allow, ", "")
				}
			}
			r.limit(t)
			for _, record := range r.records(t, console.Done, nil) {
				if !usable(record) {
					t.Errorf("%s: %s%+v", record.ID, record.Error, record.Warnings)
				}
			}
		})
	}
}

// limit gives the run only the permissions that are printed for it.
func (r *onKubernetes) limit(t *testing.T) {
	t.Helper()
	kubeconfig := clustertest.Kubeconfig(t)
	platform := r.args[slices.IndexFunc(r.args, func(arg string) bool { return strings.HasPrefix(arg, "platform=") })]
	account := limitedAccount(t, r.cluster, kubeconfig, r.bin, "--for", r.args[1], "--set", platform)
	for i := range r.args {
		r.args[i] = strings.ReplaceAll(r.args[i], kubeconfig, account)
	}
}
