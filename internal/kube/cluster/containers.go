package cluster

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Container is what the API server knows of one container that has been started.
type Container struct {
	Namespace, Pod, Name string
	Node                 string
	ID                   string // the runtime's, without its name in front
	// Sidecar says that it is a native sidecar: an init container with restartPolicy Always.
	Sidecar  bool
	Restarts int
	// OOMKilled says that it ended last, or ended for good, because it wanted more memory than it may have.
	OOMKilled bool
	Limited   bool // it has a CPU limit
}

// Containers lists the containers of a namespace's pods, native sidecars among them. Init containers that end before
// the pod starts are not. The API server answers from its cache. It asks once, as [Cluster.NodeRead] does.
func (c *Cluster) Containers(ctx context.Context, namespace string) ([]Container, error) {
	op := "list the containers of " + namespace
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if c.DryRun() {
		return nil, c.Retry(ctx, op, nil)
	}
	pods, err := c.typed.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, c.explained(op, err)
	}
	var all []Container
	for i := range pods.Items {
		all = append(all, containersOf(&pods.Items[i])...)
	}
	return all, nil
}

func containersOf(pod *corev1.Pod) []Container {
	limited := map[string]bool{}
	sidecar := map[string]bool{}
	for _, s := range pod.Spec.Containers {
		limited[s.Name] = !s.Resources.Limits.Cpu().IsZero()
	}
	for _, s := range pod.Spec.InitContainers {
		limited[s.Name] = !s.Resources.Limits.Cpu().IsZero()
		sidecar[s.Name] = s.RestartPolicy != nil && *s.RestartPolicy == corev1.ContainerRestartPolicyAlways
	}
	var all []Container
	add := func(s corev1.ContainerStatus) {
		_, id, _ := strings.Cut(s.ContainerID, "://")
		all = append(all, Container{Namespace: pod.Namespace, Pod: pod.Name, Name: s.Name, Node: pod.Spec.NodeName, ID: id,
			Sidecar: sidecar[s.Name], Restarts: int(s.RestartCount), OOMKilled: oomKilled(s), Limited: limited[s.Name]})
	}
	for _, s := range pod.Status.InitContainerStatuses {
		if sidecar[s.Name] && s.ContainerID != "" {
			add(s)
		}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.ContainerID != "" {
			add(s)
		}
	}
	return all
}

func oomKilled(s corev1.ContainerStatus) bool {
	const reason = "OOMKilled"
	for _, state := range []corev1.ContainerState{s.State, s.LastTerminationState} {
		if state.Terminated != nil {
			return state.Terminated.Reason == reason
		}
	}
	return false
}

// Machine is one node and what it has for pods.
type Machine struct {
	Name   string
	CPUs   int     // processors
	Cores  float64 // of them allocatable
	Memory int64   // allocatable, bytes
	BootID string  // of its kernel: the same for every node that is a container of one machine
}

// Machines lists the nodes.
func (c *Cluster) Machines(ctx context.Context) ([]Machine, error) {
	var all []Machine
	err := c.Retry(ctx, "list the nodes", func(ctx context.Context) error {
		list, err := c.typed.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		all = nil
		for _, n := range list.Items {
			all = append(all, Machine{Name: n.Name, CPUs: int(n.Status.Capacity.Cpu().Value()),
				Cores: n.Status.Allocatable.Cpu().AsApproximateFloat64(), Memory: n.Status.Allocatable.Memory().Value(),
				BootID: n.Status.NodeInfo.BootID})
		}
		return nil
	})
	return all, err
}
