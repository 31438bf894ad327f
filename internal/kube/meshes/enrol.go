package meshes

import (
	"context"
	"fmt"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// Enrol renders what puts a namespace under the mesh. Its marks are to be on the namespace when that is made, and on the
// pods; [Mesh.Enter] does the rest.
func (m *Mesh) Enrol(namespace string, way mesh.Way) (mesh.Enrolled, error) {
	return m.k.Enrol(m.settings, namespace, way)
}

// Enter puts the manifests of an enrolment into its namespace, which exists and carries the marks, and waits for what
// comes of them (a waypoint, a gateway), in as many replicas as the profile has. It is called before any pod of the application is
// made: a connection that is older than a waypoint or a policy goes on without it. s marks the objects as the caller's,
// with whom they go.
func (m *Mesh) Enter(ctx context.Context, s cluster.Stamp, namespace string, e mesh.Enrolled) error {
	ctx, cancel := within(ctx, InstallWithin)
	defer cancel()
	for _, text := range e.Manifests {
		all, err := objects([]byte(text))
		if err != nil {
			return fmt.Errorf("enrol namespace %s: %w", namespace, err)
		}
		for _, o := range all {
			o.SetNamespace(namespace)
		}
		if err := m.apply(ctx, s, all); err != nil {
			return fmt.Errorf("enrol namespace %s: %w", namespace, m.unknownKind(err))
		}
	}
	if m.cluster.DryRun() {
		return nil
	}
	for _, w := range e.Workloads {
		if err := m.scale(ctx, refOf(w, namespace), w.Scaled, int32(e.Replicas)); err != nil {
			return fmt.Errorf("enrol namespace %s: %w", namespace, err)
		}
	}
	return nil
}

// unknownKind says what can be done where the cluster does not know a kind of object.
func (m *Mesh) unknownKind(err error) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	return &Error{err, "a mesh that was installed without its gateway has not brought the Gateway API: `tare mesh uninstall " + m.definition.Name +
		"`, and let the run install it, or `tare mesh install " + m.definition.Name + " --gateway`"}
}

// scalers are the autoscalers of a workload.
func (m *Mesh) scalers(ctx context.Context, ref cluster.Ref) ([]autoscalingv1.HorizontalPodAutoscaler, error) {
	list, err := m.cluster.Typed().AutoscalingV1().HorizontalPodAutoscalers(ref.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(h autoscalingv1.HorizontalPodAutoscaler) bool {
		return h.Spec.ScaleTargetRef.Kind != ref.Kind.Kind || h.Spec.ScaleTargetRef.Name != ref.Name
	}), nil
}

// unheld says what autoscalers may make of a workload that is to have so many replicas; empty: nothing else.
func (m *Mesh) unheld(ctx context.Context, ref cluster.Ref, replicas int) (string, error) {
	found := ""
	err := m.cluster.Retry(ctx, "look for autoscalers of "+ref.String(), func(ctx context.Context) error {
		scalers, err := m.scalers(ctx, ref)
		if apierrors.IsForbidden(err) {
			return nil // whoever may not look at them has them watched by the number of replicas alone
		}
		for _, h := range scalers {
			least := int32(1)
			if h.Spec.MinReplicas != nil {
				least = *h.Spec.MinReplicas
			}
			if int(least) != replicas || int(h.Spec.MaxReplicas) != replicas {
				found = fmt.Sprintf("autoscaler %s may make it %d to %d", h.Name, least, h.Spec.MaxReplicas)
			}
		}
		return err
	})
	return found, err
}

// scale brings a workload that the mesh's own controller makes to so many replicas and waits for them. An autoscaler of
// it, which newer charts bring, is held at the same number: it would take the replicas away again.
func (m *Mesh) scale(ctx context.Context, ref cluster.Ref, scaled bool, replicas int32) error {
	if err := m.cluster.WaitReady(ctx, m.o.Report, ref); err != nil || !scaled {
		return err
	}
	err := m.cluster.Retry(ctx, "hold the autoscaler of "+ref.String(), func(ctx context.Context) error {
		scalers, err := m.scalers(ctx, ref)
		if err != nil {
			return err
		}
		for _, h := range scalers {
			patch := fmt.Appendf(nil, `{"spec":{"minReplicas":%d,"maxReplicas":%d}}`, replicas, replicas)
			if _, err := m.cluster.Typed().AutoscalingV1().HorizontalPodAutoscalers(ref.Namespace).Patch(ctx, h.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = m.cluster.Retry(ctx, "scale "+ref.String(), func(ctx context.Context) error {
		to := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
		var err error
		if ref.Kind == cluster.KindStatefulSet {
			_, err = m.cluster.Typed().AppsV1().StatefulSets(ref.Namespace).UpdateScale(ctx, ref.Name, to, metav1.UpdateOptions{})
		} else {
			_, err = m.cluster.Typed().AppsV1().Deployments(ref.Namespace).UpdateScale(ctx, ref.Name, to, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return err
	}
	return m.cluster.WaitReady(ctx, m.o.Report, ref)
}
