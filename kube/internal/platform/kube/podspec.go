package kube

import (
	"cmp"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/metric"
)

// Directories of a container. Only tmpDir is writable.
const (
	configDir = "/etc/tare"
	tokenDir  = "/var/run/tare"
	tmpDir    = "/tmp"
)

// user ID of the image's programs.
const user = 65532

// graceSeconds is the termination grace period of pods.
const graceSeconds = 3

var tokenMount = corev1.VolumeMount{Name: "token", MountPath: tokenDir, ReadOnly: true}

// tokenVolume is readable only by the pod's group.
func tokenVolume() corev1.Volume {
	mode := int32(0o440)
	return corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: tokenName, DefaultMode: &mode}}}
}

// container runs tare-agent with args. memory is added to its default memory limit.
func (m manifests) container(name string, memory app.Size, args ...string) corev1.Container {
	no, yes := false, true
	return corev1.Container{
		Name:            name,
		Image:           m.options.Image,
		ImagePullPolicy: pullPolicy(m.options.Image),
		Args:            args,
		Resources:       m.resources(name, memory),
		VolumeMounts:    []corev1.VolumeMount{{Name: "tmp", MountPath: tmpDir}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// pullPolicy never pulls an image of localhost: a node has no registry there.
func pullPolicy(image string) corev1.PullPolicy {
	if NeverPulled(image) {
		return corev1.PullNever
	}
	return corev1.PullIfNotPresent
}

// NeverPulled reports whether the kubelet never pulls an image, so that it must be loaded into the nodes.
func NeverPulled(image string) bool { return strings.HasPrefix(image, "localhost/") }

// restrictedPod is a pod that passes Kubernetes' restricted pod security standard.
func restrictedPod(containers ...corev1.Container) corev1.PodSpec {
	no, yes, id, grace := false, true, int64(user), int64(graceSeconds)
	return corev1.PodSpec{
		Containers:                    containers,
		AutomountServiceAccountToken:  &no,
		EnableServiceLinks:            &no,
		TerminationGracePeriodSeconds: &grace,
		Volumes:                       []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id, FSGroup: &id,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
}

func readyAt(port int) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(int32(port))}},
		PeriodSeconds:    1,
		FailureThreshold: 3,
		TimeoutSeconds:   3,
	}
}

// Default resources, the same for every treatment. Requests are small, so that many pods fit on a node. CPU has no
// limit, since throttling would count as the application's cost.
const (
	requestCPU    = experiment.Cores(0.010)
	requestMemory = 16 << 20  // bytes
	limitMemory   = 512 << 20 // bytes, beside the memory that the service is configured to hold
)

// resources are the requests and limits of a container. Configured limits apply as they are. A default request never
// exceeds a limit, and a default limit is never below a request.
func (m manifests) resources(container string, memory app.Size) corev1.ResourceRequirements {
	configured := m.options.Resources[string(planeOfContainer(container))]
	limits := configured.Limits
	limits.Memory = cmp.Or(limits.Memory, max(limitMemory+memory, configured.Requests.Memory))
	requests := configured.Requests
	if requests.CPU == 0 {
		if requests.CPU = requestCPU; limits.CPU != 0 {
			requests.CPU = min(requestCPU, limits.CPU)
		}
	}
	requests.Memory = cmp.Or(requests.Memory, min(requestMemory, limits.Memory))
	return corev1.ResourceRequirements{Requests: quantities(requests), Limits: quantities(limits)}
}

// planeOfContainer is the plane whose resources a container gets.
func planeOfContainer(name string) metric.Plane {
	switch name {
	case loadContainer, copyContainer:
		return metric.Load
	case harnessContainer:
		return metric.Harness
	}
	return metric.App
}

func quantities(a experiment.Amounts) corev1.ResourceList {
	list := corev1.ResourceList{}
	if a.CPU != 0 {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(math.Round(1000*float64(a.CPU))), resource.DecimalSI)
	}
	if a.Memory != 0 {
		list[corev1.ResourceMemory] = *resource.NewQuantity(int64(a.Memory), resource.BinarySI)
	}
	return list
}
