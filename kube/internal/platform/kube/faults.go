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

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// noSignals is why tasks cannot be suspended.
const noSignals = "the API server sends no signals to processes"

// Faults declares the supported faults. They change a service's configuration or end pods.
func Faults() platform.Faults {
	return platform.Faults{
		Abilities: []experiment.Ability{experiment.EndTasks, experiment.ScaleServices, experiment.ChangeServices},
		Lacks: map[experiment.Ability]string{
			experiment.SuspendTasks:   noSignals,
			experiment.ImpairNetworks: "the network between pods belongs to the nodes and the CNI plug-in",
		},
		AppOnly: "a container does not end alone: its pod is deleted, with the application",
	}
}

// faults ends pods of the trial and waits for their replacements.
type faults struct {
	*trial
	pods    *trialPods
	monitor *podMonitor
}

// Victims implements [platform.TaskFaults]: the applications of the services, in the order of their slots.
func (f *faults) Victims() []platform.Victim {
	var all []platform.Victim
	for _, s := range f.agentServices() {
		f.pods.ofService(s.Name) // gives each pod a slot
		for i := range f.pods.slots.count(s.Name) {
			name, pod := slotName(s.Name, i), f.pods.current(s.Name, i)
			all = append(all, platform.Victim{ID: name + "/" + appContainer, Pod: name, Service: s.Name, Replica: i, Plane: metric.App,
				Up: pod != nil && isReady(pod)})
		}
	}
	return all
}

// End implements [platform.TaskFaults]: it deletes the pod, and the Deployment creates another at once.
func (f *faults) End(ctx context.Context, id string, grace time.Duration) error {
	pod, err := f.pods.find(id)
	if errors.Is(err, errEnded) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.deletePod(ctx, pod, grace)
}

func (f *faults) deletePod(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	f.release(pod, false)
	seconds := int64(math.Ceil(grace.Seconds()))
	err := f.cluster.Retry(ctx, "delete pod "+pod.Name, func(ctx context.Context) error {
		err := f.cluster.Typed().CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
			metav1.DeleteOptions{GracePeriodSeconds: &seconds, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if cluster.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return f.pods.awaitDeleted(ctx, pod, grace)
}

// release ends the monitoring of a pod that a fault ends, and vacates its slot.
func (f *faults) release(pod *corev1.Pod, scaledDown bool) {
	f.monitor.forget(pod)
	f.pods.slots.vacate(f.serviceOf(pod), pod.Name, scaledDown)
}

// Restart implements [platform.TaskFaults]: it waits for the pod that the Deployment creates.
func (f *faults) Restart(ctx context.Context, id string) error {
	service, number, ok := f.pods.slots.find(strings.TrimSuffix(id, "/"+appContainer))
	if !ok {
		return errNoService
	}
	return f.awaitReplacement(ctx, service, number)
}

// awaitReplacement waits for a ready pod in a slot and monitors it.
func (f *faults) awaitReplacement(ctx context.Context, service string, number int) error {
	pod, err := f.pods.awaitReplacement(ctx, service, number)
	if err != nil {
		return err
	}
	f.monitor.add(pod)
	return nil
}

// Freeze implements [platform.TaskFaults].
func (f *faults) Freeze(context.Context, string, bool) error {
	return fmt.Errorf("%w on Kubernetes: %s", errors.ErrUnsupported, noSignals)
}
