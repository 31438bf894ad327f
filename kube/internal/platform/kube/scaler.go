package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/wait"
)

const (
	// deletionCost is the annotation by which a ReplicaSet chooses the pod to delete first (KEP-2255).
	deletionCost = "controller.kubernetes.io/pod-deletion-cost"
	deleteFirst  = "-1000000"
)

// scaler changes the replica counts of services.
type scaler struct {
	*trial
	pods   *trialPods
	faults *faults

	mu    sync.Mutex     // held during a change
	delta map[string]int // replicas beyond the specification, by service
}

// Shrink implements [platform.Scaler]: it removes one replica, and makes the ReplicaSet delete this pod.
func (s *scaler) Shrink(ctx context.Context, name string, grace time.Duration) error {
	pod, err := s.pods.find(name + "/" + appContainer)
	if errors.Is(err, errEnded) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.removeReplica(ctx, pod, grace)
}

func (s *scaler) removeReplica(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	pods := s.cluster.Typed().CoreV1().Pods(pod.Namespace)
	err := s.cluster.Retry(ctx, "mark "+pod.Name, func(ctx context.Context) error {
		_, err := pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+deletionCost+`":"`+deleteFirst+`"}}}`), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return err
	}
	// The ReplicaSet's controller sees the annotation through a watch, as this one does. The count changes only then.
	err = wait.Within(ctx, endTimeout, pollInterval, func(context.Context) error {
		if now := s.pods.byUID(pod.UID); now != nil && now.Annotations[deletionCost] != deleteFirst {
			return fmt.Errorf("pod %s is not marked", pod.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.faults.release(pod, true)
	if err := s.scaleBy(ctx, pod.Labels[labelService], -1); err != nil {
		return err
	}
	return s.pods.awaitDeleted(ctx, pod, max(grace, graceSeconds*time.Second))
}

// Grow implements [platform.Scaler]: it adds one replica, which takes the slot of the removed one.
func (s *scaler) Grow(ctx context.Context, name string) error {
	service, number, ok := s.pods.slots.find(name)
	if !ok {
		return errNoService
	}
	if s.pods.slots.reopen(service, number) {
		if err := s.scaleBy(ctx, service, +1); err != nil {
			return err
		}
	}
	return s.faults.awaitReplacement(ctx, service, number)
}

// scaleBy changes the replica count of a service.
func (s *scaler) scaleBy(ctx context.Context, name string, by int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	service, ok := s.spec.Topology.Service(name)
	if !ok {
		return errNoService
	}
	if s.delta == nil {
		s.delta = map[string]int{}
	}
	s.delta[name] += by
	replicas := s.spec.Replicas(service) + s.delta[name]
	return s.cluster.Retry(ctx, "scale "+name, func(ctx context.Context) error {
		_, err := s.cluster.Typed().AppsV1().Deployments(s.namespace).Patch(ctx, name, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
		return err
	})
}
