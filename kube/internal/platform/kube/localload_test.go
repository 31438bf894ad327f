package kube

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
)

// Load from this machine works with every value of platform.expose. Its running processes are tasks of the load plane, and
// the cluster has no load worker.
func TestLoadFromOutside(t *testing.T) {
	c := sharedCluster(t)
	for _, expose := range []string{exposeNodePort, exposeLoadBalancer} {
		t.Run(expose, func(t *testing.T) {
			t.Parallel()
			p := newReal(t, c, func(o *Options) {
				o.Outside, o.Expose, o.Agent = true, expose, filepath.Join(testPrograms, "tare-agent")
			})
			if expose == exposeLoadBalancer {
				go assignBalancers(t.Context(), c, p.options.Run)
			}
			spec := platformtest.Spec(t, noMesh(t), 2, "front", "back")
			d := must.Get(p.deploy(t.Context(), spec))(t)
			platformtest.Removed(t, d)
			t.Log(d.Entry())
			if len(d.Entry()) != 1 || len(d.entry.Warnings()) > 0 {
				t.Errorf("%d targets, warnings: %v", len(d.Entry()), d.entry.Warnings())
			}
			platformtest.Verified(t, d.verifier.Verify)
			load := must.Get(d.StartLoad(t.Context(), proc.Command{Path: "sleep", Args: []string{"60"}}))(t)
			if ids := loadTasks(t, d); len(ids) != 1 || !strings.HasPrefix(ids[0], "load/load") {
				t.Errorf("tasks of the load: %v", ids)
			}
			if err := load.Stop(t.Context(), time.Second); err != nil {
				t.Error(err)
			}
			if ids := loadTasks(t, d); len(ids) != 0 {
				t.Errorf("tasks of the load after its end: %v", ids)
			}
			if d.workers != nil || d.declare(p).LoadWorkers != nil {
				t.Error("the cluster has load workers")
			}
		})
	}
}

// The processes of the load are tasks while they run. stop ends them, and no other starts.
func TestLocalLoad(t *testing.T) {
	var lost error
	l := &localLoad{archive: archive{platform.Provenance(t.TempDir())}, lost: func() error { return lost }}
	sleep := proc.Command{Path: "sleep", Args: []string{"60"}}
	var ids []string
	for range 2 {
		must.Get(l.StartLoad(t.Context(), sleep))(t)
	}
	for _, task := range l.tasks() {
		ids = append(ids, task.ID)
	}
	if got := strings.Join(ids, " "); got != "load/load load/load-2" {
		t.Errorf("tasks %s", got)
	}
	if b, err := os.ReadFile(l.archive.Path("commands.sh")); err != nil || strings.Count(string(b), "sleep 60") != 2 {
		t.Errorf("archived commands: %s, %v", b, err)
	}
	lost = errors.New("pod echo-0 is gone")
	if _, err := l.StartLoad(t.Context(), sleep); !errors.Is(err, lost) {
		t.Errorf("with a lost pod: %v", err)
	}
	lost = nil
	if err := l.stop(t.Context()); err != nil {
		t.Error(err)
	}
	if n := len(l.tasks()); n > 0 {
		t.Errorf("%d tasks after stop", n)
	}
	if _, err := l.StartLoad(t.Context(), sleep); !errors.Is(err, errRemoved) {
		t.Errorf("after stop: %v", err)
	}
}

// Load that still runs is stopped with its trial.
func TestLocalLoadStops(t *testing.T) {
	c := sharedCluster(t)
	d := must.Get(newReal(t, c, func(o *Options) { o.Outside = true }).deploy(t.Context(), platformtest.Spec(t, noMesh(t), 1, "echo")))(t)
	load, err := d.StartLoad(t.Context(), proc.Command{Path: "sleep", Args: []string{"60"}})
	if err != nil {
		t.Error(err)
	}
	must.OK(t, d.Remove(t.Context()))
	if err := load.Wait(); err == nil {
		t.Error("the load ended by itself")
	}
	if _, err := d.StartLoad(t.Context(), proc.Command{Path: "sleep", Args: []string{"60"}}); err == nil {
		t.Error("load starts on a removed deployment")
	}
}

func loadTasks(t *testing.T, d platform.Running) (ids []string) {
	t.Helper()
	tasks := must.Get(d.Tasks(t.Context()))(t)
	for _, task := range tasks {
		if task.Plane == metric.Load {
			ids = append(ids, task.ID)
		}
	}
	return ids
}

// assignBalancers is a load balancer controller for the Services of a run. It assigns their cluster IPs.
func assignBalancers(ctx context.Context, c *cluster.Cluster, run string) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := c.Typed().CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: cluster.LabelRun + "=" + run})
		for i := 0; err == nil && i < len(list.Items); i++ {
			s := list.Items[i]
			if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.ClusterIP == "" || len(s.Status.LoadBalancer.Ingress) > 0 {
				continue
			}
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: s.Spec.ClusterIP}}
			patch, _ := json.Marshal(map[string]any{"status": s.Status}) // of strings alone
			_, _ = c.Typed().CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// The enrolment of a mesh depends on where the load is.
func TestOutsideAndMeshes(t *testing.T) {
	m := mesh.Definition{Name: "m", Kubernetes: &mesh.Kubernetes{Enrolment: mesh.Enrolment{
		Pod: mesh.Marks{Annotations: map[string]string{"load": "{{if .LoadInside}}inside{{else}}outside{{end}}"}}}}}
	d := dryRunDeployment(t, 1, "", m, "echo")
	p := d.options
	p.Outside, p.Expose = true, exposeNodePort
	e, err := enrol(p, m, "x", sampleFront)
	if err != nil || e.loadInside || e.Pod.Annotations["load"] != "outside" {
		t.Errorf("%+v, %v", e, err)
	}
	entry := d.manifests.service(d.spec.Entry())
	if entry.Spec.Type != corev1.ServiceTypeNodePort {
		t.Errorf("the entry's service is of type %s", entry.Spec.Type)
	}
	p.Outside = false
	if s := d.manifests.service(d.spec.Entry()); s.Spec.Type != "" {
		t.Errorf("with the load inside the entry's service is of type %s", s.Spec.Type)
	}
}
