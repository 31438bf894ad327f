package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// probePause is the pause before failed probes are repeated.
const probePause = 500 * time.Millisecond

// verifier checks that the application answers, that pods have the right containers, and that traffic passes the mesh.
type verifier struct {
	*trial
	pods    *trialPods
	monitor *podMonitor
	prober  *prober
	applier *applier
	archive archive
}

// Verify implements [platform.Deployment.Verify].
func (v *verifier) Verify(ctx context.Context, probe platform.Probe) (done platform.Verification, err error) {
	if err := v.monitor.Err(); err != nil {
		return done, fmt.Errorf("verify: %w", err)
	}
	limits := v.checkLimits()
	if done.Checks = []check.Check{limits}; !limits.OK { // throttled probes would fail without the reason
		return done, nil
	}
	v.prober.probe = v.spec.Completed(probe, v.prober.entry.Entry())
	answers, err := v.checkAnswers(ctx)
	if err != nil {
		return done, fmt.Errorf("verify: %w", err)
	}
	done.Checks = append(done.Checks, answers, v.checkContainers())
	if !v.enrolment.enrolled || !answers.OK {
		return done, nil
	}
	of, err := v.checkMesh(ctx)
	done.Checks = append(done.Checks, of...)
	if err == nil {
		done.Checks = append(done.Checks, knownServices{v.trial}.check(ctx, v.pods.all())...)
	}
	return done, err
}

// checkAnswers sends probes until all of them succeed, for at most openTimeout.
func (v *verifier) checkAnswers(ctx context.Context) (check.Check, error) {
	c := check.Check{Name: "answers of " + v.spec.Entry().Name}
	err := wait.Within(ctx, openTimeout, probePause, func(context.Context) error {
		report, err := v.prober.send(ctx) // one that has begun is not cut short
		if err != nil {
			return wait.Stop(err)
		}
		if c.OK, c.Detail = v.prober.accept(report); !c.OK {
			return errors.New(c.Detail)
		}
		return nil
	})
	if err != nil && c.Detail != "" && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		c.Hint = "the application or a proxy in front of it fails; see their logs in the trial's provenance directory"
		return c, nil
	}
	return c, err
}

// checkContainers compares the containers of every pod with its manifest: without a mesh nothing is injected, with a
// mesh of sidecars every pod has its proxy.
func (v *verifier) checkContainers() check.Check {
	c := check.Check{Name: "containers"}
	pods := v.pods.all()
	proxies := v.sidecars()
	for _, pod := range pods {
		manifest, err := v.manifestOf(pod)
		want, got := manifest.containers, containerNames(pod)
		if err != nil {
			continue // a gateway of the mesh in the namespace
		}
		if v.spec.Mesh.Kubernetes == nil && !slices.Equal(got, want) {
			c.Detail = fmt.Sprintf("pod %s has the containers %s, its manifest has %s", pod.Name, strings.Join(got, ", "), strings.Join(want, ", "))
			c.Hint = "the cluster injects containers into every namespace: find an admission webhook without a namespace selector"
			return c
		}
		for _, name := range want { // those that a variant adds among them
			if !slices.Contains(got, name) {
				c.Detail = fmt.Sprintf("pod %s has the containers %s, without %s of its manifest", pod.Name, strings.Join(got, ", "), name)
				c.Hint = "an admission webhook of the cluster removes it"
				return c
			}
		}
		for _, proxy := range proxies {
			if !slices.ContainsFunc(got, func(name string) bool { return mesh.Match(proxy, name) }) && (v.enrolment.loadInside || pod.Labels[labelService] != loadService) {
				c.Detail = fmt.Sprintf("pod %s has the containers %s, without %s", pod.Name, strings.Join(got, ", "), proxy)
				c.Hint = "the mesh injected no proxy: see its injector's log, and the labels of the pod and of its namespace"
				return c
			}
		}
	}
	c.OK = true
	c.Detail = fmt.Sprintf("%d pods have exactly the containers of their manifests", len(pods))
	if len(proxies) > 0 {
		c.Detail = fmt.Sprintf("%d pods have the containers of their manifests, and %s", len(pods), strings.Join(proxies, ", "))
	}
	return c
}

// sidecars are the containers that the mesh injects into every pod.
func (v *verifier) sidecars() (containers []string) {
	if v.spec.Mesh.Kubernetes == nil {
		return nil
	}
	for _, p := range v.spec.Mesh.Kubernetes.Proxies {
		if p.In == mesh.InPod {
			containers = append(containers, p.Container)
		}
	}
	return containers
}

// manifestOf is the manifest of a pod, before injection.
func (v *verifier) manifestOf(pod *corev1.Pod) (t podTemplate, err error) {
	if v.othersWrote(pod) {
		t, ok := v.foreign.template(pod)
		if !ok {
			return t, fmt.Errorf("pod %s is not of the chart", pod.Name)
		}
		return t, nil
	}
	spec, err := manifests{v.trial}.podOf(pod.Labels[labelService])
	t.add(slices.Concat(spec.InitContainers, spec.Containers)...)
	return t, err
}

// othersWrote reports whether a pod is of an application that others wrote, and not of the load.
func (v *verifier) othersWrote(pod *corev1.Pod) bool {
	return v.foreign != nil && pod.Labels[labelService] == ""
}

// containerNames are the names of a pod's containers, init containers first.
func containerNames(pod *corev1.Pod) []string {
	return printable.Texts(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) string { return c.Name })
}

// checkMesh verifies the mesh with probes and archives its manifests and running configuration.
func (v *verifier) checkMesh(ctx context.Context) ([]check.Check, error) {
	traffic := trafficByService(v.spec, v.enrolment.loadInside, v.enrolment.front != nil)
	client := newOutsideClient(v.applier)
	checks, err := v.mesh.Verify(ctx, meshes.Target{
		Namespace:  v.namespace,
		LoadInside: v.enrolment.loadInside,
		Front:      v.enrolment.front,
		Traffic:    func(pod *corev1.Pod) meshes.PodTraffic { return traffic[v.serviceOf(pod)] },
		IsLoad:     func(pod *corev1.Pod) bool { return pod.Labels[labelService] == loadService },
		IsOutside:  func(pod *corev1.Pod) bool { return v.isSimulated(pod) || pod.Labels[labelBackground] != "" },
		Probe:      v.prober.reachAll,
		Plaintext:  client.Request,
	})
	err = errors.Join(err, client.Remove(ctx))
	if err == nil && v.spec.Topology.CallsUnknown() {
		err = v.recordCalls(ctx)
	}
	if err != nil || !v.archive.Enabled() {
		return checks, err
	}
	return checks, v.mesh.Archive(ctx, v.namespace, v.archive.meshFile)
}

// recordCalls keeps the calls that the probes caused, and prints them once in a run.
func (v *verifier) recordCalls(ctx context.Context) error {
	graph := &callGraph{v.trial, v.pods}
	text := graph.text(graph.find(ctx))
	if text == "" {
		return nil
	}
	if v.options.calls != text {
		v.options.calls = text
		v.options.Report(callsFound(text))
	}
	return v.archive.Append(callsFile, "# calls that the proxies saw during the verification\nservices: [%s]\n", text)
}
