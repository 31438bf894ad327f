package kube

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/kube/cluster"
)

const (
	// endTimeout bounds how long a pod may take to go, beyond its grace, and returnTimeout how long another one to be ready.
	endTimeout    = time.Minute
	returnTimeout = 3 * time.Minute
	// lookEvery is how often the pods that are followed are looked at while one is waited for.
	lookEvery = 50 * time.Millisecond
	// deletionCost tells a ReplicaSet which pod to give up first (KEP-2255).
	deletionCost = "controller.kubernetes.io/pod-deletion-cost"
	firstToGo    = "-1000000"
)

// End implements [platform.TaskFaults]: the pod is deleted, and its Deployment makes another at once.
func (d *deployment) End(ctx context.Context, id string, grace time.Duration) error {
	fail := func(err error) error { return fmt.Errorf("end %s: %w", id, err) }
	pod, err := d.find(id)
	if errors.Is(err, errEnded) {
		return nil
	}
	if err != nil {
		return fail(err)
	}
	d.giveUp(pod, false)
	seconds := int64(math.Ceil(grace.Seconds()))
	err = d.cluster.Retry(ctx, "delete pod "+pod.Name, func(ctx context.Context) error {
		err := d.cluster.Typed().CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
			metav1.DeleteOptions{GracePeriodSeconds: &seconds, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if cluster.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fail(err)
	}
	if err := d.awaitGone(ctx, pod, grace); err != nil {
		return fail(err)
	}
	return nil
}

// Restart implements [platform.TaskFaults]: it waits for the pod that the Deployment makes.
func (d *deployment) Restart(ctx context.Context, id string) error {
	service, number, ok := d.seatOf(strings.TrimSuffix(id, "/"+appContainer))
	if !ok {
		return fmt.Errorf("restart %s: %w", id, errNoService)
	}
	if err := d.awaitReturn(ctx, service, number); err != nil {
		return fmt.Errorf("restart %s: %w", id, err)
	}
	return nil
}

// Freeze implements [platform.TaskFaults].
func (d *deployment) Freeze(_ context.Context, id string, _ bool) error {
	return fmt.Errorf("freeze %s: %w on Kubernetes: %s", id, errors.ErrUnsupported, noSignals)
}

// Shrink implements [platform.Scaler]: the service has one replica fewer, and this pod is the one to go.
func (d *deployment) Shrink(ctx context.Context, name string, grace time.Duration) error {
	fail := func(err error) error { return fmt.Errorf("remove %s: %w", name, err) }
	pod, err := d.find(name + "/" + appContainer)
	if errors.Is(err, errEnded) {
		return nil
	}
	if err != nil {
		return fail(err)
	}
	pods := d.cluster.Typed().CoreV1().Pods(pod.Namespace)
	err = d.patch(ctx, "mark "+pod.Name, func(ctx context.Context) error {
		_, err := pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+deletionCost+`":"`+firstToGo+`"}}}`), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return fail(err)
	}
	// The ReplicaSet's controller hears of it by a watch, as is done here; it is told of the number only then.
	marked := func() bool {
		now := d.pod(pod.UID)
		return now == nil || now.Annotations[deletionCost] == firstToGo
	}
	if err := until(ctx, endTimeout, marked); err != nil {
		return fail(err)
	}
	d.giveUp(pod, true)
	if err := d.scaleBy(ctx, pod.Labels[labelService], -1); err != nil {
		return fail(err)
	}
	if err := d.awaitGone(ctx, pod, max(grace, graceSeconds*time.Second)); err != nil {
		return fail(err)
	}
	return nil
}

// Grow implements [platform.Scaler]: the service has one replica more, which takes the place of the one that went.
func (d *deployment) Grow(ctx context.Context, name string) error {
	fail := func(err error) error { return fmt.Errorf("bring back %s: %w", name, err) }
	service, number, ok := d.seatOf(name)
	if !ok {
		return fail(errNoService)
	}
	d.mu.Lock()
	s := d.seats[service][number]
	was := s.away
	s.away = false
	d.mu.Unlock()
	if was {
		if err := d.scaleBy(ctx, service, +1); err != nil {
			return fail(err)
		}
	}
	if err := d.awaitReturn(ctx, service, number); err != nil {
		return fail(err)
	}
	return nil
}

// scaleBy changes the number of a service's replicas; one change at a time.
func (d *deployment) scaleBy(ctx context.Context, service string, by int) error {
	d.scaling.Lock()
	defer d.scaling.Unlock()
	s, ok := d.spec.Topology.Service(service)
	if !ok {
		return errNoService
	}
	d.scaled[service] += by
	to := d.spec.Replicas(s) + d.scaled[service]
	return d.patch(ctx, "scale "+service, func(ctx context.Context) error {
		_, err := d.cluster.Typed().AppsV1().Deployments(d.namespace).Patch(ctx, service, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, to), metav1.PatchOptions{})
		return err
	})
}

func (d *deployment) patch(ctx context.Context, what string, do func(context.Context) error) error {
	return d.cluster.Retry(ctx, what, do)
}

// giveUp stops watching a pod that a fault ends, and leaves its seat to the next.
func (d *deployment) giveUp(pod *corev1.Pod, away bool) {
	service := d.serviceOf(pod)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.watcher.up, pod.UID)
	number, _ := d.seated(service, pod.Name)
	s := d.seats[service][number]
	s.vacant, s.away = true, away
}

// awaitGone waits until a pod is gone from the cluster.
func (d *deployment) awaitGone(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	if err := until(ctx, grace+endTimeout, func() bool { return d.pod(pod.UID) == nil }); err != nil {
		return fmt.Errorf("pod %s does not go: %w", pod.Name, err)
	}
	return nil
}

// awaitReturn waits until another pod has taken a seat and is ready, and watches it from then on.
func (d *deployment) awaitReturn(ctx context.Context, service string, number int) error {
	var pod *corev1.Pod
	err := until(ctx, returnTimeout, func() bool {
		if pod = d.sitting(service, number); pod == nil || !isReady(pod) {
			return false
		}
		return true
	})
	if err != nil {
		why := d.cluster.Explain(context.WithoutCancel(ctx), cluster.Ref{Kind: cluster.KindDeployment, Namespace: d.namespace, Name: service})
		return fmt.Errorf("no pod is ready in its place: %w: %s", err, strings.Join(why, "; "))
	}
	d.mu.Lock()
	d.watcher.add(pod)
	d.mu.Unlock()
	return nil
}

// sitting is the pod that now has a seat; nil: it is vacant.
func (d *deployment) sitting(service string, number int) *corev1.Pod {
	pods := d.of(service) // each has its seat then
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.seats[service][number]
	if s.vacant {
		return nil
	}
	for _, pod := range pods {
		if pod.Name == s.pods[len(s.pods)-1] && pod.DeletionTimestamp == nil {
			return pod
		}
	}
	return nil
}

// seatOf finds a seat by the name of its pods.
func (d *deployment) seatOf(name string) (service string, number int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for service, seats := range d.seats {
		for i := range seats {
			if numbered(service, i) == name {
				return service, i, true
			}
		}
	}
	return "", 0, false
}

// pod is a pod of the trial as it was last heard of; nil: it is gone.
func (d *deployment) pod(uid types.UID) *corev1.Pod {
	for _, pod := range d.own() {
		if pod.UID == uid {
			return pod
		}
	}
	return nil
}

// until waits on what is followed by a watch.
func until(ctx context.Context, within time.Duration, holds func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%w after %v", context.DeadlineExceeded, within))
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
