package meshes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
)

const (
	// inspectWithin bounds the pod on one node, whose image may have to be pulled.
	inspectWithin = 45 * time.Second
	inspectPause  = time.Second
	// inspectLimit bounds its log, bytes.
	inspectLimit = 64 << 10
)

// nodeInspector searches nodes for files that the mesh's agents left, by a pod on each node that reads the directory.
type nodeInspector struct{ *instance }

var (
	errNoImage       = errors.New("no image of tare-agent is set")
	errNotDisposable = errors.New("the cluster is not marked as disposable")
)

// check returns an error if files are found. If the nodes cannot be inspected, it reports that without an error.
func (n *nodeInspector) check(ctx context.Context) error {
	if len(n.k.NodeFiles) == 0 {
		return nil
	}
	found, reason := n.find(ctx)
	if reason != nil {
		for _, f := range n.k.NodeFiles {
			n.report("files on nodes are not checked, %v: %s", reason, f.Doc)
		}
	}
	if len(found) > 0 {
		return hint.New("the mesh's agent should have removed them: remove them by hand, because they can prevent new pods from starting",
			"files of it are left on nodes: %s", strings.Join(found, ", "))
	}
	return ctx.Err()
}

func (n *nodeInspector) find(ctx context.Context) (found []string, err error) {
	if n.options.Image == "" {
		return nil, errNoImage
	}
	if _, marked, err := guard.New(n.cluster).Mark(ctx); err != nil || !marked {
		return nil, errors.Join(err, errNotDisposable)
	}
	info, err := readClusterInfo(ctx, n.cluster, n.options.ServiceCIDR)
	if err != nil {
		return nil, err
	}
	in := n.k.InstallContext(n.settings)
	in.Distribution = info.distribution
	nodes, err := n.cluster.Typed().CoreV1().Nodes().List(ctx, cluster.RealNodes())
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, f := range n.k.NodeFiles {
		dir, err := f.In(in)
		if err != nil {
			return found, err
		}
		for _, node := range nodes.Items {
			names, err := n.findOn(ctx, node.Name, dir, f)
			failed = append(failed, err)
			for _, name := range names {
				found = append(found, node.Name+":"+name)
			}
		}
	}
	return found, errors.Join(failed...)
}

// findOn lists the mesh's files in a directory of a node.
func (n *nodeInspector) findOn(ctx context.Context, node, dir string, f mesh.NodeFiles) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, inspectWithin, fmt.Errorf("it took longer than %v", inspectWithin))
	defer cancel()
	pods := n.cluster.Typed().CoreV1().Pods(metav1.NamespaceDefault)
	pod := inspectorPod(node, dir, f.Holding, n.options.Image)
	if err := n.cluster.Apply(ctx, cluster.Stamp{Run: "looks-for-" + n.definition.Name}, pod); err != nil {
		return nil, fmt.Errorf("inspect node %s: %w", node, err)
	}
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), getWithin)
		defer cancel()
		_ = pods.Delete(late, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	}()
	log, err := n.waitForLog(ctx, pod.Name)
	if err != nil {
		return nil, fmt.Errorf("inspect %s of node %s: %w", dir, node, err)
	}
	var names []string
	for line := range strings.Lines(log) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), nodeMount); ok {
			names = append(names, strings.TrimSuffix(dir, "/")+name)
		}
	}
	return names, nil
}

// nodeMount is the mount path of the node's directory.
const nodeMount = "/node"

// inspectorPod runs as root, who owns the files, without any other privilege.
func inspectorPod(node, dir, holding, image string) *corev1.Pod {
	directory := corev1.HostPathDirectory
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "tare-looks-" + strings.ToLower(rand.Text()[:10]), Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			HostNetwork: true, // no CNI plug-in takes part: the leftover may have broken it
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "look", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"files", "--holding", holding, nodeMount},
				VolumeMounts: []corev1.VolumeMount{{Name: "dir", MountPath: nodeMount, ReadOnly: true}},
				SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(0)), ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
			Volumes: []corev1.Volume{{Name: "dir", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir, Type: &directory}}}},
		},
	}
}

// logEnd is the last line of a complete log of `tare-agent files`.
const logEnd = "looked\n"

// waitForLog waits until a pod has ended, and returns its log.
func (n *nodeInspector) waitForLog(ctx context.Context, name string) (string, error) {
	pods := n.cluster.Typed().CoreV1().Pods(metav1.NamespaceDefault)
	state := ""
	err := wait.Until(ctx, inspectPause, func(ctx context.Context) error {
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil && ctx.Err() == nil {
			return wait.Stop(err)
		}
		if err != nil {
			return err
		}
		if state = podState(pod); pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			return nil
		}
		return errors.New(state)
	})
	if err != nil {
		return "", err
	}
	log, err := pods.GetLogs(name, &corev1.PodLogOptions{}).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer log.Close()
	text, err := io.ReadAll(io.LimitReader(log, inspectLimit))
	if err == nil && !strings.HasSuffix(string(text), logEnd) {
		err = fmt.Errorf("%s: %s", state, strings.TrimSpace(string(text)))
	}
	return string(text), err
}

// podState is the state of a pod with one container, in a few words.
func podState(p *corev1.Pod) string {
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
