package kube

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/inplace"
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
		config, err := m.config(s)
		if err != nil {
			return nil, err
		}
		objects = append(objects, config, m.workload(s, m.servicePod(s)), m.service(s))
	}
	if !m.options.Outside {
		objects = append(objects, m.loadJob())
	}
	return objects, nil
}

func (m manifests) config(s app.Service) (*corev1.ConfigMap, error) {
	instance := m.spec.Instance(s, func(service string) []string { return []string{fmt.Sprintf("http://%s:%d/", service, servicePort)} })
	instance.Replica = m.changes(s)
	text, err := json.MarshalIndent(instance, "", "  ")
	return &corev1.ConfigMap{ObjectMeta: m.meta(s.Name), Data: map[string]string{configKey: string(text) + "\n"}}, hint.Prefix(err, "configure service %s", s.Name)
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
	mark(&template.ObjectMeta, m.enrolment.Pod)
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
	c.Ports = []corev1.ContainerPort{
		{Name: portProtocols[m.spec.Protocol(s)].name, ContainerPort: servicePort, Protocol: corev1.ProtocolTCP},
		{Name: "http-admin", ContainerPort: adminPort, Protocol: corev1.ProtocolTCP},
	}
	c.ReadinessProbe = readyAt(adminPort)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: configDir, ReadOnly: true}, tokenMount)
	pod := restrictedPod(c)
	pod.Volumes = append(pod.Volumes, tokenVolume(), corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: s.Name}}}})
	return pod
}

func listenAny(port int) string { return ":" + strconv.Itoa(port) }

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
	return corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: tokenName, DefaultMode: new(int32(0o440))}}}
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

// applier creates objects of a trial in the cluster and deletes them.
type applier struct {
	*trial
	archive archive
	created []cluster.Ref // objects to delete, without those in a created namespace
}

// awaitJobs waits until Jobs of an application have completed.
func (a *applier) awaitJobs(ctx context.Context, refs []cluster.Ref) error {
	if a.cluster.DryRun() || len(refs) == 0 {
		return nil
	}
	if err := a.wait(ctx, refs...); err != nil { // a failed Job ends it
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.options.readyWithin())
	defer cancel()
	progress := platform.NewDelayedReport(a.options.Report)
	defer progress.Close()
	for _, ref := range refs {
		err := a.cluster.WaitFor(ctx, progress.Add, ref, func(o *unstructured.Unstructured) (bool, string) {
			done, _, _ := unstructured.NestedInt64(o.Object, "status", "succeeded")
			wanted, has, _ := unstructured.NestedInt64(o.Object, "spec", "completions")
			if !has {
				wanted = 1
			}
			return done >= wanted, fmt.Sprintf("%d of %d pods have completed", done, wanted)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// createTrialNamespace creates the trial's namespace. One with the same name is left from an interrupted attempt and is
// replaced. In an existing namespace the objects of an interrupted attempt are deleted.
func (a *applier) createTrialNamespace(ctx context.Context) error {
	if a.options.existing() {
		if a.cluster.DryRun() {
			return nil
		}
		return leftovers{a.options}.ownRun(ctx)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}
	a.enrolment.markNamespace(ns)
	return a.createNamespace(ctx, ns)
}

// createNamespace replaces a namespace of this run and waits until the new one is ready.
func (a *applier) createNamespace(ctx context.Context, ns *corev1.Namespace) error {
	ref := cluster.Ref{Kind: cluster.KindNamespace, Name: ns.Name}
	if err := a.clear(ctx, ref); err != nil {
		return err
	}
	a.created = append(a.created, ref)
	if err := a.apply(ctx, ns); err != nil {
		return err
	}
	return a.wait(ctx, ref)
}

func (a *applier) apply(ctx context.Context, objects ...runtime.Object) error {
	return a.cluster.Apply(ctx, a.stamp(), objects...)
}

// stamp marks the objects of the trial and records their manifests.
func (a *applier) stamp() cluster.Stamp {
	return cluster.Stamp{Run: a.options.Run, Labels: a.stampLabels(), Archive: a.record}
}

// record archives the manifest of an object that is about to be applied. In an existing namespace every object is
// listed for deletion.
func (a *applier) record(m cluster.Manifest) error {
	if a.options.existing() && !inplace.IsState(m.Ref) {
		a.created = append(a.created, m.Ref)
	}
	return a.archive.manifest(m)
}

func (a *applier) wait(ctx context.Context, refs ...cluster.Ref) error {
	progress := platform.NewDelayedReport(a.options.Report)
	defer progress.Close()
	ctx, cancel := context.WithTimeout(ctx, a.options.readyWithin())
	defer cancel()
	err := a.cluster.WaitReady(ctx, progress.Add, refs...)
	if errors.Is(err, context.DeadlineExceeded) && hint.Of(err) == "" {
		return hint.Wrap(err, "if they need longer, raise platform.readyWithin")
	}
	return err
}

// clear deletes a namespace of this run. A namespace of another run is an error.
func (a *applier) clear(ctx context.Context, ref cluster.Ref) error {
	if a.cluster.DryRun() {
		return nil
	}
	found, err := a.cluster.Get(ctx, ref)
	if cluster.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if found.GetLabels()[cluster.LabelRun] != a.options.Run {
		return hint.New("use another results directory (--out)", "create %s: it exists and is not of this run", ref)
	}
	return a.cluster.Delete(ctx, a.options.Report, ref)
}

// checkFree refuses objects whose names are taken by objects of others in an existing namespace.
func (a *applier) checkFree(ctx context.Context, objects []runtime.Object) error {
	if !a.options.existing() || a.cluster.DryRun() {
		return nil
	}
	for _, o := range objects {
		ref, err := cluster.RefOf(o)
		if err != nil {
			return err
		}
		found, err := a.cluster.Get(ctx, ref)
		switch {
		case cluster.IsNotFound(err), meta.IsNoMatchError(err): // applying it explains a missing kind
		case err != nil:
			return err
		case found.GetLabels()[cluster.LabelRun] != a.options.Run:
			return hint.New("use an empty namespace, or rename the service", "create %s: it exists and is not of this run", ref)
		}
	}
	return nil
}

// deleteNamespace deletes a namespace that createNamespace made, and leaves any other alone.
func (a *applier) deleteNamespace(ctx context.Context, name string) error {
	ref := cluster.Ref{Kind: cluster.KindNamespace, Name: name}
	i := slices.Index(a.created, ref)
	if i < 0 {
		return nil
	}
	if err := a.cluster.Delete(ctx, a.options.Report, ref); err != nil {
		return err
	}
	a.created = slices.Delete(a.created, i, i+1)
	return nil
}

// deleteAll deletes everything that was created and waits until it is gone.
func (a *applier) deleteAll(ctx context.Context) error {
	progress := platform.NewDelayedReport(a.options.Report)
	defer progress.Close()
	return a.cluster.Delete(ctx, progress.Add, a.created...)
}
