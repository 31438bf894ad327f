package kube

import (
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// portProtocol is how a protocol is spoken of in a Service: the port's name, which older meshes go by, and the
// appProtocol, which newer ones and gateways do.
type portProtocol struct{ name, app string }

var portProtocols = map[string]portProtocol{
	app.HTTP1: {"http", "http"},
	app.HTTP2: {"http2", "kubernetes.io/h2c"},
	app.GRPC:  {"grpc", "grpc"},
	app.TCP:   {"tcp", "tcp"},
}

// objectsOf are what one service is made of: its configuration, its pods and the name they are reached by.
func (d *deployment) objectsOf(s app.Service) ([]runtime.Object, error) {
	service := d.service(s)
	if s.Program == app.Adder {
		return []runtime.Object{d.workload(s, d.adderPod(s)), service}, nil
	}
	config, err := d.config(s)
	if err != nil {
		return nil, err
	}
	return []runtime.Object{config, d.workload(s, d.servicePod(s)), service}, nil
}

// config is what the program that plays the service reads.
func (d *deployment) config(s app.Service) (*corev1.ConfigMap, error) {
	instance := d.spec.Instance(s, func(service string) []string { return []string{fmt.Sprintf("http://%s:%d/", service, servicePort)} })
	text, err := json.MarshalIndent(instance, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("configure service %s: %w", s.Name, err)
	}
	return &corev1.ConfigMap{ObjectMeta: d.meta(s.Name), Data: map[string]string{configKey: string(text) + "\n"}}, nil
}

// meta names an object in the trial's namespace.
func (d *deployment) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: d.namespace, Name: name}
}

func podLabels(service string) map[string]string {
	return map[string]string{labelApp: service, labelService: service}
}

func (d *deployment) service(s app.Service) *corev1.Service {
	p := portProtocols[d.spec.Protocol(s)]
	service := &corev1.Service{
		ObjectMeta: d.meta(s.Name),
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{labelService: s.Name},
			Ports:    []corev1.ServicePort{{Name: p.name, AppProtocol: &p.app, Port: servicePort, TargetPort: intstr.FromString(p.name)}},
		},
	}
	d.expose(service)
	return service
}

func (d *deployment) workload(s app.Service, pod corev1.PodSpec) *appsv1.Deployment {
	replicas := int32(d.spec.Replicas(s))
	d.place(&pod, s.Name, false)
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: podLabels(s.Name)}, Spec: pod}
	d.enrolment.enrolPods(&template)
	return &appsv1.Deployment{
		ObjectMeta: d.meta(s.Name),
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{labelService: s.Name}},
			Template: template,
		},
	}
}

// servicePod is a pod that plays the service.
func (d *deployment) servicePod(s app.Service) corev1.PodSpec {
	c := d.container(appContainer, s.Memory, "serve", "--config", configDir+"/"+configKey, "--token-file", tokenDir+"/"+tokenKey,
		"--listen", listenAny(servicePort), "--admin", listenAny(adminPort))
	c.Ports = d.ports(s)
	c.ReadinessProbe = readyAt(adminPort)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: configDir, ReadOnly: true}, tokenMount)
	pod := basePod(c)
	pod.Volumes = append(pod.Volumes, tokenVolume(), corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: s.Name}}}})
	return pod
}

// adderPod is a server whose routes reach one function in process, or in the container beside it.
func (d *deployment) adderPod(s app.Service) corev1.PodSpec {
	ways := []string{"--rest", "127.0.0.1:8081", "--grpc", "127.0.0.1:8082",
		"--rest-socket", tmpDir + "/rest.sock", "--grpc-socket", tmpDir + "/grpc.sock"}
	size, _ := d.spec.Instance(s, nil).ResponseSize.Fixed()
	c := d.container(appContainer, s.Memory, append([]string{"adder", "--listen", listenAny(servicePort), "--admin", listenAny(adminPort),
		"--token-file", tokenDir + "/" + tokenKey, "--response-size", strconv.FormatInt(size, 10)}, ways...)...)
	c.Ports = d.ports(s)
	c.ReadinessProbe = readyAt(adminPort)
	c.VolumeMounts = append(c.VolumeMounts, tokenMount)
	pod := basePod(c, d.container(adderContainer, 0, append([]string{"sidecar"}, ways...)...))
	pod.Volumes = append(pod.Volumes, tokenVolume())
	return pod
}

func listenAny(port int) string { return ":" + strconv.Itoa(port) }

func (d *deployment) ports(s app.Service) []corev1.ContainerPort {
	return []corev1.ContainerPort{
		{Name: portProtocols[d.spec.Protocol(s)].name, ContainerPort: servicePort, Protocol: corev1.ProtocolTCP},
		{Name: "http-admin", ContainerPort: adminPort, Protocol: corev1.ProtocolTCP},
	}
}
