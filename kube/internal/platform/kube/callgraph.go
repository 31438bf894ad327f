package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// callGraph finds the calls between services of an application whose file does not declare them. It reads the sidecars'
// counters after the probes of the verification.
type callGraph struct {
	*trial
	pods *trialPods
}

// seenCall is a call between two services.
type seenCall struct{ caller, service string }

// find lists the calls, by caller. Services of a mesh without sidecars, or whose counters have no destinations, have none.
func (g *callGraph) find(ctx context.Context) (calls []seenCall) {
	if g.spec.Mesh.Kubernetes == nil {
		return nil
	}
	var names []string
	for _, s := range g.spec.Topology.Services {
		names = append(names, s.Name)
	}
	for _, s := range g.spec.Topology.Services {
		for _, pod := range g.pods.ofService(s.Name) {
			for _, to := range g.destinations(ctx, pod, names) {
				if c := (seenCall{s.Name, to}); to != s.Name && !slices.Contains(calls, c) {
					calls = append(calls, c)
				}
			}
		}
	}
	return calls
}

// destinations are the Services that a pod's sidecars have counted calls to. Unreadable counters count none.
func (g *callGraph) destinations(ctx context.Context, pod *corev1.Pod, names []string) (all []string) {
	for _, x := range g.spec.Mesh.Kubernetes.Proxies {
		if x.In != mesh.InPod {
			continue
		}
		x.Counters = slices.DeleteFunc(slices.Clone(x.Counters), func(c mesh.Counter) bool { return c.Way() != mesh.WayOut })
		values, err := meshes.LabelValues(ctx, g.cluster, x, pod)
		if err != nil {
			continue
		}
		for _, name := range names {
			if slices.ContainsFunc(values, func(v string) bool { return addressed(v, name, g.namespace) }) {
				all = append(all, name)
			}
		}
	}
	return all
}

// addressed reports whether a label's value is a Service, or its name in the namespace: "outbound|80||api.shop.svc…".
func addressed(value, service, namespace string) bool {
	before, after, found := strings.Cut(value, service+"."+namespace)
	if !found {
		return value == service
	}
	starts := before == "" || strings.ContainsAny(before[len(before)-1:], "|/:;,")
	return starts && (after == "" || strings.ContainsAny(after[:1], ".|:/;,"))
}

// text is the calls as application.services takes them.
func (g *callGraph) text(calls []seenCall) string {
	var lines []string
	for _, s := range g.spec.Topology.Services {
		var to []string
		for _, c := range calls {
			if c.caller == s.Name {
				to = append(to, c.service)
			}
		}
		if len(to) > 0 {
			lines = append(lines, fmt.Sprintf("{name: %s, calls: [%s]}", s.Name, strings.Join(to, ", ")))
		}
	}
	return strings.Join(lines, ", ")
}

// callsFound reports the calls, as text has them, and what they are for.
func callsFound(text string) string {
	return "the proxies saw calls between services: add application: {services: [" + text + "]} to the file, and requests are counted along them"
}
