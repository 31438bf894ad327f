package meshes

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/scrape"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Limits of a request to a pod.
const (
	getWithin   = 10 * time.Second
	getLimit    = 64 << 20 // bytes, as the config dump of a large cluster has tens of megabytes
	readsAtOnce = 8
)

// podReader lists pods and reads from their ports.
type podReader struct{ cluster *cluster.Cluster }

// podsOf returns the pods that run a proxy. namespace is the mesh's.
func (r podReader) podsOf(ctx context.Context, x mesh.Proxy, namespace string, g podGroups) ([]*corev1.Pod, error) {
	switch x.In {
	case mesh.InPod:
		return slices.DeleteFunc(slices.Clone(g.inMesh), func(p *corev1.Pod) bool { has, _ := proxyOf(p, x.Container); return !has }), nil
	case mesh.InNamespace:
		return slices.DeleteFunc(slices.Clone(g.own), func(p *corev1.Pod) bool { return !x.Selects(p.Labels) }), nil
	}
	pods, err := r.list(ctx, namespace)
	return slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return !x.Selects(p.Labels) }), err
}

// list returns the pods of a namespace that have not ended and are not terminating.
func (r podReader) list(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	all, err := r.cluster.Pods(ctx, namespace)
	return lists.Where(all, func(p *corev1.Pod) bool {
		return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && p.DeletionTimestamp == nil
	}), err
}

// reading is the counters of one proxy in one pod, in the order of the definition.
type reading []float64

// readings are the readings of one proxy in several pods, by pod UID.
type readings map[types.UID]reading

func (r podReader) counters(ctx context.Context, x mesh.Proxy, pods []*corev1.Pod) (readings, error) {
	all := make([]reading, len(pods))
	var reads *errgroup.Group
	reads, ctx = errgroup.WithContext(ctx)
	reads.SetLimit(readsAtOnce)
	for i, p := range pods {
		reads.Go(routine.Guarded(func() error {
			var err error
			all[i], err = r.countersOf(ctx, x, p)
			return err
		}))
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	by := readings{}
	for i, p := range pods {
		by[p.UID] = all[i]
	}
	return by, nil
}

// Counters reads the counters of a proxy in one pod, in the order of its definition.
func Counters(ctx context.Context, c *cluster.Cluster, x mesh.Proxy, p *corev1.Pod) ([]float64, error) {
	return podReader{c}.countersOf(ctx, x, p)
}

func (r podReader) countersOf(ctx context.Context, x mesh.Proxy, p *corev1.Pod) (reading, error) {
	values := make(reading, len(x.Counters))
	pages := map[string][]scrape.Sample{}
	for i, c := range x.Counters {
		page, err := r.page(ctx, pages, c.Port, c.Path, p)
		if err != nil {
			return nil, err
		}
		values[i] = sum(page, c)
	}
	return values, nil
}

// Value reads the sum of a family of metrics in one pod.
func Value(ctx context.Context, c *cluster.Cluster, s mesh.Series, p *corev1.Pod) (float64, error) {
	page, err := podReader{c}.page(ctx, map[string][]scrape.Sample{}, s.Port, s.Path, p)
	return sum(page, mesh.Counter{Metric: s.Metric}), err
}

// UpdateTimes reads when the proxy in one pod took over configurations, by the clock of its node.
func UpdateTimes(ctx context.Context, c *cluster.Cluster, u mesh.Updates, p *corev1.Pod) ([]time.Time, error) {
	page, err := podReader{c}.get(ctx, p, u.Port, u.Path)
	if err != nil {
		return nil, err
	}
	return u.Times(page)
}

// LabelValues lists the values of labels of the series that the proxy's counters match in one pod and that are not zero.
func LabelValues(ctx context.Context, c *cluster.Cluster, x mesh.Proxy, p *corev1.Pod) (values []string, err error) {
	pages := map[string][]scrape.Sample{}
	for _, counter := range x.Counters {
		page, err := podReader{c}.page(ctx, pages, counter.Port, counter.Path, p)
		if err != nil {
			return nil, err
		}
		eachSeries(page, counter, func(s scrape.Sample) {
			for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
				if value := s.Labels[name]; s.Value > 0 && !slices.Contains(values, value) {
					values = append(values, value)
				}
			}
		})
	}
	return values, nil
}

