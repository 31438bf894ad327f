package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

const (
	// endTimeout bounds how long a pod may take to end beyond its grace period.
	endTimeout = time.Minute
	// replaceTimeout bounds how long the replacement of a pod may take to be ready.
	replaceTimeout = 3 * time.Minute
	// pollInterval is the interval of checks of the followed pods for an awaited change.
	pollInterval = 50 * time.Millisecond
)

// trialPods are the followed pods of a trial, each with a stable name: its service and its slot.
type trialPods struct {
	*trial
	store *podStore // nil in a dry run
	slots slots
	// failed are pods that had ended before the trial followed them, such as evicted ones of an application in place.
	failed map[types.UID]bool
}

// leaveOutFailed excludes the pods that have failed until now. Nothing runs in them.
func (p *trialPods) leaveOutFailed() {
	p.failed = map[types.UID]bool{}
	for _, pod := range p.inCluster() {
		if pod.Status.Phase == corev1.PodFailed {
			p.failed[pod.UID] = true
		}
	}
}

// followed reports whether pods are followed, which they are not in a dry run.
func (p *trialPods) followed() bool { return p.store != nil }

func (p *trialPods) close() {
	if p.store != nil {
		p.store.close()
	}
}

var (
	errNoService = errors.New("no such service")
	errEnded     = errors.New("already ended")
)

// find is the pod of a fault victim, e.g. "echo-0/app", or [errEnded] if it has none at the moment.
func (p *trialPods) find(id string) (*corev1.Pod, error) {
	name, isApp := strings.CutSuffix(id, "/"+appContainer)
	service, number, ok := p.slots.find(name)
	if !isApp || !ok {
		return nil, errNoService
	}
	pod := p.current(service, number)
	if pod == nil {
		return nil, errEnded
	}
	return pod, nil
}

// awaitDeleted waits until a pod is gone from the cluster.
func (p *trialPods) awaitDeleted(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	return wait.Within(ctx, grace+endTimeout, pollInterval, func(context.Context) error {
		if p.byUID(pod.UID) != nil {
			return fmt.Errorf("pod %s does not end", pod.Name)
		}
		return nil
	})
}

// byUID is a pod of the trial, or nil if it is gone.
func (p *trialPods) byUID(uid types.UID) *corev1.Pod {
	for _, pod := range p.all() {
		if pod.UID == uid {
			return pod
		}
	}
	return nil
}

// awaitReplacement waits until a new pod in a slot is ready.
func (p *trialPods) awaitReplacement(ctx context.Context, service string, number int) (pod *corev1.Pod, err error) {
	err = wait.Within(ctx, replaceTimeout, pollInterval, func(context.Context) error {
		if pod = p.current(service, number); pod == nil || !isReady(pod) {
			return errors.New("no replacement pod is ready")
		}
		return nil
	})
	if err != nil {
		why := p.cluster.Explain(context.WithoutCancel(ctx), cluster.Ref{Kind: cluster.KindDeployment, Namespace: p.namespace, Name: service})
		return nil, fmt.Errorf("%w: %s", err, strings.Join(why, "; "))
	}
	return pod, nil
}

// current is the pod in a slot, or nil if the slot is vacant or its pod is being deleted.
func (p *trialPods) current(service string, number int) *corev1.Pod {
	pods := p.ofService(service)
	name := p.slots.occupant(service, number)
	for _, pod := range pods {
		if pod.Name == name && pod.DeletionTimestamp == nil {
			return pod
		}
	}
	return nil
}

// ofService returns the pods of a service. Each has a slot afterwards.
func (p *trialPods) ofService(service string) []*corev1.Pod {
	pods := slices.DeleteFunc(p.all(), func(pod *corev1.Pod) bool { return p.serviceOf(pod) != service })
	for _, pod := range pods {
		p.name(pod)
	}
	return pods
}

func (p *trialPods) all() []*corev1.Pod {
	return slices.DeleteFunc(p.inCluster(), func(pod *corev1.Pod) bool { return !p.owns(pod) || p.failed[pod.UID] })
}

func (p *trialPods) onNode(node string) bool {
	return slices.ContainsFunc(p.all(), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node })
}

// inCluster are the pods of the whole cluster, or of the trial's namespace without permission to list others.
func (p *trialPods) inCluster() []*corev1.Pod {
	if p.store == nil {
		return nil
	}
	return p.store.all()
}

// name is the stable name of a pod, e.g. "echo-1".
func (p *trialPods) name(pod *corev1.Pod) string {
	name, _ := p.generation(pod)
	return name
}

// generation is the stable name of a pod and its generation under this name, from 1.
func (p *trialPods) generation(pod *corev1.Pod) (name string, generation int) {
	service := p.serviceOf(pod)
	if index, ok := pod.Annotations[indexAnnotation]; ok && service == loadService {
		return loadService + "-" + index, 1
	}
	if service == "" {
		return pod.Name, 1
	}
	number, generation := p.slots.assign(service, pod.Name)
	return slotName(service, number), generation
}
