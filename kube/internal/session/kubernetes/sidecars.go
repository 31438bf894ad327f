package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// podsAtOnce bounds the proxies that are read at a time.
const podsAtOnce = 8

// Sidecars reads the sidecars that run in a namespace of the cluster of kubectl's context, with the requests/s that their proxies
// count in a time; 0: without. It changes nothing.
func Sidecars(ctx context.Context, namespace string, window time.Duration) (s predict.Sidecars, err error) {
	k, err := cluster.Connect(ctx, cluster.Options{})
	if err != nil {
		return s, err
	}
	const needed = "tare size needs permission to list pods and to create pods/portforward in the namespace, with --prometheus to list pods alone"
	pods, err := k.Pods(ctx, namespace)
	if cluster.IsForbidden(err) {
		return s, hint.Wrap(err, needed)
	} else if err != nil {
		return s, err
	}
	pods = lists.Where(pods, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil })
	name, proxy := sidecarOf(pods)
	if name == "" {
		return s, hint.New("`kubectl get pods -n "+namespace+"` lists its pods; name another namespace", "%s: no running pod of namespace %s has a sidecar of a known mesh", k.Name(), namespace)
	}
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return containerOf(p, proxy.Container) == nil })
	s = predict.Sidecars{Cluster: k.Name(), Namespace: namespace, Mesh: name}
	rates := map[types.UID]flow{}
	if window > 0 {
		rates, err = flows(ctx, k, proxy, pods, window)
		if cluster.IsForbidden(err) {
			return s, hint.Wrap(err, needed)
		} else if err != nil {
			return s, err
		}
	}
	s.Workloads = workloadsOf(pods, proxy.Container, rates, usage(ctx, k, namespace, proxy.Container))
	if window > 0 {
		for i := range s.Workloads {
			s.Workloads[i].Present = predict.Shares{Received: 1, Sent: 1}
		}
	}
	return s, nil
}

// sidecarOf returns the mesh with a sidecar in most pods, and its proxy, an empty name if none has.
func sidecarOf(pods []*corev1.Pod) (name string, proxy mesh.Proxy) {
	most := 0
	for _, d := range mesh.Builtin() {
		if d.Kubernetes == nil {
			continue
		}
		for _, x := range d.Kubernetes.Proxies {
			n := lists.Count(pods, func(p *corev1.Pod) bool { return x.In == mesh.InPod && containerOf(p, x.Container) != nil })
			if n > most {
				most, name, proxy = n, d.Name, x
			}
		}
	}
	return name, proxy
}

// containerOf returns a sidecar of a pod, a native one or not, nil without one. A proxy alone in its pod is a gateway or a waypoint.
func containerOf(p *corev1.Pod, name string) *corev1.Container {
	running := runningIn(p)
	i := slices.IndexFunc(running, func(c *corev1.Container) bool { return mesh.Match(name, c.Name) })
	if i < 0 || len(running) == 1 {
		return nil
	}
	return running[i]
}

// runningIn returns the containers of a pod that do not end before others start: its containers and native sidecars.
func runningIn(p *corev1.Pod) (all []*corev1.Container) {
	for i := range p.Spec.Containers {
		all = append(all, &p.Spec.Containers[i])
	}
	for i, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			all = append(all, &p.Spec.InitContainers[i])
		}
	}
	return all
}

// flow is the load of a pod's proxy, requests/s.
type flow struct{ in, out float64 }

// flows reads the proxies of pods twice. Pods that end meanwhile are left out.
func flows(ctx context.Context, k *cluster.Cluster, proxy mesh.Proxy, pods []*corev1.Pod, window time.Duration) (map[types.UID]flow, error) {
	before, err := counted(ctx, k, proxy, pods)
	if err != nil {
		return nil, err
	}
	if err := wait.For(ctx, window); err != nil {
		return nil, err
	}
	after, err := counted(ctx, k, proxy, pods)
	if err != nil {
		return nil, err
	}
	all := map[types.UID]flow{}
	for _, p := range pods {
		a, b := before[p.UID], after[p.UID]
		if a.values == nil || b.values == nil {
			continue
		}
		all[p.UID] = flowOf(proxy.Counters, a.values, b.values, b.at.Sub(a.at).Seconds())
	}
	return all, nil
}

// flowOf is the load between two readings of counters. Counters of one direction count the same requests: the one that grew most has
// all. A counter that is lower than before was restarted.
func flowOf(counters []mesh.Counter, before, after []float64, seconds float64) (f flow) {
	for i, c := range counters {
		if c.Proves != mesh.ProvesL7 {
			continue
		}
		grown := after[i] - before[i]
		if grown < 0 {
			grown = after[i]
		}
		if c.Way() == mesh.WayOut {
			f.out = max(f.out, grown/seconds)
		} else {
			f.in = max(f.in, grown/seconds)
		}
	}
	return f
}

