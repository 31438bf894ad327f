package kube

import (
	"context"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// ControlTimes implements [platform.Deployment.ControlTimes], by the histograms in the mesh's definition.
func (t *trial) ControlTimes(ctx context.Context) ([]mesh.CountedTime, error) {
	k := t.spec.Mesh.Kubernetes
	if k == nil || len(k.ControlTimes) == 0 {
		return nil, nil
	}
	return meshes.ControlTimes(ctx, t.cluster, *k)
}
