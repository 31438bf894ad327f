package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	yamls "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// Ref names one object of a cluster.
type Ref struct {
	Kind      schema.GroupVersionKind
	Namespace string // empty where the kind has none
	Name      string
}

// Kinds that callers use most.
var (
	KindNamespace      = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	KindPod            = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	KindConfigMap      = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	KindSecret         = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	KindService        = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	KindServiceAccount = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}
	KindDeployment     = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	KindStatefulSet    = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}
	KindDaemonSet      = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}
	KindJob            = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
)

// String names the object in messages: "deployment shop/cart", "namespace shop".
func (r Ref) String() string {
	kind := strings.ToLower(r.Kind.Kind)
	if r.Namespace == "" {
		return kind + " " + r.Name
	}
	return kind + " " + r.Namespace + "/" + r.Name
}

// Parse reads the objects of a YAML stream. A List stands for its items.
func Parse(stream []byte) (all []*unstructured.Unstructured, err error) {
	documents := yamls.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream)))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		var fields []byte
		if err == nil {
			fields, err = yaml.YAMLToJSON(text)
		}
		if err != nil {
			return all, err
		}
		if empty := string(bytes.TrimSpace(fields)); empty == "null" || empty == "{}" { // only comments
			continue
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(fields); err != nil {
			return all, fmt.Errorf("a document is not a Kubernetes object: %.60q: %w", text, err)
		}
		if !o.IsList() {
			all = append(all, o)
			continue
		}
		list, err := o.ToList()
		if err != nil {
			return all, err
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
}

// RefOf returns the reference of an object, typed or unstructured.
func RefOf(o runtime.Object) (Ref, error) {
	kind := o.GetObjectKind().GroupVersionKind()
	if kind.Kind == "" {
		kinds, _, err := scheme.Scheme.ObjectKinds(o)
		if err != nil {
			return Ref{}, fmt.Errorf("name an object: %w", err)
		}
		kind = kinds[0]
	}
	at, err := meta.Accessor(o)
	if err != nil {
		return Ref{}, fmt.Errorf("name a %s: %w", strings.ToLower(kind.Kind), err)
	}
	if at.GetName() == "" {
		return Ref{}, fmt.Errorf("name a %s: it has no name", strings.ToLower(kind.Kind))
	}
	return Ref{kind, at.GetNamespace(), at.GetName()}, nil
}

func refOf(o *unstructured.Unstructured) Ref {
	return Ref{o.GroupVersionKind(), o.GetNamespace(), o.GetName()}
}

// asUnstructured copies an object without its status and other fields that only a server sets.
func asUnstructured(o runtime.Object) (*unstructured.Unstructured, error) {
	ref, err := RefOf(o)
	if err != nil {
		return nil, err
	}
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.DeepCopy(), nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("convert %s: %w", ref, err)
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(ref.Kind)
	unstructured.RemoveNestedField(u.Object, "status")
	dropNull(u.Object)
	return u, nil
}

// dropNull removes nulls (a typed object's zero creationTimestamp). In server-side apply a null claims the field.
func dropNull(fields map[string]any) {
	for k, v := range fields {
		switch v := v.(type) {
		case nil:
			delete(fields, k)
		case map[string]any:
			dropNull(v)
		}
	}
}

// Object is the metadata of an object.
type Object struct {
	Ref
	Labels      map[string]string
	Annotations map[string]string
	Owned       bool // it has an owner reference, so the garbage collector deletes it
}

// Query selects objects by their metadata.
type Query struct {
	Selector  string                          // label selector, empty for all
	Namespace string                          // empty: all namespaces, and objects without one
	Kinds     func(schema.GroupResource) bool // nil: every kind that can be listed and deleted
}

// Objects lists the objects that match q, without objects that controllers derive from others (events, endpoints).
// What cannot be listed is in the error (kinds without permission in an [*Unlisted]), beside the rest of the objects.
func (c *Cluster) Objects(ctx context.Context, q Query) ([]Object, error) {
	find := c.resources.kinds
	if q.Kinds != nil {
		find = c.resources.kindsNow
	}
	kinds, err := find(ctx)
	if q.Kinds != nil {
		kinds = slices.DeleteFunc(kinds, func(k kind) bool { return !q.Kinds(k.resource.GroupResource()) })
	}
	if len(kinds) == 0 {
		return nil, err
	}
	failed := []error{err}
	if q.Kinds != nil {
		failed = nil // an API group that does not answer is none of those selected
	}
	var unlisted Unlisted
	var all []Object
	for _, k := range kinds {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("list the objects of the cluster: %w", ctx.Err())
		}
		found, err := c.resources.list(ctx, k, q.Namespace, q.Selector)
		if apierrors.IsForbidden(err) {
			unlisted.Kinds = append(unlisted.Kinds, k.resource.GroupResource().String())
		} else if err != nil {
			failed = append(failed, err)
		}
		for _, o := range found {
			all = append(all, Object{Ref{k.kind, o.Namespace, o.Name}, o.Labels, o.Annotations, len(o.OwnerReferences) > 0})
		}
	}
	if len(unlisted.Kinds) > 0 {
		failed = append(failed, &unlisted)
	}
	return all, errors.Join(failed...)
}

// Namespaced reports whether objects of a kind are in a namespace, by API discovery. A kind that the cluster does not
// know is an error that wraps [errors.ErrUnsupported].
func (c *Cluster) Namespaced(ctx context.Context, kind schema.GroupVersionKind) (bool, error) {
	mapping, err := Retried(ctx, c, "find the kind "+kind.Kind, func(context.Context) (*meta.RESTMapping, error) {
		return c.resources.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	})
	if meta.IsNoMatchError(err) {
		return false, fmt.Errorf("the cluster does not have the kind %s of %s: %w", kind.Kind, kind.GroupVersion(), errors.ErrUnsupported)
	}
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// Unlisted are kinds that the user has no permission to list.
type Unlisted struct {
	Kinds []string // "clusterroles.rbac.authorization.k8s.io"
}

func (u *Unlisted) Error() string {
	const shown = 4
	s := "no permission to list " + strings.Join(u.Kinds[:min(shown, len(u.Kinds))], ", ")
	if more := len(u.Kinds) - shown; more > 0 {
		s += fmt.Sprintf(" and %d more kinds", more)
	}
	return s
}

// Rediscover discards the cached list of kinds, after CustomResourceDefinitions were added or removed.
func (c *Cluster) Rediscover() {
	if !c.DryRun() {
		c.resources.mapper.Reset()
	}
}

// Pods lists the pods of a namespace, or of all.
func (c *Cluster) Pods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	list, err := Retried(ctx, c, "list the pods of "+namespace, func(ctx context.Context) (*corev1.PodList, error) {
		return c.typed.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	})
	if err != nil {
		return nil, err
	}
	all := make([]*corev1.Pod, len(list.Items))
	for i := range all {
		all[i] = &list.Items[i]
	}
	return all, nil
}

// WorkloadOf returns the kind and the name of the workload of a pod: its controller, or the Deployment of its ReplicaSet. The name of
// such a ReplicaSet ends in its pods' label pod-template-hash.
func WorkloadOf(pod *corev1.Pod) (kind, name string) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return KindPod.Kind, pod.Name
	}
	if hash := pod.Labels["pod-template-hash"]; hash != "" && owner.Kind == "ReplicaSet" {
		if name, ok := strings.CutSuffix(owner.Name, "-"+hash); ok {
			return KindDeployment.Kind, name
		}
	}
	return owner.Kind, owner.Name
}

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
