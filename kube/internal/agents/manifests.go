package agents

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/kube/internal/cluster"
)

const (
	name = "node-agent"
	// port of the agents, on the loopback address of their pods.
	port      = 9096
	tokenDir  = "/var/run/tare"
	tokenFile = "token"
	// hostGroups is the control-group file system of every node.
	hostGroups = "/sys/fs/cgroup"
	groupsDir  = "/host/cgroup"
	user       = 65532
)

// namespaceObject permits the agents' host directory where the cluster's default pod security forbids it.
func namespaceObject(namespace string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}}
}

func secret(namespace, token string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: map[string]string{tokenFile: token}}
}

// daemonSet runs an agent on every real node, tainted ones included. It has no privilege beside the
// read-only mount: every user may read counters.
func daemonSet(namespace, image string) *appsv1.DaemonSet {
	labels := map[string]string{Label: "yes"}
	directory, mode, recursively := corev1.HostPathDirectory, int32(0o440), corev1.RecursiveReadOnlyIfPossible
	pull := corev1.PullIfNotPresent
	if strings.HasPrefix(image, "localhost/") { // a node has no registry there
		pull = corev1.PullNever
	}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), TerminationGracePeriodSeconds: new(int64(1)),
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, Affinity: cluster.OnRealNodes(),
				SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(user)), RunAsGroup: new(int64(user)), FSGroup: new(int64(user)),
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
				Containers: []corev1.Container{{
					Name: name, Image: image, ImagePullPolicy: pull,
					Args: []string{"node", "--listen", "127.0.0.1:" + strconv.Itoa(port), "--token-file", tokenDir + "/" + tokenFile, "--cgroups", groupsDir},
					Resources: corev1.ResourceRequirements{
						// The request is ten times an application's request, and with it the agent's share of a busy node: it
						// must wake up at the edges of slices.
						Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
						Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
					},
					VolumeMounts: []corev1.VolumeMount{
						{Name: "cgroups", MountPath: groupsDir, ReadOnly: true, RecursiveReadOnly: &recursively},
						{Name: "token", MountPath: tokenDir, ReadOnly: true},
					},
					SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
						Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
				}},
				Volumes: []corev1.Volume{
					{Name: "cgroups", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: hostGroups, Type: &directory}}},
					{Name: "token", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: &mode}}},
				},
			}},
		},
	}
}
