package kube

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// Where a container finds what it is given. /tmp is the one place it may write to.
const (
	configDir = "/etc/tare"
	tokenDir  = "/var/run/tare"
	tmpDir    = "/tmp"
)

// user that the image's programs run as.
const user = 65532

// graceSeconds is what a container gets to end by itself.
const graceSeconds = 3

var tokenMount = corev1.VolumeMount{Name: "token", MountPath: tokenDir, ReadOnly: true}

// tokenVolume is readable by the pod's own group alone.
func tokenVolume() corev1.Volume {
	mode := int32(0o440)
	return corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: tokenName, DefaultMode: &mode}}}
}

// container runs tare-agent with args. It may hold memory, besides what it needs.
func (d *deployment) container(name string, memory app.Size, args ...string) corev1.Container {
	no, yes := false, true
	return corev1.Container{
		Name:            name,
		Image:           d.platform.options.Image,
		ImagePullPolicy: pullPolicy(d.platform.options.Image),
		Args:            args,
		Resources:       d.resources(name, memory),
		VolumeMounts:    []corev1.VolumeMount{{Name: "tmp", MountPath: tmpDir}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// pullPolicy never pulls an image of localhost, where no node has a registry: it was loaded, or it is not there.
func pullPolicy(image string) corev1.PullPolicy {
	if OnlyLoaded(image) {
		return corev1.PullNever
	}
	return corev1.PullIfNotPresent
}

// OnlyLoaded says that no node can pull an image.
func OnlyLoaded(image string) bool { return strings.HasPrefix(image, "localhost/") }

// basePod is a pod of containers that passes the strictest of Kubernetes' pod security standards.
func basePod(containers ...corev1.Container) corev1.PodSpec {
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

// given are the containers that a pod was given, before anything was put in.
func (d *deployment) given(pod *corev1.Pod) ([]string, error) {
	if d.charted != nil && pod.Labels[labelService] == "" {
		t, ok := d.charted.of(pod)
		if !ok {
			return nil, fmt.Errorf("pod %s is not of the chart", pod.Name)
		}
		return t.containers, nil
	}
	return d.containersOf(pod.Labels[labelService])
}

// containersOf lists the containers that tare gives a pod of a service, or of the load.
func (d *deployment) containersOf(service string) ([]string, error) {
	if service == loadService {
		if _, ok := d.foreign(); ok {
			return []string{bringContainer, loadContainer}, nil
		}
		return []string{loadContainer}, nil
	}
	s, ok := d.spec.Topology.Service(service)
	if !ok {
		return nil, fmt.Errorf("there is no service %s", service)
	}
	if s.Program == app.Adder {
		return []string{appContainer, adderContainer}, nil
	}
	return []string{appContainer}, nil
}
