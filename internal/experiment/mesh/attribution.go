package mesh

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
	"github.com/tare-mesh/tare/internal/metric"
)

// localRules hold for every mesh on the local platform, after the mesh's own.
// Local tasks have no namespace, so that they never catch a container of a
// cluster that happens to be called "app".
var localRules = []Rule{
	{Plane: metric.App, Container: "app"},
	{Plane: metric.Load, Container: "load"},
	{Plane: metric.Harness, Container: "tare"},
}

// clusterRules hold for every mesh in a cluster, after the mesh's own. What
// tare deploys carries its label, so that a foreign container that
// happens to be called "app" is not taken for it.
var clusterRules = slices.Concat([]Rule{
	{Plane: metric.App, Container: "app", PodLabel: ofTare},
	{Plane: metric.Load, Container: "load", PodLabel: ofTare},
	{Plane: metric.Harness, Container: "tare", PodLabel: ofTare},
	{Plane: metric.Platform, Role: "dns", Namespace: "kube-system", PodLabel: map[string]string{"k8s-app": "kube-dns"}},
}, platformRules(manifest.SystemPatterns()...))

// ofTare is the label of every pod that tare deploys.
var ofTare = map[string]string{"app.kubernetes.io/managed-by": "tare"}

func platformRules(namespaces ...string) (rules []Rule) {
	return lists.Map(namespaces, func(n string) Rule { return Rule{Plane: metric.Platform, Namespace: n} })
}

// Attribute returns t with the plane, role and component of the first rule that
// matches it, or [metric.Unattributed] when none does. Containers named beside
// are processes that tare deploys beside programs: they are sidecars.
func (d Definition) Attribute(t Task, beside ...string) Task {
	t.Plane, t.Role, t.Component = metric.Unattributed, "", ""
	rest, label := localRules, map[string]string(nil)
	if t.Namespace != "" {
		rest, label = clusterRules, ofTare
	}
	if apply(d.Tasks, &t) || apply(rest, &t) {
		return t
	}
	for _, name := range beside {
		apply([]Rule{{Plane: metric.Data, Role: "sidecar", Container: name, PodLabel: label}}, &t)
	}
	return t
}

func apply(rules []Rule, t *Task) bool {
	for _, r := range rules {
		if r.matches(*t) {
			t.Plane, t.Role, t.Component = r.Plane, r.Role, r.Component
			return true
		}
	}
	return false
}

func (r Rule) matches(t Task) bool {
	return has(t.Labels, r.PodLabel) &&
		(r.Namespace == "" || Match(r.Namespace, t.Namespace)) &&
		(r.Pod == "" || Match(r.Pod, t.Pod)) &&
		(r.Service == "" || Match(r.Service, t.Service)) &&
		(r.Container == "" || Match(r.Container, t.Container))
}

// Match compares as rules do: for equality, or for a prefix where want ends in "*".
func Match(want, got string) bool {
	if prefix, is := strings.CutSuffix(want, "*"); is {
		return strings.HasPrefix(got, prefix)
	}
	return want == got
}

// Attribution is a classification of tasks that replaces the rules in their mesh's definition.
type Attribution struct {
	Name        string `yaml:"name" json:"name" required:"add name: my-attribution"`
	Description string `yaml:"description" json:"description"`
	// Tasks are the rules: the first that matches wins.
	Tasks []Rule `yaml:"tasks" json:"tasks"`
}

// LoadAttribution finds a classification by its name among the known, or reads it from a file when nameOrPath contains a
// slash or ends in .yaml.
func LoadAttribution(nameOrPath string, known []Attribution) (Attribution, error) {
	if !IsPath(nameOrPath) {
		a, ok := lists.First(known, func(a Attribution) bool { return a.Name == nameOrPath })
		if !ok {
			names := lists.Map(known, func(a Attribution) string { return a.Name })
			return a, fmt.Errorf("unknown attribution %q: known are %s, or the path of a .yaml file", nameOrPath, strings.Join(names, ", "))
		}
		return a, nil
	}
	data, err := strict.ReadFile(nameOrPath)
	if err != nil {
		return Attribution{}, fmt.Errorf("read attribution: %w", err)
	}
	return DecodeAttribution(nameOrPath, data)
}

// DecodeAttribution reads a classification. Errors have the name of its file, the line and the column.
func DecodeAttribution(name string, data []byte) (Attribution, error) {
	var a Attribution
	doc, err := strict.Parse(name, data)
	if err != nil {
		return a, err
	}
	doc.Decode(&a)
	v := &validation{doc: doc, text: data}
	v.rules("", reflect.ValueOf(a), "")
	return a, v.err()
}

// Attribute returns t with the plane, role and component of the classification. It does not change tasks outside
// clusters (without a namespace), nor tare's own.
func (a Attribution) Attribute(t Task) Task {
	if t.Namespace == "" || t.Plane == metric.Harness {
		return t
	}
	t.Plane, t.Role, t.Component = metric.Unattributed, "", ""
	apply(a.Tasks, &t)
	return t
}
