package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

// trial is the common data of the parts of one deployment. It changes only while the deployment is made.
type trial struct {
	options   *Options
	nodes     nodeList
	cluster   *cluster.Cluster
	spec      platform.Spec
	namespace string
	enrolment enrolment
	mesh      *meshes.Batch   // nil: none is installed for the trial
	token     string          // bearer token of the services' REST interfaces and of the load workers
	foreign   *foreignObjects // nil unless others' objects run the application
}

// meta is the metadata of an object in the trial's namespace.
func (t *trial) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: t.namespace, Name: name}
}

func (t *trial) namespaceRef() cluster.Ref {
	return cluster.Ref{Kind: cluster.KindNamespace, Name: t.namespace}
}

func (t *trial) stampLabels() map[string]string {
	return map[string]string{labelTrial: fmt.Sprint(t.spec.Trial.Ordinal)}
}

// agentServices are the services that tare-agent plays: none when others' objects run the application.
func (t *trial) agentServices() []app.Service {
	if t.spec.Topology.Foreign() {
		return nil
	}
	return t.spec.Topology.Services
}

// serviceOf is the service of the trial that a pod belongs to, or "".
func (t *trial) serviceOf(pod *corev1.Pod) string {
	if !t.owns(pod) {
		return ""
	}
	if t.foreign != nil && pod.Labels[labelService] == "" {
		return t.foreign.service(pod, t.spec.Topology)
	}
	return pod.Labels[labelService]
}

// owns reports whether a pod belongs to the trial. In an existing namespace only pods with the run's label do,
// except of an application in place.
func (t *trial) owns(pod *corev1.Pod) bool {
	return pod.Namespace == t.namespace && (!t.options.existing() || t.options.InPlace || pod.Labels[cluster.LabelRun] == t.options.Run)
}

// existing reports whether the trial runs in an existing namespace, which is not removed.
func (o *Options) existing() bool { return o.Namespace != "" }
