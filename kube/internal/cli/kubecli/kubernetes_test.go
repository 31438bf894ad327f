package kubecli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// onKubernetes is a run on the test cluster.
type onKubernetes struct {
	cluster *cluster.Cluster
	bin     string
	dir     string // of results
	args    []string
}

// kubernetesPrograms builds tare and tare-agent, and loads tare-agent's image onto the nodes, once.
var kubernetesPrograms = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tare-kubernetes-test-")
	if err != nil {
		return "", err
	}
	sharedPrograms = dir
	if err := programtest.Build(dir, "tare", "tare-kube", "tare-agent"); err != nil {
		return "", err
	}
	archive := filepath.Join(dir, "agent.tar")
	for _, cmd := range []*exec.Cmd{
		exec.Command(filepath.Join(dir, "tare"), "cluster", "image", "build", "--tag", kubernetesImage, "-o", archive),
		exec.Command(os.Getenv("TARE_TEST_CLUSTER"), "load-image", archive),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", errors.New(cmd.String() + ": " + err.Error() + ": " + string(out))
		}
	}
	return dir, nil
})

// sharedPrograms is their directory; empty until they are built.
var sharedPrograms string

const kubernetesImage = "tare.test/tare-agent:cmd-tare"

// experimentOnKubernetes prepares a run of an experiment without a platform section.
func experimentOnKubernetes(t *testing.T, text string, set ...string) *onKubernetes {
	t.Helper()
	return fileOnKubernetes(t, []byte("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: test}\n"+text), set...)
}

// fileOnKubernetes prepares a run of a complete file.
func fileOnKubernetes(t *testing.T, text []byte, set ...string) *onKubernetes {
	t.Helper()
	if testing.Short() {
		t.Skip("runs an experiment")
	}
	path := clustertest.Kubeconfig(t)
	bin := must.Get(kubernetesPrograms())(t)
	c := must.Get(cluster.Connect(t.Context(), cluster.Options{Kubeconfig: path}))(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "experiment.yaml")
	must.OK(t, os.WriteFile(file, text, 0o600))
	r := &onKubernetes{cluster: c, bin: bin, dir: filepath.Join(dir, "run")}
	r.args = []string{"run", file, "--plain", "--out", r.dir, "--set", "platform={kind: kubernetes, inUse: allow, image: '" + kubernetesImage + "', kubeconfig: " + path + "}"}
	for _, s := range set {
		r.args = append(r.args, "--set", s)
	}
	t.Cleanup(func() { r.nothingLeft(t) })
	return r
}

// start starts tare. Its output goes to the test's log when the test ends.
func (r *onKubernetes) start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(r.bin, "tare"), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	t.Cleanup(func() { t.Log(out.String()) })
	must.OK(t, cmd.Start())
	return cmd
}

// records runs tare, calls a function when the first measure phase begins, and checks the exit code.
func (r *onKubernetes) records(t *testing.T, want int, during func()) []result.Record {
	t.Helper()
	cmd := r.start(t, r.args...)
	if during != nil {
		r.awaitMeasure(t)
		during()
	}
	_ = cmd.Wait()
	all := r.recorded(t)
	if code := exitCodeOf(cmd, all...); code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
	consistent(t, r.dir)
	return all
}

// consistent requires that the results of a run do not contradict one another.
func consistent(t *testing.T, dir string) {
	t.Helper()
	if found, err := call(t, "verify", dir); err != nil {
		t.Errorf("verify: %v\n%s", err, found)
	}
}

// usable reports whether a trial is valid but for a backlog at either end of the measure phase, as on a busy machine.
func usable(r result.Record) bool {
	return r.Error == "" && !slices.ContainsFunc(r.Warnings, func(w result.Warning) bool {
		return w.Invalidates && w.Code != "rate-exceeded" && w.Code != "rate-missed"
	})
}

// exitCodeOf returns the exit code of a run, or the code of valid trials if these are usable.
func exitCodeOf(run *exec.Cmd, trials ...result.Record) int {
	code := run.ProcessState.ExitCode()
	if code == console.Incomplete && !slices.ContainsFunc(trials, func(r result.Record) bool { return !usable(r) }) {
		return console.Done
	}
	return code
}

func (r *onKubernetes) recorded(t *testing.T) []result.Record {
	t.Helper()
	d := must.Get(result.Open(r.dir))(t)
	defer d.Close()
	return must.Get(d.Records())(t)
}

