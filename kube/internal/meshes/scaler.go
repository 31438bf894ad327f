package meshes

import (
	"context"
	"fmt"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// scaler fixes the number of replicas of workloads that a mesh's controllers create.
type scaler struct {
	cluster *cluster.Cluster
	report  func(string)
}

// unfixed describes an autoscaler that can change a number of replicas, empty if there is none.
func (s scaler) unfixed(ctx context.Context, ref cluster.Ref, replicas int) (string, error) {
	found := ""
	err := s.cluster.Retry(ctx, "list the autoscalers of "+ref.String(), func(ctx context.Context) error {
		autoscalers, err := s.autoscalers(ctx, ref)
		if apierrors.IsForbidden(err) {
			return nil // without permission only the current number of replicas is checked
		}
		for _, h := range autoscalers {
			least := int32(1)
			if h.Spec.MinReplicas != nil {
				least = *h.Spec.MinReplicas
			}
			if int(least) != replicas || int(h.Spec.MaxReplicas) != replicas {
				found = fmt.Sprintf("autoscaler %s can change it to %d to %d", h.Name, least, h.Spec.MaxReplicas)
			}
		}
		return err
	})
	return found, err
}

// waitScaled waits until a workload is ready, and if scaled is set gives it a number of replicas and waits for them. An
// autoscaler, which newer charts include, is fixed at that number: it would revert the change.
func (s scaler) waitScaled(ctx context.Context, ref cluster.Ref, scaled bool, replicas int32) error {
	if err := s.cluster.WaitReady(ctx, s.report, ref); err != nil || !scaled {
		return err
	}
	if err := s.fixAutoscalers(ctx, ref, replicas); err != nil {
		return err
	}
	err := s.cluster.Retry(ctx, "scale "+ref.String(), func(ctx context.Context) error {
		to := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
		var err error
		if ref.Kind == cluster.KindStatefulSet {
			_, err = s.cluster.Typed().AppsV1().StatefulSets(ref.Namespace).UpdateScale(ctx, ref.Name, to, metav1.UpdateOptions{})
		} else {
			_, err = s.cluster.Typed().AppsV1().Deployments(ref.Namespace).UpdateScale(ctx, ref.Name, to, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.cluster.WaitReady(ctx, s.report, ref)
}

func (s scaler) fixAutoscalers(ctx context.Context, ref cluster.Ref, replicas int32) error {
	return s.cluster.Retry(ctx, "fix the autoscaler of "+ref.String(), func(ctx context.Context) error {
		autoscalers, err := s.autoscalers(ctx, ref)
		if err != nil {
			return err
		}
		for _, h := range autoscalers {
			patch := fmt.Appendf(nil, `{"spec":{"minReplicas":%d,"maxReplicas":%d}}`, replicas, replicas)
			if _, err := s.cluster.Typed().AutoscalingV1().HorizontalPodAutoscalers(ref.Namespace).Patch(ctx, h.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s scaler) autoscalers(ctx context.Context, ref cluster.Ref) ([]autoscalingv1.HorizontalPodAutoscaler, error) {
	list, err := s.cluster.Typed().AutoscalingV1().HorizontalPodAutoscalers(ref.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(h autoscalingv1.HorizontalPodAutoscaler) bool {
		return h.Spec.ScaleTargetRef.Kind != ref.Kind.Kind || h.Spec.ScaleTargetRef.Name != ref.Name
	}), nil
}
