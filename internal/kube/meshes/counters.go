package meshes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Bounds of what a proxy is asked.
const (
	askWithin = 10 * time.Second
	askMost   = 64 << 20 // bytes; a config dump of a large cluster has tens of megabytes
)

// ask reads from a port of a pod over a port-forward, which ends inside the pod, beside the mesh.
func (m *Mesh) ask(ctx context.Context, p *corev1.Pod, port int, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	forward := m.cluster.Forward(p.Namespace, p.Name, port)
	defer forward.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: forward.DialContext, DisableKeepAlives: true, DisableCompression: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://localhost:%d%s", port, path), nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", forward, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", forward, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, askMost))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("answered with %s", resp.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s for %s: %w", forward, path, err)
	}
	return body, nil
}

// stand are the pods whose containers are a proxy.
func (m *Mesh) stand(ctx context.Context, x mesh.Proxy, d divided) ([]*corev1.Pod, error) {
	switch x.In {
	case mesh.InPod:
		return slices.DeleteFunc(slices.Clone(d.in), func(p *corev1.Pod) bool { has, _ := proxyOf(p, x.Container); return !has }), nil
	case mesh.InNamespace:
		return slices.DeleteFunc(slices.Clone(d.own), func(p *corev1.Pod) bool { return !x.Selects(p.Labels) }), nil
	}
	pods, err := m.pods(ctx, m.k.Namespace, "")
	return slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return !x.Selects(p.Labels) }), err
}

// reading are the counters of one proxy in one pod, in the order of the definition.
type reading []float64

// readings are those of one proxy in several pods.
type readings map[types.UID]reading

// readAtOnce is how many pods are asked at the same time.
const readAtOnce = 8

// read asks pods for the counters of a proxy.
func (m *Mesh) read(ctx context.Context, x mesh.Proxy, pods []*corev1.Pod) (readings, error) {
	all := make([]reading, len(pods))
	var asking *errgroup.Group
	asking, ctx = errgroup.WithContext(ctx)
	asking.SetLimit(readAtOnce)
	for i, p := range pods {
		asking.Go(func() error {
			var err error
			all[i], err = m.readOne(ctx, x, p)
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	by := readings{}
	for i, p := range pods {
		by[p.UID] = all[i]
	}
	return by, nil
}

func (m *Mesh) readOne(ctx context.Context, x mesh.Proxy, p *corev1.Pod) (reading, error) {
	r := make(reading, len(x.Counters))
	pages := map[string]map[string]*dto.MetricFamily{}
	for i, c := range x.Counters {
		page := fmt.Sprintf("%d%s", c.Port, c.Path)
		if pages[page] == nil {
			body, err := m.ask(ctx, p, c.Port, c.Path)
			if err != nil {
				return nil, err
			}
			if pages[page], err = parse(body); err != nil {
				return nil, fmt.Errorf("read the metrics of pod %s/%s: %w", p.Namespace, p.Name, err)
			}
		}
		r[i] = sum(pages[page], c)
	}
	return r, nil
}

func parse(body []byte) (map[string]*dto.MetricFamily, error) {
	p := expfmt.NewTextParser(model.LegacyValidation)
	return p.TextToMetricFamilies(bytes.NewReader(body))
}

// sum adds the series of a counter whose labels are as the definition says. A metric is called with _total or without:
// proxies that write OpenMetrics declare it without.
func sum(families map[string]*dto.MetricFamily, c mesh.Counter) float64 {
	total := 0.0
	for _, name := range []string{c.Metric, strings.TrimSuffix(c.Metric, "_total")} {
		f := families[name]
		if f == nil {
			continue
		}
		for _, s := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range s.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if c.Counts(labels) {
				total += s.GetCounter().GetValue() + s.GetGauge().GetValue() + s.GetUntyped().GetValue()
			}
		}
		return total
	}
	return total
}

// counting is what one verification has read of counters first, by the proxy's role, and how many requests were answered
// since. What moves between two looks of it counts for the later one too: a few requests need not reach every replica.
type counting struct {
	first, last map[string]readings
	answered    int
}

// begin reads the counters of the pods that were not there before.
func (c *counting) begin(ctx context.Context, m *Mesh, x mesh.Proxy, pods []*corev1.Pod) error {
	known := c.first[x.Role]
	if known == nil {
		known = readings{}
		c.first[x.Role] = known
	}
	first, err := m.read(ctx, x, slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return known[p.UID] != nil }))
	maps.Copy(known, first)
	if c.last[x.Role] == nil {
		c.last[x.Role] = maps.Clone(known)
	}
	return err
}

// totals are what the counters of a proxy come to over its pods.
func totals(x mesh.Proxy, of readings) []float64 {
	sums := make([]float64, len(x.Counters))
	for _, r := range of {
		for i, n := range r {
			sums[i] += n
		}
	}
	return sums
}

// counted proves by the proxies' own counters that traffic goes through each of them, in the way that the mesh provides.
func (m *Mesh) counted(ctx context.Context, t Target, d divided, begun *counting) ([]check.Check, error) {
	proxies := m.proxies(t.Front != nil)
	pods := make([][]*corev1.Pod, len(proxies))
	for i, x := range proxies {
		var err error
		if pods[i], err = m.stand(ctx, x, d); err != nil {
			return nil, err
		}
		if t.Probe == nil || len(x.Counters) == 0 {
			continue
		}
		if err := begun.begin(ctx, m, x, pods[i]); err != nil {
			return []check.Check{unread(x, err)}, nil
		}
	}
	answered := 0
	if t.Probe != nil {
		var err error
		answered, err = t.Probe(ctx)
		begun.answered += answered
		if err != nil {
			return []check.Check{{Name: "requests through the application", Detail: err.Error(), Hint: "the application must answer from where the load is"}}, nil
		}
	}
	var checks []check.Check
	for i, x := range proxies {
		if len(x.Counters) == 0 {
			continue
		}
		after, err := m.read(ctx, x, pods[i])
		if err != nil {
			return append(checks, unread(x, err)), nil
		}
		s := seen{proxy: x, pods: pods[i], before: begun.first[x.Role], after: after, probed: t.Probe != nil, answered: begun.answered}
		checks = append(checks, m.proven(s, t, d)...)
		if t.Probe != nil && m.isGateway(x) {
			checks = append(checks, whole(x, totals(x, begun.last[x.Role]), totals(x, after), answered))
		}
		begun.last[x.Role] = after
	}
	return checks, nil
}

func unread(x mesh.Proxy, err error) check.Check {
	return check.Check{Name: "counters of the " + x.Role, Detail: err.Error(), Hint: "the proxy must answer on its own port, which is reached by a port-forward"}
}
