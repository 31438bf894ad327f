package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// backgroundPods are the pods of background services: a Deployment for each service, outside the mesh, on nodes of KWOK. Kubernetes
// schedules them and makes their endpoints, and no program runs. They are in no figure of the trial, as all pods of simulated nodes.
type backgroundPods struct {
	*trial
	changing map[string]string // by service: its pod whose address changes
}

// count is the number of pods of all services together.
func (p *backgroundPods) count() int { return p.spec.Treatment.Levels.BackgroundPods }

func labelsOfBackground(i int) map[string]string {
	return map[string]string{labelBackground: mesh.BackgroundName(i)}
}

// replicas is the number of pods of a service: as many as of the others, or one more.
func (p *backgroundPods) replicas(i int) int {
	services := p.spec.Treatment.Levels.BackgroundServices
	n := p.count() / services
	if i < p.count()%services {
		n++
	}
	return n
}

// deployment has the pods of a service. A pod ends at once, without its node.
func (p *backgroundPods) deployment(i int) *appsv1.Deployment {
	c := manifests{p.trial}.container(harnessContainer, 0)
	c.Resources = corev1.ResourceRequirements{}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labelsOfBackground(i)}, Spec: restrictedPod(c)}
	template.Spec.TerminationGracePeriodSeconds = new(int64(0))
	cluster.OnKWOKNodes(&template.Spec)
	mark(&template.ObjectMeta, p.enrolment.Exempt)
	return &appsv1.Deployment{ObjectMeta: p.meta(mesh.BackgroundName(i)), Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(p.replicas(i))), Selector: &metav1.LabelSelector{MatchLabels: labelsOfBackground(i)}, Template: template}}
}

// await waits until each pod is a ready endpoint.
func (p *backgroundPods) await(ctx context.Context, progress func(string)) error {
	if p.count() == 0 || p.cluster.DryRun() {
		return nil
	}
	behind, state := mesh.BackgroundName(0), ""
	err := wait.Within(ctx, p.options.readyWithin(), time.Second, func(ctx context.Context) error {
		var list *discoveryv1.EndpointSliceList
		if err := p.cluster.Retry(ctx, "list the endpoints of background pods", func(ctx context.Context) (err error) {
			list, err = p.cluster.Typed().DiscoveryV1().EndpointSlices(p.namespace).List(ctx, metav1.ListOptions{LabelSelector: labelBackground})
			return err
		}); err != nil {
			if ctx.Err() != nil { // no attempt: the last one counts
				return err
			}
			return wait.Stop(err)
		}
		ready, sum := p.readyIn(list.Items), 0
		for i := range p.spec.Treatment.Levels.BackgroundServices {
			name := mesh.BackgroundName(i)
			if sum += ready[name]; ready[name] < p.replicas(i) {
				behind = name
			}
		}
		if sum == p.count() {
			return nil
		}
		state = fmt.Sprintf("%d of %d background pods are ready endpoints", sum, p.count())
		progress(state)
		return errors.New(state)
	})
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return err
	}
	why := append([]string{fmt.Sprintf("%s, after %v", state, p.options.readyWithin())},
		p.cluster.Explain(ctx, cluster.Ref{Kind: cluster.KindDeployment, Namespace: p.namespace, Name: behind})...)
	return hint.New("KWOK must run and manage the nodes labelled type: kwok, and these need room for the pods; raise platform.readyWithin if it is slow",
		"%s", strings.Join(why, "; "))
}

// readyIn returns the number of ready pods of each service, and remembers one of them.
func (p *backgroundPods) readyIn(all []discoveryv1.EndpointSlice) map[string]int {
	ready := map[string]int{}
	p.changing = map[string]string{}
	for _, s := range all {
		service := s.Labels[discoveryv1.LabelServiceName]
		for _, e := range s.Endpoints {
			if e.TargetRef != nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				ready[service]++
				p.changing[service] = e.TargetRef.Name
			}
		}
	}
	return ready
}

// change gives a pod of a service another address, by its status. Kubernetes then writes one EndpointSlice. The deletion of a pod would
// cause several, at times that depend on KWOK.
func (p *backgroundPods) change(ctx context.Context, i int, address string) error {
	return p.cluster.Patch(ctx, cluster.Ref{Kind: cluster.KindPod, Namespace: p.namespace, Name: p.changing[mesh.BackgroundName(i)]},
		fmt.Appendf(nil, `{"status":{"podIP":%q,"podIPs":[{"ip":%[1]q}]}}`, address), "status")
}

// checkKWOK refuses a run whose background pods would stay pending.
func (p *Platform) checkKWOK(ctx context.Context) error {
	want := p.options.BackgroundPods
	if want == 0 {
		return nil
	}
	room, err := p.options.Cluster.KWOKPods(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("background.pods: %w", err)
	case room < want:
		return hint.New("install KWOK, and create nodes with the label type: kwok and the annotation kwok.x-k8s.io/node: fake",
			"background.pods: %d pods need simulated nodes, and ready ones labelled type: kwok have room for %d", want, room)
	}
	return nil
}
