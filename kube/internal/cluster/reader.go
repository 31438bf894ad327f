package cluster

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Reader sends every request once. It serves meters, which have their own clock and record a failed reading as a gap.
// [IsTransient] distinguishes such a gap from a missing permission.
type Reader struct {
	typed    kubernetes.Interface
	requests requests
}

// Reader returns a reader of the cluster.
func (c *Cluster) Reader() *Reader { return &Reader{typed: c.typed, requests: c.requests} }

// NodeRead reads a path of a node's kubelet ("stats/summary?only_cpu_and_memory=true", "metrics/resource") through the
// API server's node proxy. It needs permission to get nodes/proxy.
func (r *Reader) NodeRead(ctx context.Context, node, path string) (body []byte, err error) {
	op := fmt.Sprintf("read %s of node %s", path, node)
	path, query, _ := strings.Cut(path, "?")
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	err = r.requests.once(ctx, op, func(ctx context.Context) error {
		request := r.typed.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix(strings.Split(path, "/")...)
		for name, values := range parameters {
			for _, v := range values {
				request = request.Param(name, v)
			}
		}
		body, err = request.Do(ctx).Raw()
		return err
	})
	return body, err
}

// Container is the API server's record of one started container.
type Container struct {
	Namespace, Pod, Name string
	Node                 string
	ID                   string // the container runtime's, without the prefix "containerd://"
	// Sidecar marks a native sidecar: an init container with restartPolicy Always.
	Sidecar  bool
	Restarts int
	// OOMKilled reports that its current or last termination was an OOM kill.
	OOMKilled bool
	Limited   bool // it has a CPU limit
}

// Containers lists the containers of a namespace's pods, including native sidecars but not other init containers. The
// API server answers from its cache.
func (r *Reader) Containers(ctx context.Context, namespace string) (all []Container, err error) {
	err = r.requests.once(ctx, "list the containers of "+namespace, func(ctx context.Context) error {
		pods, err := r.typed.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		for i := range pods.Items {
			all = append(all, containersOf(&pods.Items[i])...)
		}
		return nil
	})
	return all, err
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
