package meshes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// proofs are the beginnings of check names, in the order of the report.
var proofs = []struct{ proves, name string }{
	{mesh.ProvesPath, "traffic goes through the "},
	{mesh.ProvesL7, "requests are understood by the "},
	{mesh.ProvesMTLS, "mutual TLS is on at the "},
	{mesh.ProvesTelemetry, "telemetry of the "},
}

// evidence is the counters of one proxy in its pods, before and after probes.
type evidence struct {
	proxy         mesh.Proxy
	pods          []*corev1.Pod
	before, after readings
	probed        bool // requests were sent between the two
	answered      int  // of these requests
}

// checks judges the counters of each pod. title is the mesh's name with its options.
func (e evidence) checks(t Target, g podGroups, title string) []check.Check {
	var checks []check.Check
	for _, proof := range proofs {
		if !slices.ContainsFunc(e.proxy.Counters, func(c mesh.Counter) bool { return c.Proves == proof.proves }) {
			continue
		}
		c := check.Check{Name: proof.name + e.proxy.Role}
		switch {
		case len(e.pods) == 0:
			c.Detail, c.Hint = "it has no pod", "`kubectl get pods` shows the pods of the mesh"
		case proof.proves == mesh.ProvesTelemetry:
			c = e.telemetry(c, title)
		default:
			expected := slices.DeleteFunc(t.expectations(e.proxy, proof.proves, e.pods, g), func(x expectation) bool { return len(x.pods) == 0 })
			if len(expected) == 0 {
				continue // no traffic would move these counters
			}
			c = e.judge(c, proof.proves, expected)
		}
		checks = append(checks, c)
	}
	return checks
}

// judge checks expectations, and names the pods without the expected counts.
func (e evidence) judge(c check.Check, proves string, expected []expectation) check.Check {
	met := true
	var details []string
	moved, counted := 0, 0
	for _, x := range expected {
		best, total, still := e.best(proves, x)
		if best < 0 {
			details = append(details, fmt.Sprintf("no counter for %s traffic, so %d pods are not checked: %s", x.directions[0], len(x.pods), podNames(x.pods)))
			continue
		}
		counted++
		with := len(x.pods) - len(still)
		moved += with
		verb := "increased by"
		if e.cumulative(proves) {
			verb = "is"
		}
		detail := fmt.Sprintf("%s %s %.0f in %d of %d pods", counterText(e.proxy.Counters[best]), verb, total, with, len(x.pods))
		if len(still) > 0 && !x.any {
			detail += ", not in: " + podNames(still)
		}
		details = append(details, detail)
		met = met && (len(still) == 0 || x.any && with > 0)
	}
	c.OK = met && counted > 0 // no counter, no proof
	c.Detail = strings.Join(details, "; ")
	if e.probed {
		c.Detail += fmt.Sprintf("; %d requests", e.answered)
	}
	switch {
	case c.OK:
	case counted == 0:
		c.Hint = "the mesh's definition lists no counter of that direction"
	case !e.probed:
		c.Hint = "the named pods have received no requests yet, or their requests bypassed the mesh"
	case moved > 0:
		c.Hint = "traffic of the named pods bypasses their proxies, or they receive none: check their logs, and recreate them"
	default:
		c.Hint = "connections that are older than the enrolment bypass the mesh: recreate the application's pods"
	}
	return c
}

// telemetry checks for the mesh's own telemetry. Its absence is a caution, not a failure: the mesh may have been
// installed without.
func (e evidence) telemetry(c check.Check, title string) check.Check {
	best, total, still := e.best(mesh.ProvesTelemetry, expectation{pods: e.pods, directions: bothDirections})
	counter := counterText(e.proxy.Counters[best])
	c.OK = true
	c.Detail = fmt.Sprintf("%s increased by %.0f in %d of %d pods", counter, total, len(e.pods)-len(still), len(e.pods))
	if len(still) == len(e.pods) {
		c.Caution = fmt.Sprintf("no %s of mesh %s counts %s: the figures do not include the mesh's own telemetry", e.proxy.Role, title, counter)
		c.Hint = "with the proxies that the mesh's authors publish, telemetry on, a request costs more"
	}
	return c
}

// best is the counter with the largest sum over the expected pods, that sum, and the pods where none moved. It is -1
// if no counter has the expected direction.
func (e evidence) best(proves string, x expectation) (best int, total float64, still []*corev1.Pod) {
	best = -1
	moved := map[*corev1.Pod]bool{}
	for i, c := range e.proxy.Counters {
		if c.Proves != proves || !slices.Contains(x.directions, c.Way()) {
			continue
		}
		n := 0.0
		for _, p := range x.pods {
			if by := e.increase(p, i); by > 0 {
				n += by
				moved[p] = true
			}
		}
		if best < 0 || n > total {
			best, total = i, n
		}
	}
	return best, total, lists.Where(x.pods, func(p *corev1.Pod) bool { return !moved[p] })
}

// increase returns the increase of counter i in a pod, or its value if the value is proof. A value below the earlier one follows a restart.
func (e evidence) increase(p *corev1.Pod, i int) float64 {
	after, before := e.after[p.UID], e.before[p.UID]
	if e.cumulative(e.proxy.Counters[i].Proves) || before == nil || after[i] < before[i] {
		return after[i]
	}
	return after[i] - before[i]
}

// cumulative reports whether a counter's value since the pod's start is proof, and not only its increase. Proxies reuse
// connections, and the pods are not older than their enrolment.
func (e evidence) cumulative(proves string) bool {
	return !e.probed || proves == mesh.ProvesMTLS || proves == mesh.ProvesPath && e.proxy.In == mesh.InPod
}

// counterText is a counter in messages: name{label=value}.
func counterText(c mesh.Counter) string {
	labels := lists.Map(slices.Sorted(maps.Keys(c.Labels)), func(name string) string { return name + "=" + c.Labels[name] })
	if len(labels) == 0 {
		return c.Metric
	}
	return c.Metric + "{" + strings.Join(labels, ",") + "}"
}
