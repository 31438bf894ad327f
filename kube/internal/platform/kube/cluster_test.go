package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/image"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/platformtest"
	"github.com/tare-mesh/tare/test/programtest"
)

const agentImage = "tare.test/tare-agent:platform-kube"

// realCluster connects to the test cluster and loads the image into it, once.
func realCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := clustertest.Connect(t)
	must.OK(t, loadImage())
	return c
}

// sharedCluster is [realCluster] for a test whose objects are all in namespaces of its own:
// it runs beside other such tests, after those that change the cluster.
func sharedCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	t.Parallel()
	return realCluster(t)
}

var loadImage = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "tare-kube-test-")
	if err != nil {
		return err
	}
	testPrograms = dir
	agent, archive := filepath.Join(dir, "tare-agent"), filepath.Join(dir, "agent.tar")
	if err := programtest.Build(dir, "tare-agent"); err != nil {
		return err
	}
	ref, err := image.Reference(agentImage)
	if err != nil {
		return err
	}
	img, err := image.Build([]image.Program{{Name: "tare-agent", Path: agent}}, nil)
	if err != nil {
		return err
	}
	f, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := image.WriteArchive(f, ref, []image.Image{img}); err != nil {
		return err
	}
	out, err := exec.Command(os.Getenv("TARE_TEST_CLUSTER"), "load-image", archive).CombinedOutput()
	if err != nil {
		return fmt.Errorf("load the image: %w: %s", err, out)
	}
	return nil
})

// testPrograms is the directory of the tests' build of tare-agent.
var testPrograms string

func TestMain(m *testing.M) {
	code := m.Run()
	if testPrograms != "" {
		_ = os.RemoveAll(testPrograms)
	}
	os.Exit(code)
}

// newReal makes a platform on the test cluster. edit changes its options. At the end of the test no namespace of its run
// may remain.
func newReal(t *testing.T, c *cluster.Cluster, edit func(*Options)) *Platform {
	t.Helper()
	nodes := must.Get(Nodes(t.Context(), c))(t)
	o := Options{Cluster: c, Run: RunID(t.Name(), t.TempDir()), Image: agentImage, Refresh: 16 * time.Second, InUse: true,
		Report: func(s string) { t.Log(s) }}
	if edit != nil {
		edit(&o)
	}
	t.Cleanup(func() { checkNothingLeft(t, c, o.Run) })
	return New(o, nodes)
}

func noMesh(t *testing.T) mesh.Definition {
	t.Helper()
	return must.Get(mesh.Load("none"))(t)
}

// killContainer sends SIGKILL to a container's process, as the kernel's OOM killer does.
func killContainer(t *testing.T, c *cluster.Cluster, task platform.Task) {
	t.Helper()
	pod := must.Get(c.Typed().CoreV1().Pods(task.Namespace).Get(t.Context(), task.Pod, metav1.GetOptions{}))(t)
	for _, s := range statuses(pod) {
		if s.Name == task.Container {
			_, id, _ := strings.Cut(s.ContainerID, "://")
			out, err := exec.Command("ctr", "-a", os.Getenv("TARE_TEST_CONTAINERD"), "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", id).CombinedOutput()
			if err != nil {
				t.Fatalf("kill %s: %v: %s", task.ID, err, out)
			}
			return
		}
	}
	t.Fatalf("no container %s", task.ID)
}

// getByProbes sends the verification probes to the entry and returns their status and length.
func getByProbes(ctx context.Context, d *platform.Deployment, url string) (int, int64, error) {
	report, err := d.Running.(*deployment).verifier.prober.send(ctx)
	if err != nil {
		return 0, 0, err
	}
	if len(report.Statuses) != 1 || len(report.Errors) > 0 || report.Statuses["200"] != probes {
		return 0, 0, fmt.Errorf("%v %v", report.Statuses, report.Errors)
	}
	return 200, d.Running.(*deployment).verifier.prober.probe.Load.ExpectSize, nil // the probes compare the length with it
}

func TestPlatform(t *testing.T) {
	c := realCluster(t)
	traits := platformtest.Traits{
		Get:               getByProbes,
		Work:              proc.Command{Path: "tare-agent", Args: []string{"serve", "--listen", "127.0.0.1:0"}},
		WorkOutput:        "tare-agent: service",
		Kill:              func(t *testing.T, task platform.Task) { killContainer(t, c, task) },
		Change:            func(t *testing.T, d *platform.Deployment) { changeEndpoints(t, c, d.Changer) },
		LoadPods:          []string{"load-0"},
		Outside:           true,
		Abilities:         []string{"Verify", "Broken", "Visitors", "Warnings", "LoadWorkers", "TaskFaults", "Scaler", "Configurer", "Changer", "ControlTimes", "Background", "Restarter", "StopAndStart", "RequestCounts"},
		PlatformAbilities: []string{"Faults", "CounterRefresh", "DeploysAtOnce"},
	}
	platformtest.Run(t, traits, func(t *testing.T) platform.Platform { return newReal(t, c, nil).Declare() }, []mesh.Definition{noMesh(t)})
}

// changeEndpoints takes the entry's pod out of its Service, and puts it back. Without a mesh, the application has a version, and no
// policy.
func changeEndpoints(t *testing.T, c *cluster.Cluster, changer platform.Changer) {
	t.Helper()
	endpoints := changer.Endpoints()
	if err := changer.Change(t.Context(), platform.Change{Kind: metric.PolicyDenied, Endpoints: endpoints}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a policy was made: %v", err)
	}
	must.OK(t, changer.Change(t.Context(), platform.Change{Kind: metric.RouteChanged, Version: 3, Endpoints: endpoints}))
	for _, change := range []platform.Change{{Kind: metric.EndpointRemoved}, {Kind: metric.EndpointAdded, Endpoints: endpoints}} {
		must.OK(t, changer.Change(t.Context(), change))
		var listed []string
		for _, pod := range must.Get(c.Typed().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: labelListed}))(t).Items {
			if slices.Contains(endpoints, pod.Name) {
				listed = append(listed, pod.Name)
			}
		}
		if !slices.Equal(listed, change.Endpoints) {
			t.Errorf("%s: %v are in the Service, want %v", change.Kind, listed, change.Endpoints)
		}
	}
}

func checkNothingLeft(t *testing.T, c *cluster.Cluster, run string) {
	t.Helper()
	list := must.Get(c.Typed().CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{LabelSelector: cluster.LabelRun + "=" + run}))(t)
	for _, ns := range list.Items {
		if ns.Status.Phase == corev1.NamespaceActive {
			t.Errorf("namespace %s remains", ns.Name)
		}
	}
}
