package kube

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// manifests builds the Kubernetes objects of a trial. It sends nothing.
type manifests struct{ *trial }

// portProtocol names a protocol in a Service: by the port's name, for older meshes, and by appProtocol, for newer
// meshes and gateways.
type portProtocol struct{ name, app string }

var portProtocols = map[string]portProtocol{
	app.HTTP1: {"http", "http"},
	app.HTTP2: {"http2", "kubernetes.io/h2c"},
	app.GRPC:  {"grpc", "grpc"},
	app.TCP:   {"tcp", "tcp"},
}

func newToken(dryRun bool) string {
	if dryRun {
		return "drawn for each trial"
	}
	return rand.Text()
}

// all are the objects of the trial: token, services and load workers.
func (m manifests) all() ([]runtime.Object, error) {
	objects := []runtime.Object{&corev1.Secret{ObjectMeta: m.meta(tokenName), StringData: map[string]string{tokenKey: m.token}}}
	for _, s := range m.agentServices() {
		of, err := m.objectsOf(s)
		if err != nil {
			return nil, err
		}
		objects = append(objects, of...)
	}
	if !m.options.Outside {
		objects = append(objects, m.loadJob())
	}
	return objects, nil
}

// objectsOf are the objects of one service: configuration, Deployment and Service.
func (m manifests) objectsOf(s app.Service) ([]runtime.Object, error) {
	service := m.service(s)
	config, err := m.config(s)
	if err != nil {
		return nil, err
	}
	return []runtime.Object{config, m.workload(s, m.servicePod(s)), service}, nil
}

func (m manifests) config(s app.Service) (*corev1.ConfigMap, error) {
	instance := m.spec.Instance(s, func(service string) []string { return []string{fmt.Sprintf("http://%s:%d/", service, servicePort)} })
	instance.Replica = m.changes(s)
	text, err := json.MarshalIndent(instance, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("configure service %s: %w", s.Name, err)
	}
	return &corev1.ConfigMap{ObjectMeta: m.meta(s.Name), Data: map[string]string{configKey: string(text) + "\n"}}, nil
}

// service is the Service of s. The entry's Service is of the type that the load from outside needs, unless the load goes
// through a gateway.
func (m manifests) service(s app.Service) *corev1.Service {
	p := portProtocols[m.spec.Protocol(s)]
	service := &corev1.Service{
		ObjectMeta: m.meta(s.Name),
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{labelService: s.Name},
			Ports:    []corev1.ServicePort{{Name: p.name, AppProtocol: &p.app, Port: servicePort, TargetPort: intstr.FromString(p.name)}},
		},
	}
	if m.changes(s) {
		service.Spec.Selector[labelListed] = "true"
	}
	if t := m.options.serviceType(); t != corev1.ServiceTypeClusterIP && m.enrolment.gateway == nil && s.Name == m.spec.Entry().Name {
		service.Spec.Type = t
	}
	return service
}

// changes reports whether the endpoints of a service change during the trial.
func (m manifests) changes(s app.Service) bool {
	return m.spec.Changing && s.Name == m.spec.Topology.EntryName()
}

func (m manifests) workload(s app.Service, pod corev1.PodSpec) *appsv1.Deployment {
	replicas := int32(m.spec.Replicas(s))
	m.place(&pod, s.Name, false)
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: podLabels(s.Name)}, Spec: pod}
	if m.changes(s) {
		template.Labels[labelListed] = "true"
	}
	m.enrolment.markPods(&template)
	return &appsv1.Deployment{
		ObjectMeta: m.meta(s.Name),
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{labelService: s.Name}},
			Template: template,
		},
	}
}

// servicePod is a pod of a service that tare-agent plays.
func (m manifests) servicePod(s app.Service) corev1.PodSpec {
	c := m.container(appContainer, s.Memory, "serve", "--config", configDir+"/"+configKey, "--token-file", tokenDir+"/"+tokenKey,
		"--listen", listenAny(servicePort), "--admin", listenAny(adminPort))
	c.Ports = m.ports(s)
	c.ReadinessProbe = readyAt(adminPort)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: configDir, ReadOnly: true}, tokenMount)
	pod := restrictedPod(c)
	pod.Volumes = append(pod.Volumes, tokenVolume(), corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: s.Name}}}})
	return pod
}

func listenAny(port int) string { return ":" + strconv.Itoa(port) }

func (m manifests) ports(s app.Service) []corev1.ContainerPort {
	return []corev1.ContainerPort{
		{Name: portProtocols[m.spec.Protocol(s)].name, ContainerPort: servicePort, Protocol: corev1.ProtocolTCP},
		{Name: "http-admin", ContainerPort: adminPort, Protocol: corev1.ProtocolTCP},
	}
}

// loadJob is the Job of the load workers: one pod each, numbered by the completion index.
func (m manifests) loadJob() *batchv1.Job {
	n, mode, never := int32(m.options.Workers), batchv1.IndexedCompletion, int32(0)
	pod := m.workerPod()
	m.place(&pod, loadService, true)
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: podLabels(loadService)}, Spec: pod}
	m.enrolment.markLoad(&template)
	return &batchv1.Job{
		ObjectMeta: m.meta(loadService),
		Spec: batchv1.JobSpec{
			Parallelism: &n, Completions: &n, CompletionMode: &mode,
			BackoffLimit: &never, // the trial is invalid without the lost worker: a replacement does not help
			Template:     template,
		},
	}
}

func podLabels(service string) map[string]string {
	return map[string]string{labelApp: service, labelService: service}
}

// workerPod is the pod of one load worker. It receives commands through a forwarded connection.
func (m manifests) workerPod() corev1.PodSpec {
	c := m.container(loadContainer, 0, "worker", "--listen", "127.0.0.1:"+strconv.Itoa(workerPort),
		"--token-file", tokenDir+"/"+tokenKey, "--dir", tmpDir)
	c.VolumeMounts = append(c.VolumeMounts, tokenMount)
	pod := restrictedPod(c)
	pod.Volumes = append(pod.Volumes, tokenVolume())
	pod.RestartPolicy = corev1.RestartPolicyNever
	generatorImage(m).addTo(&pod, m.container(copyContainer, 0))
	return pod
}

// podOf is the pod of a service's manifest, or of the load's.
func (m manifests) podOf(service string) (corev1.PodSpec, error) {
	if service == loadService {
		return m.workerPod(), nil
	}
	s, ok := m.spec.Topology.Service(service)
	if !ok {
		return corev1.PodSpec{}, fmt.Errorf("no service %s", service)
	}
	return m.servicePod(s), nil
}
