package kube

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// background is the services of a trial that no request calls. Each has pods on simulated nodes, or no selector and an EndpointSlice with
// one address. Nothing answers there. They are in the trial's namespace and removed with it.
type background struct {
	*trial
	pods *backgroundPods
	*simulatedProxies
}

// createdAtOnce is the number of background services that are created at the same time.
const createdAtOnce = 16

// create creates the services, before the first proxy starts. The results have their number, and no manifest of them.
func (b *background) create(ctx context.Context) error {
	n := b.spec.Treatment.Levels.BackgroundServices
	progress := platform.NewDelayedReport(b.options.Report)
	defer progress.Close()
	var created atomic.Int64
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(createdAtOnce)
	if b.cluster.DryRun() {
		group.SetLimit(1) // in order
	}
	stamp := cluster.Stamp{Run: b.options.Run, Labels: b.stampLabels()}
	for i := range n {
		group.Go(routine.Guarded(func() error {
			if creating.Err() != nil {
				return creating.Err()
			}
			if err := b.cluster.Apply(creating, stamp, b.service(i), b.endpoints(i)); err != nil {
				return err
			}
			progress.Add(fmt.Sprintf("%d of %d background services are created", created.Add(1), n))
			return nil
		}))
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return b.pods.await(ctx, progress.Add)
}

func (b *background) service(i int) *corev1.Service {
	s := &corev1.Service{ObjectMeta: b.meta(mesh.BackgroundName(i)), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: backgroundPort}}}}
	if b.pods.count() > 0 {
		s.Labels, s.Spec.Selector = labelsOfBackground(i), labelsOfBackground(i) // Kubernetes copies the labels to EndpointSlices
	}
	return s
}

// endpoints returns the object that a service has its endpoints from.
func (b *background) endpoints(i int) runtime.Object {
	if b.pods.count() > 0 {
		return b.pods.deployment(i)
	}
	return b.slice(i)
}

// slice are the endpoints of a service. By its label no controller of Kubernetes changes it.
func (b *background) slice(i int) *discoveryv1.EndpointSlice {
	metadata := b.meta(mesh.BackgroundName(i))
	metadata.Labels = map[string]string{discoveryv1.LabelServiceName: metadata.Name, discoveryv1.LabelManagedBy: cluster.ManagedBy}
	return &discoveryv1.EndpointSlice{ObjectMeta: metadata, AddressType: discoveryv1.AddressTypeIPv4,
		Ports:     []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(backgroundPort))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{mesh.BackgroundAddress(0)}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}}}
}

// backgroundPort is the port of background services.
const backgroundPort = 80

