package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// knownWithin bounds the wait until a sidecar has the background services in its configuration.
const knownWithin = 30 * time.Second

// knownServices checks what sidecars know of the background services.
type knownServices struct{ *trial }

// check checks that each sidecar knows the background services, as far as the mesh's definition has a gauge of it.
func (k knownServices) check(ctx context.Context, pods []*corev1.Pod) (checks []check.Check) {
	n := k.spec.Treatment.Levels.BackgroundServices
	if n == 0 || k.spec.Mesh.Kubernetes == nil {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	for _, x := range k.spec.Mesh.Kubernetes.Proxies {
		if x.In != mesh.InPod || x.Services == nil {
			continue
		}
		for _, pod := range pods {
			if slices.ContainsFunc(containerNames(pod), func(name string) bool { return mesh.Match(x.Container, name) }) {
				checks = append(checks, k.by(within, x, pod, meshes.Value))
			}
		}
	}
	return checks
}

func (k knownServices) by(ctx context.Context, x mesh.Proxy, pod *corev1.Pod, read func(context.Context, *cluster.Cluster, mesh.Series, *corev1.Pod) (float64, error)) check.Check {
	c := check.Check{Name: "background services in the " + x.Role + " of " + pod.Name}
	n := k.spec.Treatment.Levels.BackgroundServices
	err := wait.Until(ctx, probePause, func(ctx context.Context) error {
		value, err := read(ctx, k.cluster, *x.Services, pod)
		if err != nil {
			return err
		}
		c.OK, c.Detail = value >= float64(n), fmt.Sprintf("%s is %.0f, at least %d expected", x.Services.Metric, value, n)
		if !c.OK {
			return errors.New(c.Detail)
		}
		return nil
	})
	if !c.OK {
		c.Detail = fmt.Sprintf("%v, after %v", err, knownWithin)
		c.Hint = "the control plane does not send them, or the proxy refuses them; see their logs in the trial's provenance directory"
	}
	return c
}
