package kube

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tare-mesh/tare/internal/base/routine"
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

// ChangeBackground implements [platform.Background].
func (b *background) ChangeBackground(ctx context.Context, number int) error {
	i := (number - 1) % b.spec.Treatment.Levels.BackgroundServices
	if b.pods.count() > 0 {
		return b.pods.change(ctx, i, mesh.BackgroundAddress(number))
	}
	name := mesh.BackgroundName(i)
	return b.cluster.Patch(ctx, cluster.Ref{Kind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), Namespace: b.namespace, Name: name},
		fmt.Appendf(nil, `{"endpoints":[{"addresses":[%q],"conditions":{"ready":true}}]}`, mesh.BackgroundAddress(number)))
}
