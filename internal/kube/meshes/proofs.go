package meshes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// proofs in words, in the order in which they are told.
var proofs = []struct{ proves, words string }{
	{mesh.ProvesPath, "traffic goes through the "},
	{mesh.ProvesL7, "requests are understood by the "},
	{mesh.ProvesMTLS, "mutual TLS is on at the "},
	{mesh.ProvesTelemetry, "telemetry of the "},
}

// seen is what the counters of one proxy came to.
type seen struct {
	proxy         mesh.Proxy
	pods          []*corev1.Pod
	before, after readings
	probed        bool // requests were sent between the two
	answered      int
}

// since says whether all that a counter counted since the pod was made is proof, and not only what it moved by: proxies
// keep connections and take them for the next request too, and the pods are no older than their enrolment.
func (s seen) since(proves string) bool {
	return !s.probed || proves == mesh.ProvesMTLS || proves == mesh.ProvesPath && s.proxy.In == mesh.InPod
}

// by is what counter i moved by in a pod.
func (s seen) by(p *corev1.Pod, i int) float64 {
	after, before := s.after[p.UID], s.before[p.UID]
	if s.since(s.proxy.Counters[i].Proves) || before == nil || after[i] < before[i] { // less than before: it was started anew
		return after[i]
	}
	return after[i] - before[i]
}

// proven judges what the counters of a proxy prove of each pod.
func (m *Mesh) proven(s seen, t Target, d divided) []check.Check {
	var checks []check.Check
	for _, proof := range proofs {
		if !slices.ContainsFunc(s.proxy.Counters, func(c mesh.Counter) bool { return c.Proves == proof.proves }) {
			continue
		}
		c := check.Check{Name: proof.words + s.proxy.Role}
		switch {
		case len(s.pods) == 0:
			c.Detail, c.Hint = "there is no pod of it", "`kubectl get pods` shows what became of it"
		case proof.proves == mesh.ProvesTelemetry:
			c = m.telling(c, s)
		default:
			demands := slices.DeleteFunc(t.demands(s.proxy, proof.proves, s.pods, d), func(d demand) bool { return len(d.pods) == 0 })
			if len(demands) == 0 {
				continue // nothing that would show there
			}
			c = s.judge(c, proof.proves, demands)
		}
		checks = append(checks, c)
	}
	return checks
}

// judge says what of the demands is met, and names the pods where it is not.
func (s seen) judge(c check.Check, proves string, demands []demand) check.Check {
	met := true
	var details []string
	moved, counted := 0, 0
	for _, d := range demands {
		best, total, still := s.best(proves, d)
		if best < 0 {
			details = append(details, fmt.Sprintf("nothing counts it %s, so that %d pods are not looked at: %s", d.directions[0], len(d.pods), names(d.pods)))
			continue
		}
		counted++
		there := len(d.pods) - len(still)
		moved += there
		verb := "moved by"
		if s.since(proves) {
			verb = "is"
		}
		detail := fmt.Sprintf("%s %s %.0f in %d of %d pods", described(s.proxy.Counters[best]), verb, total, there, len(d.pods))
		if len(still) > 0 && !d.together {
			detail += ", not in: " + names(still)
		}
		details = append(details, detail)
		met = met && (len(still) == 0 || d.together && there > 0)
	}
	c.OK = met && counted > 0 // where nothing counts any of it, nothing is proven
	c.Detail = strings.Join(details, "; ")
	if s.probed {
		c.Detail += fmt.Sprintf("; %d requests", s.answered)
	}
	switch {
	case c.OK:
	case counted == 0:
		c.Hint = "the mesh's definition lists no counter of that direction"
	case !s.probed:
		c.Hint = "nothing has been asked yet of the pods that are named, or what was went past the mesh"
	case moved > 0:
		c.Hint = "traffic of the pods that are named goes past their proxies, or none comes to them: see their logs, and make them anew"
	default:
		c.Hint = "connections that are older than the enrolment go on past the mesh: make the application's pods anew"
	}
	return c
}

// best is the counter that counted most of a demand, what it came to, and the pods where none moved; -1: there is no
// counter of such a direction.
func (s seen) best(proves string, d demand) (best int, total float64, still []*corev1.Pod) {
	best = -1
	moved := map[*corev1.Pod]bool{}
	for i, c := range s.proxy.Counters {
		if c.Proves != proves || !slices.Contains(d.directions, c.Way()) {
			continue
		}
		n := 0.0
		for _, p := range d.pods {
			if by := s.by(p, i); by > 0 {
				n += by
				moved[p] = true
			}
		}
		if best < 0 || n > total {
			best, total = i, n
		}
	}
	for _, p := range d.pods {
		if !moved[p] {
			still = append(still, p)
		}
	}
	return best, total, still
}

// telling says whether the proxies tell of requests in the mesh's own words. That they do not is no fault: the mesh may
// have been asked for without, and what is weighed says so.
func (m *Mesh) telling(c check.Check, s seen) check.Check {
	best, total, still := s.best(mesh.ProvesTelemetry, demand{pods: s.pods, directions: eitherWay})
	c.OK = true
	c.Detail = fmt.Sprintf("%s moved by %.0f in %d of %d pods", described(s.proxy.Counters[best]), total, len(s.pods)-len(still), len(s.pods))
	if len(still) == len(s.pods) {
		c.Caution = fmt.Sprintf("no %s of mesh %s counts %s: the mesh's own telemetry is not in these figures", s.proxy.Role, m.named(), described(s.proxy.Counters[best]))
		c.Hint = "with the proxies that the mesh's authors publish, telemetry on, a request costs more"
	}
	return c
}

// named is the mesh with what was chosen of it beside the defaults.
func (m *Mesh) named() string {
	var chosen []string
	for _, name := range slices.Sorted(maps.Keys(m.settings.Options)) {
		if v := m.settings.Options[name]; v != m.k.Options[name].Default && slices.Contains(m.k.Options[name].OneOf, v) {
			chosen = append(chosen, name+": "+v)
		}
	}
	if chosen == nil {
		return m.definition.Name
	}
	return m.definition.Name + " (" + strings.Join(chosen, ", ") + ")"
}

// described is a counter as people read it.
func described(c mesh.Counter) string {
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		labels = append(labels, name+"="+c.Labels[name])
	}
	if len(labels) == 0 {
		return c.Metric
	}
	return c.Metric + "{" + strings.Join(labels, ",") + "}"
}