// awaitMeasure waits until a trial is in its measure phase.
func (r *onKubernetes) awaitMeasure(t *testing.T) {
	t.Helper()
	r.awaitPhase(t, "measure")
}

// awaitPhase waits until a trial is in a phase.
func (r *onKubernetes) awaitPhase(t *testing.T, phase string) {
	t.Helper()
	deadline, tick := time.After(4*time.Minute), time.NewTicker(200*time.Millisecond)
	defer tick.Stop()
	for {
		files, _ := filepath.Glob(filepath.Join(r.dir, result.TrialsDir, "*", result.EventsFile))
		for _, file := range files {
			if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte(`"phase":"`+phase+`"`)) {
				return
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no phase %s", phase)
		}
	}
}

// nothingLeft requires that the run's namespaces and its Lease are removed.
func (r *onKubernetes) nothingLeft(t *testing.T) {
	t.Helper()
	list, err := r.cluster.Typed().CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{LabelSelector: cluster.LabelRun})
	if err != nil {
		t.Error(err)
		return
	}
	for _, ns := range list.Items {
		if strings.HasPrefix(ns.Name, "tare-test-") {
			t.Errorf("namespace %s is left", ns.Name)
		}
	}
	if h, held, err := guard.New(r.cluster).Holder(context.Background()); held || err != nil {
		t.Errorf("the Lease is left: %s, %v", h, err)
	}
}

// second starts another run on the cluster and returns its output. It must be refused.
func (r *onKubernetes) second(t *testing.T) string {
	t.Helper()
	args := slices.Clone(r.args)
	args[slices.Index(args, "--out")+1] = filepath.Join(t.TempDir(), "second")
	out, err := exec.Command(filepath.Join(r.bin, "tare"), args...).CombinedOutput()
	if err == nil {
		t.Errorf("a second run is accepted:\n%s", out)
	}
	return string(out)
}

func usedBy(r result.Record, plane metric.Plane) (ns int64, tasks int) {
	for _, task := range r.Tasks {
		if task.Plane == plane {
			ns += task.End.CPU - task.Start.CPU
			tasks++
		}
	}
	return ns, tasks
}

func warned(r result.Record, code string) bool {
	return slices.ContainsFunc(r.Warnings, func(w result.Warning) bool { return w.Code == code })
}

// One service under the load of three workers, with the permissions that are printed for it: each request of the schedule
// is sent by exactly one of them.
func TestKubernetesThreeWorkers(t *testing.T) {
	r := experimentOnKubernetes(t, `
factors: {rate: [70], connections: [3]}
load: {workers: 3, arrivals: constant}
phases: {warmup: 3s, measure: 20s, drain: 2s}
blocks: 1
`)
	r.limit(t)
	all := r.records(t, console.Done, nil)
	if len(all) != 1 || !usable(all[0]) || all[0].Load == nil {
		t.Fatalf("%+v", all)
	}
	if l := all[0].Load; l.Intended != 70*20 {
		t.Errorf("%d requests were intended and %d sent at %v/s over %d connections, want 1400 at 70/s over 3", l.Intended, l.Sent, l.AskedRate, l.Connections)
	} else if d := difftest.Of("l.Sent", l.Sent, l.Intended, "l.AskedRate", l.AskedRate, 70, "l.Connections", l.Connections, 3); d != "" {
		t.Errorf("%s: %d requests were intended and %d sent at %v/s over %d connections, want 1400 at 70/s over 3", d, l.Intended, l.Sent, l.AskedRate, l.Connections)
	}
	if ns, tasks := usedBy(all[0], metric.App); ns <= 0 || tasks != 1 {
		t.Errorf("%d tasks of the application used %d ns", tasks, ns)
	}
	if ns, tasks := usedBy(all[0], metric.Load); ns <= 0 || tasks != 3 {
		t.Errorf("%d tasks of the load used %d ns", tasks, ns)
	}
	if ns, tasks := usedBy(all[0], metric.Platform); ns <= 0 || tasks < 1 {
		t.Errorf("%d tasks of the cluster used %d ns", tasks, ns)
	}
	if ns, tasks := usedBy(all[0], metric.Node); ns <= 0 || tasks < 2 {
		t.Errorf("%d tasks of the node used %d ns", tasks, ns)
	}
	files := must.Get(filepath.Glob(filepath.Join(r.dir, result.TrialsDir, "*", result.ProvenanceDir, "*")))(t)
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f))
		b := must.Get(os.ReadFile(f))(t)
		if f := filepath.Base(f); f == "manifests.yaml" && (!bytes.Contains(b, []byte("token: not recorded")) || !bytes.Contains(b, []byte("completions: 3"))) {
			t.Errorf("%s:\n%s", f, b)
		}
	}
	for _, want := range []string{"manifests.yaml", "pods.yaml", "commands.sh", "echo-0-app.log", "load-0-load.log", "load-profile.json"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in provenance: %v", want, names)
		}
	}
}

