// Package manifest reads an application's Kubernetes objects: from files, or as
// they are in a cluster. It finds the Services, removes what belongs to one
// cluster or namespace, and lists what a trial cannot have. It contacts nothing.
package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Set is the objects of an application, as a trial applies them.
type Set struct {
	// Source is their origin in messages: "./k8s", "namespace shop".
	Source string
	// Namespace is the one that the objects were written for, "" if they name none.
	Namespace string
	// Objects are in the order in which they can be applied.
	Objects  []Object
	Services []Service
	// Calls are found in the configuration of pods.
	Calls []Call
	// Left are objects of a kind that a trial does not apply.
	Left []Object
	// Notes are the differences of a trial, in the order of the objects.
	Notes []Note
}

// Object is a Kubernetes object as decoded from JSON or YAML.
type Object map[string]any

// Service is a Service that clients can call.
type Service struct {
	Name string
	Port int
	// Protocol is http1, http2, grpc or tcp, or empty if neither its ports nor its annotations name one.
	Protocol string
}

// Note is a difference between the application and its copy in a trial.
type Note struct {
	About string // "Deployment web"
	Text  string
	Hint  string
	// Fatal: pods cannot start.
	Fatal bool
}

func (n Note) String() string { return n.About + ": " + n.Text }

// Fatal returns the notes without whose remedy pods cannot start.
func (s *Set) Fatal() []Note {
	return slices.DeleteFunc(slices.Clone(s.Notes), func(n Note) bool { return !n.Fatal })
}

