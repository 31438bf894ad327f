package meshctl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/mesh"
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

// sums are what the counters of a proxy come to over its pods, in the order of the definition.
func (m *Mesh) sums(ctx context.Context, x mesh.Proxy, pods []*corev1.Pod) ([]float64, error) {
	sums := make([]float64, len(x.Counters))
	for _, p := range pods {
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
			sums[i] += sum(pages[page], c)
		}
	}
	return sums, nil
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
			if (mesh.Proxy{PodLabel: c.Labels}).Selects(labels) {
				total += s.GetCounter().GetValue() + s.GetGauge().GetValue() + s.GetUntyped().GetValue()
			}
		}
		return total
	}
	return total
}

// counted proves by the proxies' own counters that traffic goes through them, in the way that the mesh provides.
func (m *Mesh) counted(ctx context.Context, t Target, d divided) ([]Check, error) {
	proxies := m.proxies(t.Front != nil)
	before := make([][]float64, len(proxies))
	pods := make([][]*corev1.Pod, len(proxies))
	for i, x := range proxies {
		var err error
		if pods[i], err = m.stand(ctx, x, d); err != nil {
			return nil, err
		}
		before[i] = make([]float64, len(x.Counters))
		if t.Probe == nil || len(x.Counters) == 0 {
			continue
		}
		if before[i], err = m.sums(ctx, x, pods[i]); err != nil {
			return []Check{unread(x, err)}, nil
		}
	}
	answered := 0
	if t.Probe != nil {
		var err error
		if answered, err = t.Probe(ctx); err != nil {
			return []Check{{Name: "requests through the application", Detail: err.Error(), Hint: "the application must answer from where the load is"}}, nil
		}
	}
	var checks []Check
	for i, x := range proxies {
		if len(x.Counters) == 0 {
			continue
		}
		after, err := m.sums(ctx, x, pods[i])
		if err != nil {
			return append(checks, unread(x, err)), nil
		}
		found := moved(x, len(pods[i]), before[i], after, t.Probe != nil, answered)
		if t.Probe != nil && m.isGateway(x) {
			found = append(found, whole(x, before[i], after, answered))
		}
		if t.Alone {
			found = slices.DeleteFunc(found, func(c Check) bool { return c.Name == proofs[mesh.ProvesMTLS]+x.Role })
		}
		checks = append(checks, found...)
	}
	return checks, nil
}

func unread(x mesh.Proxy, err error) Check {
	return Check{Name: "counters of the " + x.Role, Detail: err.Error(), Hint: "the proxy must answer on its own port, which is reached by a port-forward"}
}

// proofs in words.
var proofs = map[string]string{mesh.ProvesPath: "traffic goes through the ", mesh.ProvesL7: "requests are understood by the ", mesh.ProvesMTLS: "mutual TLS is on at the "}

// moved judges counters: of those that prove the same, one must have moved.
func moved(x mesh.Proxy, pods int, before, after []float64, probed bool, answered int) []Check {
	// Proxies keep connections and take them for the next request too: a handshake there has been is proof, since the
	// pods are no older than their enrolment.
	by := func(proves string, i int) float64 {
		if proves == mesh.ProvesMTLS {
			return after[i]
		}
		return after[i] - before[i]
	}
	var checks []Check
	for _, proves := range []string{mesh.ProvesPath, mesh.ProvesL7, mesh.ProvesMTLS} {
		best, some := -1, false
		for i, c := range x.Counters {
			if c.Proves != proves {
				continue
			}
			if some = true; best < 0 || by(proves, i) > by(proves, best) {
				best = i
			}
		}
		if !some {
			continue
		}
		c, n := x.Counters[best], by(proves, best)
		check := Check{Name: proofs[proves] + x.Role, OK: n > 0, Detail: fmt.Sprintf("%s moved by %.0f in %d pods, %d requests", described(c), n, pods, answered)}
		if !probed || proves == mesh.ProvesMTLS {
			check.Detail = fmt.Sprintf("%s is %.0f in %d pods", described(c), n, pods)
		}
		if !check.OK {
			check.Hint = "connections that are older than the enrolment go on past the mesh: make the application's pods anew"
			if !probed {
				check.Hint = "nothing has been asked of the application yet, or what was went past the mesh"
			}
		}
		checks = append(checks, check)
	}
	return checks
}

func described(c mesh.Counter) string {
	var labels []string
	for name, value := range c.Labels {
		labels = append(labels, name+"="+value)
	}
	slices.Sort(labels)
	if len(labels) == 0 {
		return c.Metric
	}
	return c.Metric + "{" + strings.Join(labels, ",") + "}"
}