// counts are the counters of a pod's proxy at an instant, nil if the pod could not be read.
type counts struct {
	at     time.Time
	values []float64
}

// counted reads the counters of each pod. It fails if none can be read.
func counted(ctx context.Context, k *cluster.Cluster, proxy mesh.Proxy, pods []*corev1.Pod) (map[types.UID]counts, error) {
	found, failed := make([]counts, len(pods)), make([]error, len(pods))
	var reads errgroup.Group
	reads.SetLimit(podsAtOnce)
	for i, p := range pods {
		reads.Go(routine.Guarded(func() error {
			found[i].values, failed[i] = meshes.Counters(ctx, k, proxy, p)
			found[i].at = time.Now()
			return nil
		}))
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	all := map[types.UID]counts{}
	for i, p := range pods {
		if failed[i] == nil {
			all[p.UID] = found[i]
		}
	}
	if len(all) == 0 {
		return nil, errors.Join(ctx.Err(), failed[0])
	}
	return all, nil
}

// workloadsOf sums pods up by their workloads. Pods without a rate do not count, if others have one. Resources and annotations are the
// newest pod's: a rollout changes them.
func workloadsOf(pods []*corev1.Pod, container string, rates map[types.UID]flow, used map[string]use) []predict.Workload {
	by, settled := map[string]*predict.Workload{}, map[*predict.Workload]float64{}
	newest := func(a, b *corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) }
	for _, p := range slices.SortedStableFunc(slices.Values(pods), newest) {
		kind, name := cluster.WorkloadOf(p)
		w := by[kind+"/"+name]
		if w == nil {
			w = &predict.Workload{Kind: kind, Name: name, Annotations: p.Annotations}
			by[kind+"/"+name] = w
			sidecar := containerOf(p, container)
			w.Sidecar, w.LimitCPU = requested(sidecar), sidecar.Resources.Limits.Cpu().AsApproximateFloat64()
			for _, c := range runningIn(p) {
				if c != sidecar {
					of := requested(c)
					w.Application.CPU, w.Application.Memory = w.Application.CPU+of.CPU, w.Application.Memory+of.Memory
				}
			}
		}
		f, known := rates[p.UID]
		if !known && len(rates) > 0 {
			continue
		}
		w.Pods++
		w.Received, w.Sent, w.Busiest = w.Received+f.in, w.Sent+f.out, max(w.Busiest, f.in+f.out)
		if u, known := used[p.Name]; known {
			if w.Used == nil {
				w.Used = &predict.Amounts{}
			}
			w.Used.Memory = max(w.Used.Memory, u.Memory)
			if started := p.Status.StartTime; started != nil && u.from.Sub(started.Time) >= starting {
				w.Used.CPU = (w.Used.CPU*settled[w] + u.CPU) / (settled[w] + 1)
				settled[w]++
			}
		}
	}
	return lists.Map(slices.Sorted(maps.Keys(by)), func(key string) predict.Workload { return *by[key] })
}

const mib = 1 << 20

// starting is how long a proxy that starts has CPU of its start, and an application that of its own.
const starting = time.Minute

// use is what a sidecar used from a time on.
type use struct {
	predict.Amounts
	from time.Time
}

func requested(c *corev1.Container) predict.Amounts {
	return amountsOf(*c.Resources.Requests.Cpu(), *c.Resources.Requests.Memory())
}

func amountsOf(cpu, memory resource.Quantity) predict.Amounts {
	return predict.Amounts{CPU: cpu.AsApproximateFloat64(), Memory: memory.AsApproximateFloat64() / mib}
}

// usage returns what the containers of a name use by the Metrics API, by pod. It is empty where that is not installed, or not permitted.
func usage(ctx context.Context, k *cluster.Cluster, namespace, container string) map[string]use {
	var list struct {
		Items []struct {
			Metadata   metav1.ObjectMeta `json:"metadata"`
			Timestamp  time.Time         `json:"timestamp"`
			Window     metav1.Duration   `json:"window"`
			Containers []struct {
				Name  string              `json:"name"`
				Usage corev1.ResourceList `json:"usage"`
			} `json:"containers"`
		} `json:"items"`
	}
	body, err := k.Typed().Discovery().RESTClient().Get().AbsPath(fmt.Sprintf("/apis/metrics.k8s.io/v1beta1/namespaces/%s/pods", namespace)).Do(ctx).Raw()
	if err != nil || json.Unmarshal(body, &list) != nil {
		return nil
	}
	all := map[string]use{}
	for _, p := range list.Items {
		for _, c := range p.Containers {
			if mesh.Match(container, c.Name) {
				all[p.Metadata.Name] = use{amountsOf(*c.Usage.Cpu(), *c.Usage.Memory()), p.Timestamp.Add(-p.Window.Duration)}
			}
		}
	}
	return all
}
