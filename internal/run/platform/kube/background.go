package kube

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// background is the services of a trial that no request calls: a Service without a selector each, and an EndpointSlice with one address
// at which nothing answers. They are in the trial's namespace and removed with it.
type background struct {
	*trial
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
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(createdAtOnce)
	if b.cluster.DryRun() {
		group.SetLimit(1) // in order
	}
	stamp := cluster.Stamp{Run: b.options.Run, Labels: b.stampLabels()}
	for i := range n {
		group.Go(routine.Guarded(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := b.cluster.Apply(ctx, stamp, b.service(i), b.slice(i)); err != nil {
				return err
			}
			progress.Add(fmt.Sprintf("%d of %d background services are created", created.Add(1), n))
			return nil
		}))
	}
	return group.Wait()
}

func (b *background) service(i int) *corev1.Service {
	return &corev1.Service{ObjectMeta: b.meta(mesh.BackgroundName(i)), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: backgroundPort}}}}
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
	name := mesh.BackgroundName((number - 1) % b.spec.Treatment.Levels.BackgroundServices)
	return b.cluster.Patch(ctx, cluster.Ref{Kind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), Namespace: b.namespace, Name: name},
		fmt.Appendf(nil, `{"endpoints":[{"addresses":[%q],"conditions":{"ready":true}}]}`, mesh.BackgroundAddress(number)))
}
