package kube

import (
	"context"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// controlTimes implements [platform.ControlTimer], by the histograms in the mesh's definition.
type controlTimes struct{ *trial }

// ControlTimes implements [platform.ControlTimer].
func (t controlTimes) ControlTimes(ctx context.Context) ([]mesh.CountedTime, error) {
	k := t.spec.Mesh.Kubernetes
	if k == nil || len(k.ControlTimes) == 0 {
		return nil, nil
	}
	return meshes.ControlTimes(ctx, t.cluster, *k)
}