// page reads a page of metrics of a pod, once.
func (r podReader) page(ctx context.Context, pages map[string][]scrape.Sample, port int, path string, p *corev1.Pod) ([]scrape.Sample, error) {
	name := fmt.Sprintf("%d%s", port, path)
	if pages[name] == nil {
		body, err := r.get(ctx, p, port, path)
		if err != nil {
			return nil, err
		}
		if pages[name], err = parseMetrics(body); err != nil {
			return nil, fmt.Errorf("read the metrics of pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return pages[name], nil
}

// get sends an HTTP GET to a port of a pod, over a port-forward that bypasses the mesh.
func (r podReader) get(ctx context.Context, p *corev1.Pod, port int, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, getWithin)
	defer cancel()
	forward := r.cluster.Forward(p.Namespace, p.Name, port)
	defer forward.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: forward.DialContext, DisableKeepAlives: true, DisableCompression: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://localhost:%d%s", port, path), nil)
	if err != nil {
		return nil, fmt.Errorf("get from %s: %w", forward, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("get from %s: %w", forward, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, getLimit))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", resp.Status)
	}
	return body, hint.Prefix(err, "get %s from %s", path, forward)
}

func parseMetrics(body []byte) (all []scrape.Sample, err error) {
	for s, err := range scrape.Samples(body) {
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func sum(page []scrape.Sample, c mesh.Counter) (total float64) {
	eachSeries(page, c, func(s scrape.Sample) { total += s.Value })
	return total
}

// eachSeries calls f for the series of a counter whose labels match the definition. The suffix _total is optional:
// proxies that write OpenMetrics omit it from the family's name.
func eachSeries(page []scrape.Sample, c mesh.Counter, f func(scrape.Sample)) {
	for _, name := range []string{c.Metric, strings.TrimSuffix(c.Metric, "_total")} {
		found := false
		for _, s := range page {
			if s.Name == name {
				found = true
				if c.Counts(s.Labels) {
					f(s)
				}
			}
		}
		if found {
			return
		}
	}
}

// podGroups are the pods of an application's namespace, by their relation to the mesh.
type podGroups struct {
	inMesh  []*corev1.Pod // must be in the mesh
	outside []*corev1.Pod // must not be in it
	own     []*corev1.Pod // the mesh's own, such as waypoints and gateways
}

// groupPods separates the application's and the load's pods from the mesh's pods in the same namespace.
func groupPods(pods []*corev1.Pod, t Target, proxies []mesh.Proxy) (g podGroups) {
	for _, p := range pods {
		switch {
		case slices.ContainsFunc(proxies, func(x mesh.Proxy) bool { return x.In == mesh.InNamespace && x.Selects(p.Labels) }):
			g.own = append(g.own, p)
		case t.IsLoad(p) && !t.LoadInside, t.IsOutside != nil && t.IsOutside(p):
			g.outside = append(g.outside, p)
		default:
			g.inMesh = append(g.inMesh, p)
		}
	}
	return g
}

// checkInMesh checks that every pod in the mesh has its proxy, ready, and the mesh's own marks.
func (g podGroups) checkInMesh(proxies []mesh.Proxy, proof mesh.Marks) []check.Check {
	var checks []check.Check
	if len(g.inMesh) == 0 {
		return []check.Check{{Name: "pods in the mesh", Detail: "no pod of an application", Hint: "verify a namespace with a running application"}}
	}
	for _, x := range proxies {
		if x.In != mesh.InPod {
			continue
		}
		var without, unready []*corev1.Pod
		for _, p := range g.inMesh {
			switch has, ready := proxyOf(p, x.Container); {
			case !has:
				without = append(without, p)
			case !ready:
				unready = append(unready, p)
			}
		}
		checks = append(checks, podCheck("each pod has a "+x.Role, len(g.inMesh), x.Container, without, unready,
			"recreate pods that are older than the namespace's enrolment; the mesh's webhook must answer"))
	}
	if !isEmpty(proof) {
		without := lists.Where(g.inMesh, func(p *corev1.Pod) bool { return !carries(p, proof) })
		checks = append(checks, podCheck("each pod is enrolled", len(g.inMesh), marksText(proof), without, nil, "`kubectl describe pod` and the mesh's log show why"))
	}
	return checks
}

// checkOutside checks that no pod that must stay outside the mesh is in it.
func (g podGroups) checkOutside(proxies []mesh.Proxy, proof mesh.Marks) []check.Check {
	if len(g.outside) == 0 {
		return nil
	}
	var wrong []*corev1.Pod
	for _, p := range g.outside {
		in := !isEmpty(proof) && carries(p, proof)
		for _, x := range proxies {
			if x.In == mesh.InPod {
				has, _ := proxyOf(p, x.Container)
				in = in || has
			}
		}
		if in {
			wrong = append(wrong, p)
		}
	}
	c := check.Check{Name: "pods outside the mesh", OK: len(wrong) == 0, Detail: fmt.Sprintf("%d pods, none in the mesh", len(g.outside))}
	if !c.OK {
		c.Detail, c.Hint = "in the mesh: "+podNames(wrong), "its pods need the definition's marks of exemption"
	}
	return []check.Check{c}
}

func podCheck(name string, all int, what string, without, unready []*corev1.Pod, text string) check.Check {
	c := check.Check{Name: name, OK: len(without)+len(unready) == 0, Detail: fmt.Sprintf("%d of %d pods have %s", all-len(without), all, what), Hint: text}
	if len(without) > 0 {
		c.Detail += ", not: " + podNames(without)
	}
	if len(unready) > 0 {
		c.Detail += ", not ready in: " + podNames(unready)
	}
	if c.OK {
		c.Hint = ""
	}
	return c
}

// proxyOf reports whether a pod has a container of that name, native sidecars included, and whether it is ready.
func proxyOf(p *corev1.Pod, name string) (has, ready bool) {
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways && mesh.Match(name, c.Name) {
			has = true
		}
	}
	has = has || slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return mesh.Match(name, c.Name) })
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if mesh.Match(name, s.Name) {
			ready = s.Ready
		}
	}
	return has, has && ready
}

func hasContainer(p *corev1.Pod, name string) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
}

func isEmpty(m mesh.Marks) bool { return len(m.Labels)+len(m.Annotations) == 0 }

func carries(p *corev1.Pod, m mesh.Marks) bool {
	for _, of := range []struct{ marks, has map[string]string }{{m.Labels, p.Labels}, {m.Annotations, p.Annotations}} {
		for key, value := range of.marks {
			if got, ok := of.has[key]; !ok || !mesh.Match(value, got) {
				return false
			}
		}
	}
	return true
}

func marksText(m mesh.Marks) string {
	var all []string
	for _, of := range []map[string]string{m.Labels, m.Annotations} {
		for key, value := range of {
			all = append(all, key+"="+value)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// podNames lists the first pods of several.
func podNames(pods []*corev1.Pod) string {
	return printable.Listed(lists.Map(pods, func(p *corev1.Pod) string { return p.Name }), 5)
}
