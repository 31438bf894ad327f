package meshes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/kube/guard"
)

const (
	// lookWithin is how long a pod that looks at a node's files may take: its image may have to be pulled.
	lookWithin = 45 * time.Second
	lookPause  = time.Second
	// lookMost of what it says is read, bytes.
	lookMost = 64 << 10
)

// NodeRemains are files of a mesh that are left on nodes, each as NODE:PATH.
type NodeRemains struct{ Files []string }

func (e *NodeRemains) Error() string {
	return "not all of it is gone: on the nodes there is " + strings.Join(e.Files, ", ")
}

// Hint is what the user can do.
func (e *NodeRemains) Hint() string {
	return "the mesh's agent should have taken it back: remove it on the node by hand, since it may keep pods from being made"
}

// lookAtNodes looks for what the mesh's agents put on nodes, by a pod on each that reads their directories, where the
// cluster was given up for measuring. What is found is a [NodeRemains]; that it cannot be looked is said and is no error.
func (m *Mesh) lookAtNodes(ctx context.Context) error {
	if len(m.k.NodeFiles) == 0 {
		return nil
	}
	found, why := m.nodeFiles(ctx)
	if why != nil {
		for _, f := range m.k.NodeFiles {
			m.report("not looked for on the nodes, %v: %s", why, f.Doc)
		}
	}
	if len(found) > 0 {
		return &NodeRemains{found}
	}
	return ctx.Err()
}

var (
	errNoLooker      = errors.New("no image of tare-agent is named")
	errNotDisposable = errors.New("the cluster is not marked as disposable")
)

func (m *Mesh) nodeFiles(ctx context.Context) (found []string, err error) {
	if m.o.Image == "" {
		return nil, errNoLooker
	}
	if _, marked, err := guard.New(m.cluster).Mark(ctx); err != nil || !marked {
		return nil, errors.Join(err, errNotDisposable)
	}
	around, err := look(ctx, m.cluster, m.o.ServiceCIDR)
	if err != nil {
		return nil, err
	}
	in := m.k.InstallContext(m.settings)
	in.Distribution = around.distribution
	nodes, err := m.cluster.Typed().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, f := range m.k.NodeFiles {
		dir, err := f.In(in)
		if err != nil {
			return found, err
		}
		for _, n := range nodes.Items {
			names, err := m.lookOn(ctx, n.Name, dir, f)
			failed = append(failed, err)
			for _, name := range names {
				found = append(found, n.Name+":"+name)
			}
		}
	}
	return found, errors.Join(failed...)
}

// lookOn has a pod on a node list the files of a directory that are the mesh's.
func (m *Mesh) lookOn(ctx context.Context, node, dir string, f mesh.NodeFiles) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookWithin, fmt.Errorf("it took longer than %v", lookWithin))
	defer cancel()
	pods := m.cluster.Typed().CoreV1().Pods(metav1.NamespaceDefault)
	pod := looker(node, dir, f.Holding, m.o.Image)
	if err := m.cluster.Apply(ctx, cluster.Stamp{Run: "looks-for-" + m.definition.Name}, pod); err != nil {
		return nil, fmt.Errorf("look at node %s: %w", node, err)
	}
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
		defer cancel()
		_ = pods.Delete(late, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	}()
	said, err := m.lastSaid(ctx, pod.Name)
	if err != nil {
		return nil, fmt.Errorf("look at %s of node %s: %w", dir, node, err)
	}
	var names []string
	for line := range strings.Lines(said) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), lookedAt); ok {
			names = append(names, strings.TrimSuffix(dir, "/")+name)
		}
	}
	return names, nil
}

// lookedAt is where the pod sees the node's directory.
const lookedAt = "/node"

// looker is the pod. It reads as root, which the files belong to, and may nothing else.
func looker(node, dir, holding, image string) *corev1.Pod {
	directory := corev1.HostPathDirectory
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "tare-looks-" + strings.ToLower(rand.Text()[:10]), Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			HostNetwork: true, // no CNI is asked for a network: it may be the one that is broken
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "look", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"files", "--holding", holding, lookedAt},
				VolumeMounts: []corev1.VolumeMount{{Name: "dir", MountPath: lookedAt, ReadOnly: true}},
				SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(0)), ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
			Volumes: []corev1.Volume{{Name: "dir", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir, Type: &directory}}}},
		},
	}
}

// lastSaid waits for a pod to end well and returns what it wrote.
func (m *Mesh) lastSaid(ctx context.Context, name string) (string, error) {
	pods := m.cluster.Typed().CoreV1().Pods(metav1.NamespaceDefault)
	again := time.NewTicker(lookPause)
	defer again.Stop()
	state := ""
	for {
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil && ctx.Err() == nil {
			return "", err
		}
		if err == nil {
			state = stateOf(pod)
			if ended := slices.Contains([]corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}, pod.Status.Phase); ended {
				break
			}
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%w: %s", context.Cause(ctx), state)
		case <-again.C:
		}
	}
	log, err := pods.GetLogs(name, &corev1.PodLogOptions{}).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer log.Close()
	text, err := io.ReadAll(io.LimitReader(log, lookMost))
	if err == nil && !strings.HasSuffix(string(text), "looked\n") {
		err = fmt.Errorf("%s: %s", state, strings.TrimSpace(string(text)))
	}
	return string(text), err
}

// stateOf says in a few words what a pod of one container is at.
func stateOf(p *corev1.Pod) string {
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.State.Waiting != nil:
			return s.State.Waiting.Reason
		case s.State.Terminated != nil:
			return fmt.Sprintf("it exited with code %d", s.State.Terminated.ExitCode)
		}
	}
	return "the pod is " + strings.ToLower(string(p.Status.Phase))
}