// Text is the objects as a YAML stream of JSON documents, which no reader of YAML can misread.
func (s *Set) Text() ([]byte, error) {
	var b bytes.Buffer
	for _, o := range s.Objects {
		text, err := json.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", o, err)
		}
		b.WriteString("---\n")
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// String names the object in messages: "Deployment web".
func (o Object) String() string { return strings.TrimSpace(o.kind() + " " + o.name()) }

// items are the mappings in a list.
func items(o map[string]any, path ...string) (all []map[string]any) {
	list, _ := valueAt(o, path...).([]any)
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// number is an integer of any decoder, or 0 if there is none.
func number(v any) int {
	switch n := v.(type) {
	case int:
		return n
	case int64:
		return int(n)
	case float64:
		return int(n)
	case json.Number:
		i, _ := n.Int64()
		return int(i)
	}
	return 0
}

// remove deletes the value at a path, and mappings that become empty.
func remove(o map[string]any, path ...string) {
	if len(path) == 1 {
		delete(o, path[0])
		return
	}
	inner, ok := o[path[0]].(map[string]any)
	if !ok {
		return
	}
	if remove(inner, path[1:]...); len(inner) == 0 {
		delete(o, path[0])
	}
}

// New cleans objects and finds their Services and what a trial cannot have. running: the objects come
// from a cluster, where a Job has done its work. The objects are changed.
func New(source string, objects []Object, running bool) (*Set, error) {
	s := &Set{Source: source}
	var err error
	if s.Namespace, err = namespaceOf(objects); err != nil {
		return nil, err
	}
	for _, o := range objects {
		if !s.keeps(o, running) {
			s.Left = append(s.Left, o)
			continue
		}
		s.clean(o)
		s.Objects = append(s.Objects, o)
	}
	slices.SortStableFunc(s.Objects, func(a, b Object) int { return cmp.Compare(rank(a), rank(b)) })
	s.findServices()
	s.findCalls()
	s.check()
	if !slices.ContainsFunc(s.Objects, func(o Object) bool { return podTemplate(o) != nil }) {
		return nil, fmt.Errorf("%s has no Deployment, StatefulSet, DaemonSet or Pod", source)
	}
	return s, nil
}

// ranks order kinds by dependency. Others follow the last.
var ranks = []string{"ResourceQuota", "LimitRange", "ServiceAccount", "Secret", "ConfigMap", "PersistentVolumeClaim", "Role", "RoleBinding",
	"NetworkPolicy", "Service", "DaemonSet", "StatefulSet", "Deployment", "ReplicaSet", "Pod", "Job"}

func rank(o Object) int {
	if i := slices.Index(ranks, o.kind()); i >= 0 {
		return i
	}
	return len(ranks)
}

func namespaceOf(objects []Object) (name string, err error) {
	for _, o := range objects {
		n := text(o, "metadata", "namespace")
		if o.kind() == "Namespace" {
			n = o.name()
		}
		switch {
		case n == "" || n == name:
		case name == "":
			name = n
		default:
			return "", fmt.Errorf("%s is in namespace %s, others are in %s: one namespace only", o, n, name)
		}
	}
	return name, nil
}

func (o Object) name() string { return text(o, "metadata", "name") }

// podTemplate returns the pod, or the pod template of a workload, or nil if the object has none.
func podTemplate(o Object) map[string]any {
	switch {
	case o.kind() == "Pod" && o.group() == "":
		return o
	case o.group() == "apps", o.group() == "batch" && o.kind() == "Job":
		return mapping(o, "spec", "template")
	}
	return nil
}

func (o Object) kind() string { return text(o, "kind") }

// group is the API group, empty for the core group.
func (o Object) group() string {
	group, _, found := strings.Cut(text(o, "apiVersion"), "/")
	if !found {
		return ""
	}
	return group
}

func text(o map[string]any, path ...string) string {
	s, _ := valueAt(o, path...).(string)
	return s
}

func mapping(o map[string]any, path ...string) map[string]any {
	m, _ := valueAt(o, path...).(map[string]any)
	return m
}

// valueAt returns the value at a path, or nil if there is none.
func valueAt(o map[string]any, path ...string) any {
	var v any = o
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// SystemPatterns returns them as attribution rules write them: a prefix ends in "*".
func SystemPatterns() []string { return append(SystemNamespaces(), reservedPrefix+"*") }

// systemNamespaces are the namespaces of a cluster's own components, by distribution. They are whole names: users have namespaces such as azure-shop and kube-demo.
var systemNamespaces = []string{
	"kube-system", "kube-public", "kube-node-lease", // Kubernetes
	"kube-flannel", "calico-system", "calico-apiserver", "tigera-operator", // networks
	"local-path-storage", "metallb-system", // storage of kind and k3s, load balancers of bare metal
	"gke-managed-system", "gke-managed-cim", "gke-managed-dpv2-observability", "gke-managed-networking-dra-driver", // GKE
	"gke-managed-volumepopulator", "gke-managed-filestorecsi", "gke-managed-parallelstorecsi", "gke-managed-lustrecsi",
	"gke-gmp-system", "gke-mcs", "gmp-system", "gmp-public",
	"aks-command", "azure-arc", "azure-extensions-usage-system", "azure-workload-identity-system", // AKS
	"amazon-cloudwatch", "amazon-guardduty", "amazon-network-flow-monitor", // EKS
}

// reservedPrefix begins the names of OpenShift's namespaces. OpenShift gives it to no user.
const reservedPrefix = "openshift-"

// SystemNamespaces returns the namespaces of a cluster's own components by whole name.
func SystemNamespaces() []string { return slices.Clone(systemNamespaces) }

// IsSystemNamespace reports whether a namespace is one of them.
func IsSystemNamespace(name string) bool {
	return slices.Contains(systemNamespaces, name) || strings.HasPrefix(name, reservedPrefix)
}

// Overlay lays chart values over others, mapping by mapping, as Helm does. It changes under alone.
func Overlay(under, over map[string]any) {
	for key, value := range over {
		deep, is := value.(map[string]any)
		below, was := under[key].(map[string]any)
		if is && was {
			Overlay(below, deep)
			continue
		}
		if is { // a copy: merging must not change the caller's map
			below = map[string]any{}
			Overlay(below, deep)
			value = below
		}
		under[key] = value
	}
}

// Nested returns mappings with a value at a path with dots between the keys, such as global.proxy.image.
func Nested(path string, value any) map[string]any {
	keys := strings.Split(path, ".")
	all := map[string]any{keys[len(keys)-1]: value}
	for _, key := range slices.Backward(keys[:len(keys)-1]) {
		all = map[string]any{key: all}
	}
	return all
}