// A load worker of three that ends in the measure phase is named. Its trial is invalid, and the next one has new workers, which
// start together.
func TestKubernetesWorkerLost(t *testing.T) {
	r := experimentOnKubernetes(t, `
factors: {rate: [60], connections: [6]}
load: {workers: 3}
phases: {warmup: 3s, measure: 7s, drain: 2s, idle: {cpu: 100, deadline: 1s}}
validity: {rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
blocks: 2
`)
	lost := ""
	all := r.records(t, console.Incomplete, func() {
		pods := r.cluster.Typed().CoreV1().Pods(metav1.NamespaceAll)
		list := must.Get(pods.List(t.Context(), metav1.ListOptions{LabelSelector: "tare.dev/service=load,batch.kubernetes.io/job-completion-index=1"}))(t)
		if len(list.Items) != 1 {
			t.Fatalf("%d second workers", len(list.Items))
		}
		lost = list.Items[0].Namespace + "/" + list.Items[0].Name
		now := int64(0)
		must.OK(t, r.cluster.Typed().CoreV1().Pods(list.Items[0].Namespace).Delete(t.Context(), list.Items[0].Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	})
	if len(all) != 2 || all[0].Valid || !usable(all[1]) || all[1].Load == nil {
		t.Fatalf("want an invalid and a valid trial: %+v", all)
	}
	i := slices.IndexFunc(all[0].Warnings, func(w result.Warning) bool { return w.Code == "task-died" })
	if i < 0 || !strings.Contains(all[0].Warnings[i].Message, "load-1 of pod "+lost) {
		t.Errorf("the worker %s is not named: %+v", lost, all[0].Warnings)
	}
	if _, tasks := usedBy(all[1], metric.Load); tasks != 3 {
		t.Errorf("%d workers in the second trial, want 3", tasks)
	}
	if l := all[1].Load; l.Workers != 3 {
		t.Errorf("%d workers in the second trial, want 3: %+v", l.Workers, l)
	}
}

// The Faces topology, with gRPC and idle services. The API server is paused for 13 s of the measure
// phase, longer than one attempt of a request lasts.
func TestKubernetesFacesWithoutAPIServer(t *testing.T) {
	r := experimentOnKubernetes(t, `
application: {topology: faces}
factors: {rate: [50], connections: [4]}
phases: {warmup: 3s, measure: 18s, drain: 2s, idle: {cpu: 100, deadline: 1s}}
blocks: 1
`)
	all := r.records(t, console.Done, func() {
		const server = "kube-apiserver"
		signalDaemon(t, server, "stop")
		timer := time.NewTimer(13 * time.Second)
		defer timer.Stop()
		<-timer.C
		signalDaemon(t, server, "cont")
	})
	if len(all) != 1 || !usable(all[0]) {
		t.Fatalf("%+v", all)
	}
	if l := all[0].Load; l.Classes["2xx"] != l.Sent || l.Sent < 810 {
		t.Errorf("%d of %d requests were answered", l.Classes["2xx"], l.Sent)
	}
	if !warned(all[0], "meter-gap") {
		t.Errorf("the gap is not marked: %+v", all[0].Warnings)
	}
	if _, tasks := usedBy(all[0], metric.App); tasks != 8 {
		t.Errorf("%d services, want 8", tasks)
	}
}

func signalDaemon(t *testing.T, daemon, name string) {
	t.Helper()
	if out, err := exec.Command(os.Getenv("TARE_TEST_CLUSTER"), "signal", daemon, name).CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v: %s", name, daemon, err, out)
	}
}

// A pod that ends in the measure phase invalidates its trial and not the next one. After SIGKILL of tare the next run
// removes the remaining objects first.
func TestKubernetesKilled(t *testing.T) {
	r := experimentOnKubernetes(t, `
application: {topology: chain-2}
factors: {rate: [50], connections: [4]}
phases: {warmup: 3s, measure: 7s, drain: 2s, idle: {cpu: 100, deadline: 1s}}
validity: {rateShortfall: 0.5, generatorCPU: 1, lateness: 10s}
blocks: 2
`)
	cmd := r.start(t, r.args...)
	r.awaitMeasure(t)
	pods := r.cluster.Typed().CoreV1().Pods(metav1.NamespaceAll)
	list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "tare.dev/service=back"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d pods of back, %v", len(list.Items), err)
	}
	back := list.Items[0]
	must.OK(t, r.cluster.Typed().CoreV1().Pods(back.Namespace).Delete(t.Context(), back.Name, metav1.DeleteOptions{}))
	must.Contain(t, r.second(t), "another run measures on the cluster", "lease kube-system/tare")
	second := strings.TrimSuffix(back.Namespace, "-1") + "-2"
	await(t, "the second trial", func() bool {
		list, err := r.cluster.Typed().CoreV1().Pods(second).List(t.Context(), metav1.ListOptions{LabelSelector: "tare.dev/service=back"})
		return err == nil && len(list.Items) == 1
	})
	must.OK(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	all := r.recorded(t)
	if len(all) != 1 || all[0].Valid || !warned(all[0], "task-died") {
		t.Fatalf("%+v", all)
	}
	for _, w := range all[0].Warnings {
		if w.Code == "task-died" && !strings.Contains(w.Message, "back-0 of pod "+back.Namespace+"/"+back.Name) {
			t.Errorf("the message does not name it: %s", w.Message)
		}
	}
	// The second trial runs again under the same name.
	again := r.start(t, "run", "--resume", r.dir, "--plain", "--format", "json")
	_ = again.Wait()
	all = r.recorded(t)
	if len(all) != 2 || !usable(all[1]) {
		b, _ := json.MarshalIndent(all, "", " ")
		t.Fatalf("after the resumption: %s", b)
	}
	if code := exitCodeOf(again, all[len(all)-1]); code != console.Done {
		t.Errorf("exit code %d of the resumed run, whose own trial was good", code)
	}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.After(3*time.Minute), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited for %s in vain", what)
		}
	}
}