func (b *background) ChangeBackground(ctx context.Context, number int) error {
	i := (number - 1) % b.spec.Treatment.Levels.BackgroundServices
	if b.pods.count() > 0 {
		return b.pods.change(ctx, i, mesh.BackgroundAddress(number))
	}
	name := mesh.BackgroundName(i)
	return b.cluster.Patch(ctx, cluster.Ref{Kind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), Namespace: b.namespace, Name: name},
		fmt.Appendf(nil, `{"endpoints":[{"addresses":[%q],"conditions":{"ready":true}}]}`, mesh.BackgroundAddress(number)))
}

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
		list, err := cluster.Retried(ctx, p.cluster, "list the endpoints of background pods", func(ctx context.Context) (*discoveryv1.EndpointSliceList, error) {
			return p.cluster.Typed().DiscoveryV1().EndpointSlices(p.namespace).List(ctx, metav1.ListOptions{LabelSelector: labelBackground})
		})
		if err != nil {
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

const (
	// simulatedName is the name of the pod of the simulated proxies.
	simulatedName = "simulated-proxies"
	simulatedPort = 9098
	// harnessContainer is the name of containers that are part of tare.
	harnessContainer = "tare"
)

// simulatedProxies is the pod of the simulated proxies, outside the mesh. Its work is in no sum of the trial.
type simulatedProxies struct {
	trial   *trial
	applier *applier
	pods    *trialPods
	monitor *podMonitor
	node    string
	forward *cluster.Forward // nil without any
	api     platform.SimulatedProxies
}

// count is the number of simulated proxies: none without a mesh.
func (sp *simulatedProxies) count() int {
	if !sp.trial.enrolment.enrolled {
		return 0
	}
	return sp.trial.spec.Treatment.Levels.BackgroundProxies
}

// start creates the pod, once the application is ready: a control plane that limits new streams has then configured its sidecars.
func (sp *simulatedProxies) start(ctx context.Context) error {
	if sp.count() == 0 {
		return nil
	}
	if err := sp.trial.spec.Mesh.CanSimulate(mesh.OnKubernetes); err != nil {
		return fmt.Errorf("simulated proxies: %w", err)
	}
	if err := sp.applier.apply(ctx, sp.pod()); err != nil {
		return err
	}
	return sp.applier.wait(ctx, cluster.Ref{Kind: cluster.KindPod, Namespace: sp.trial.namespace, Name: simulatedName})
}

// Memory of a simulated proxy: of its stream, and of the names that it knows of each service.
const (
	simulatedMemory  = 256 << 10 // bytes
	simulatedService = 512       // bytes
)

func (sp *simulatedProxies) pod() *corev1.Pod {
	m := manifests{sp.trial}
	memory := sp.count() * (simulatedMemory + simulatedService*sp.trial.spec.Treatment.Levels.BackgroundServices)
	c := m.container(harnessContainer, app.Size(memory), platform.SimulatedArgs("127.0.0.1:"+strconv.Itoa(simulatedPort), tokenDir+"/"+tokenKey, sp.count(), sp.trial.enrolment.Simulated)...)
	c.VolumeMounts = append(c.VolumeMounts, tokenMount)
	spec := restrictedPod(c)
	spec.Volumes = append(spec.Volumes, tokenVolume())
	spec.RestartPolicy = corev1.RestartPolicyNever
	m.placeAway(&spec)
	pod := &corev1.Pod{ObjectMeta: sp.trial.meta(simulatedName), Spec: spec}
	mark(&pod.ObjectMeta, sp.trial.enrolment.Exempt)
	return pod
}

// isSimulated reports whether a pod has the simulated proxies.
func (t *trial) isSimulated(pod *corev1.Pod) bool { return t.owns(pod) && pod.Name == simulatedName }

// connect waits until each simulated proxy has a configuration.
func (sp *simulatedProxies) connect(ctx context.Context) error {
	if sp.count() == 0 || sp.trial.cluster.DryRun() {
		return nil
	}
	for _, pod := range sp.pods.all() {
		if sp.trial.isSimulated(pod) {
			sp.node = pod.Spec.NodeName
		}
	}
	sp.forward = sp.trial.cluster.Forward(sp.trial.namespace, simulatedName, simulatedPort)
	sp.api = platform.SimulatedProxies{URL: "http://" + simulatedName, Token: sp.trial.token, Dial: sp.forward.DialContext,
		Log: "the log of pod " + simulatedName + " in the trial's provenance directory"}
	return sp.api.Await(ctx, sp.count(), sp.trial.spec.Treatment.Levels.BackgroundServices, sp.monitor.Err, sp.trial.options.Report)
}

func (sp *simulatedProxies) Received(ctx context.Context) (*platform.Received, error) {
	if sp.forward == nil {
		return nil, nil
	}
	r, err := sp.api.Received(ctx)
	if err != nil {
		return nil, err
	}
	if r.Ahead, _, err = sp.trial.clockOf(ctx, sp.node, sp.api.Clock); err != nil {
		return nil, fmt.Errorf("clock of the simulated proxies: %w", err)
	}
	return r, nil
}

func (sp *simulatedProxies) close() {
	if sp.forward != nil {
		sp.forward.Close()
	}
}
