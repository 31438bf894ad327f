package meshes

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// enroller puts namespaces under the mesh.
type enroller struct{ *instance }

// enter implements [Mesh.Enter].
func (e *enroller) enter(ctx context.Context, s cluster.Stamp, namespace string, enrolled mesh.Enrolled) error {
	ctx, cancel := cluster.WithDefaultTimeout(ctx, InstallWithin)
	defer cancel()
	for _, text := range enrolled.Manifests {
		all, err := cluster.Parse([]byte(text))
		if err != nil {
			return fmt.Errorf("enrol namespace %s: %w", namespace, err)
		}
		for _, o := range all {
			o.SetNamespace(namespace)
		}
		if err := e.apply(ctx, s, all); err != nil {
			return fmt.Errorf("enrol namespace %s: %w", namespace, e.explained(err))
		}
	}
	if e.cluster.DryRun() {
		return nil
	}
	scaler := scaler{e.cluster, e.options.Report}
	for _, w := range enrolled.Workloads {
		if err := scaler.waitScaled(ctx, RefOf(w, namespace), w.Scaled, int32(enrolled.Replicas)); err != nil {
			return fmt.Errorf("enrol namespace %s: %w", namespace, err)
		}
	}
	return nil
}

// explained adds a hint if the cluster lacks a kind.
func (e *enroller) explained(err error) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	return hint.Wrap(err, "a mesh that was installed without its gateway does not include the Gateway API: `tare mesh uninstall "+e.definition.Name+
		"`, and let the run install it, or `tare mesh install "+e.definition.Name+" --gateway`")
}