// A killed pod, and a replica that is removed and restored: the trial is still measured, and each instance of the pods is
// a task of its own.
func TestKubernetesFaults(t *testing.T) {
	r := experimentOnKubernetes(t, `
application: {topology: chain-2}
factors: {rate: [40], connections: [4], replicas: [2]}
phases: {warmup: 4s, measure: 24s, drain: 2s, idle: {cpu: 100, deadline: 1s}}
validity: {generatorCPU: 1, lateness: 10s}
faults:
- {kind: kill, at: 2s, for: 1s, target: {service: back, replica: 0}}
- {kind: scale, by: -1, at: 8s, for: 3s, target: {service: back, replica: 1}}
blocks: 1
`)
	all := r.records(t, console.Done, nil)
	if len(all) != 1 || !usable(all[0]) || all[0].Load == nil {
		t.Fatalf("%d trials, which must be 1 and valid", len(all))
	}
	if f := all[0].Faults; len(f) != 2 {
		t.Errorf("%+v", f)
	} else if d := difftest.Wrong("f[0].Healed.IsZero()", f[0].Healed.IsZero(), "f[1].Healed.IsZero()", f[1].Healed.IsZero(), `!slices.Equal(f[0].Targets, []string{"back-0/app"})`, !slices.Equal(f[0].Targets, []string{"back-0/app"}), `!slices.Equal(f[1].Targets, []string{"back-1"})`, !slices.Equal(f[1].Targets, []string{"back-1"})); d != "" {
		t.Errorf("%s: %+v", d, f)
	}
	if l := all[0].Load; l.Classes["2xx"] < l.Sent/2 {
		t.Errorf("%d of %d requests were answered", l.Classes["2xx"], l.Sent)
	}
	ended := map[string]bool{}
	for _, task := range all[0].Tasks {
		if task.Service == "back" {
			ended[task.ID] = task.Ended
			if used := task.End.CPU - task.Start.CPU; used <= 0 || task.Missing != "" {
				t.Errorf("%s used %d ns; %s", task.ID, used, task.Missing)
			}
		}
	}
	if want := map[string]bool{"back-0/app": true, "back-0/app.2": false, "back-1/app": true, "back-1/app.2": false}; !maps.Equal(ended, want) {
		t.Errorf("ended: %v, want %v", ended, want)
	}
}
