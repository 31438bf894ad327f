package manifest

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// dropped are kinds that a trial does not apply. A kind of "" is every kind of the group and of its subgroups.
var dropped = []struct {
	group, kind string
	why, hint   string // why is empty: not worth a note
}{
	{"", "Namespace", "", ""}, {"", "Event", "", ""}, {"", "Endpoints", "", ""}, {"events.k8s.io", "Event", "", ""},
	{"discovery.k8s.io", "EndpointSlice", "", ""}, {"apps", "ControllerRevision", "", ""},
	{"networking.k8s.io", "Ingress", "the load is sent to the entry's Service", ""},
	{"gateway.networking.k8s.io", "", "the load is sent to the entry's Service", "load: {entry: gateway} sends it through the ingress gateway of each mesh"},
	{"autoscaling", "", "the numbers of replicas are fixed", ""}, {"autoscaling.k8s.io", "", "the numbers of replicas are fixed", ""}, {"keda.sh", "", "the numbers of replicas are fixed", ""},
	{"networking.k8s.io", "NetworkPolicy", "it could keep out the load and the mesh", ""}, {"", "ResourceQuota", "it would count the pods of the load, and proxies", ""},
	{"batch", "CronJob", "it would start pods within a measure phase", ""},
	{"monitoring.coreos.com", "", "scrapes would be part of the figures", ""},
	{"cert-manager.io", "", "it belongs to an operator", "add the Secret that it makes to the objects"},
	{"external-secrets.io", "", "it belongs to an operator", "add the Secret that it makes to the objects"},
	{"istio.io", "", "it belongs to a mesh, and trials without the mesh lack its kind", "meshes: {NAME: {options: …}} configures meshes"},
	{"linkerd.io", "", "it belongs to a mesh, and trials without the mesh lack its kind", "meshes: {NAME: {options: …}} configures meshes"},
	{"consul.hashicorp.com", "", "it belongs to a mesh, and trials without the mesh lack its kind", "meshes: {NAME: {options: …}} configures meshes"},
	{"kuma.io", "", "it belongs to a mesh, and trials without the mesh lack its kind", "meshes: {NAME: {options: …}} configures meshes"},
	{"cilium.io", "", "it belongs to a mesh, and trials without the mesh lack its kind", "meshes: {NAME: {options: …}} configures meshes"},
	{"rbac.authorization.k8s.io", "ClusterRole", outsideNamespace, withoutPermissions},
	{"rbac.authorization.k8s.io", "ClusterRoleBinding", outsideNamespace, withoutPermissions},
	{"apiextensions.k8s.io", "", outsideNamespace, "install it in the cluster first"},
	{"admissionregistration.k8s.io", "", outsideNamespace, ""},
	{"storage.k8s.io", "", outsideNamespace, ""}, {"scheduling.k8s.io", "PriorityClass", outsideNamespace, "install it in the cluster first"},
	{"", "PersistentVolume", outsideNamespace, ""}, {"networking.k8s.io", "IngressClass", outsideNamespace, ""},
}

const (
	outsideNamespace   = "it is outside the trial's namespace, where a killed run would leave it"
	withoutPermissions = "the application runs without these permissions; if it needs them, apply it yourself"
)

// generated are objects that controllers make in every namespace.
var generated = map[string][]string{
	"ConfigMap": {"kube-root-ca.crt", "istio-ca-root-cert", "istio-ca-crl", "openshift-service-ca.crt"},
}

// generatedSecrets are the types of Secrets of controllers and tools.
var generatedSecrets = []string{"kubernetes.io/service-account-token", "helm.sh/release.v1", "bootstrap.kubernetes.io/token"}

// keeps reports whether a trial applies an object, and notes the reason if it does not.
func (s *Set) keeps(o Object, running bool) bool {
	for _, d := range dropped {
		if d.kind != "" && (d.kind != o.kind() || d.group != o.group()) || d.kind == "" && d.group != o.group() && !strings.HasSuffix(o.group(), "."+d.group) {
			continue
		}
		if d.why != "" {
			s.Notes = append(s.Notes, Note{About: o.String(), Text: "not applied: " + d.why, Hint: d.hint})
		}
		return false
	}
	switch {
	case sendsLoad(o):
		s.Notes = append(s.Notes, Note{About: o.String(), Text: "not applied: it sends requests of its own, which the load does not count", Hint: "rename it, if the application needs it"})
		return false
	case slices.Contains(generated[o.kind()], o.name()) && o.group() == "":
		return false
	case o.kind() == "Secret" && slices.Contains(generatedSecrets, text(o, "type")):
		return false
	case o.kind() == "ServiceAccount" && o.name() == "default":
		return o["imagePullSecrets"] != nil
	case running && text(o, "metadata", "labels", "app.kubernetes.io/managed-by") == "tare": // permissions to copy it, and records
		return false
	case running && len(items(o, "metadata", "ownerReferences")) > 0: // its controller makes it again
		return false
	case running && o.kind() == "Job":
		s.Notes = append(s.Notes, Note{About: o.String(), Text: "not applied: it has run already", Hint: "if trials need its work, use application: {manifests: …} with it"})
		return false
	case running && o.kind() == "Pod" && o.group() == "" && slices.Contains([]string{"Succeeded", "Failed"}, text(o, "status", "phase")):
		s.Notes = append(s.Notes, Note{About: o.String(), Text: "not applied: it has ended"})
		return false
	}
	return true
}

// loadGenerators are the names of applications' own load generators, such as loadgenerator of Online
// Boutique and vote-bot of Emojivoto.
var loadGenerators = regexp.MustCompile(`^(?:load-?gen(?:erator)?s?|load-?test(?:er|s)?|traffic-?gen(?:erator)?|vote-?bot|locust(?:-master|-workers?)?)$`)

// sendsLoad reports whether an object is a workload that sends requests of its own.
func sendsLoad(o Object) bool { return podTemplate(o) != nil && loadGenerators.MatchString(o.name()) }

// serverFields are set by an API server or by controllers.
var serverFields = [][]string{
	{"status"}, {"metadata", "managedFields"}, {"metadata", "resourceVersion"}, {"metadata", "uid"}, {"metadata", "creationTimestamp"}, {"metadata", "generation"},
	{"metadata", "selfLink"}, {"metadata", "ownerReferences"}, {"metadata", "finalizers"}, {"metadata", "deletionTimestamp"},
	{"metadata", "deletionGracePeriodSeconds"}, {"metadata", "namespace"}, {"metadata", "generateName"},
}

// kindFields are the fields, by kind, that belong to one object in one cluster: a copy must not have them.
var kindFields = map[string][][]string{
	"Service": {{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "healthCheckNodePort"}, {"spec", "externalIPs"}, {"spec", "loadBalancerIP"}, {"spec", "loadBalancerClass"},
		{"spec", "externalTrafficPolicy"}, {"spec", "allocateLoadBalancerNodePorts"}, {"spec", "loadBalancerSourceRanges"}, {"spec", "type"}},
	"PersistentVolumeClaim": {{"spec", "volumeName"}},
	"ServiceAccount":        {{"secrets"}},
	"Pod":                   {{"spec", "nodeName"}},
	"Job":                   {{"spec", "selector"}, {"spec", "template", "metadata", "labels", "controller-uid"}, {"spec", "template", "metadata", "labels", "batch.kubernetes.io/controller-uid"}},
}

// serverAnnotations are prefixes of the annotations that the API server, controllers and tools set.
var serverAnnotations = []string{"kubectl.kubernetes.io/", "deployment.kubernetes.io/", "deprecated.daemonset.template.generation", "pv.kubernetes.io/",
	"volume.beta.kubernetes.io/", "volume.kubernetes.io/", "control-plane.alpha.kubernetes.io/", "meta.helm.sh/", "argocd.argoproj.io/"}

// enrolments are labels and annotations by which meshes take pods in. Each trial sets its mesh's own.
var enrolments = []string{"sidecar.istio.io/inject", "istio.io/rev", "istio.io/dataplane-mode", "linkerd.io/inject", "consul.hashicorp.com/connect-inject", "kuma.io/sidecar-injection"}

// clean removes what belongs to one cluster, one namespace or one mesh.
func (s *Set) clean(o Object) {
	headless := o.kind() == "Service" && text(o, "spec", "clusterIP") == "None"
	external := text(o, "spec", "type") == "ExternalName"
	for _, path := range slices.Concat(serverFields, kindFields[o.kind()]) {
		remove(o, path...)
	}
	if o.kind() == "Service" {
		spec := mapping(o, "spec")
		if spec == nil && (headless || external) { // it had no other field
			spec = map[string]any{}
			o["spec"] = spec
		}
		for _, port := range items(o, "spec", "ports") {
			delete(port, "nodePort")
		}
		if headless {
			spec["clusterIP"] = "None"
		}
		if external {
			spec["type"] = "ExternalName"
		}
	}
	removeAnnotations(o)
	template := podTemplate(o)
	if template == nil {
		return
	}
	removeAnnotations(template)
	for _, field := range []string{"labels", "annotations"} {
		marks := mapping(template, "metadata", field)
		for _, name := range enrolments {
			if _, has := marks[name]; has {
				remove(template, "metadata", field, name)
				s.Notes = append(s.Notes, Note{About: o.String(), Text: field + " " + name + " removed: each trial enrols pods in its own mesh"})
			}
		}
	}
	remove(template, "metadata", "creationTimestamp")
	if o.kind() == "Pod" {
		removeTokenVolumes(o)
	}
}

func removeAnnotations(o map[string]any) {
	for name := range mapping(o, "metadata", "annotations") {
		if slices.ContainsFunc(serverAnnotations, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			remove(o, "metadata", "annotations", name)
		}
	}
}

// tokenVolume begins the names of volumes that the API server adds to pods.
const tokenVolume = "kube-api-access-"

// removeTokenVolumes removes what the API server has added to a running pod.
func removeTokenVolumes(pod map[string]any) {
	spec := mapping(pod, "spec")
	without := func(object map[string]any, field string) {
		list, ok := object[field].([]any)
		if !ok {
			return
		}
		object[field] = slices.DeleteFunc(list, func(v any) bool {
			m, _ := v.(map[string]any)
			return strings.HasPrefix(text(m, "name"), tokenVolume)
		})
	}
	without(spec, "volumes")
	for _, c := range containers(pod) {
		without(c, "volumeMounts")
	}
}

// containers returns the containers of a pod or pod template, init containers first.
func containers(pod map[string]any) []map[string]any {
	return slices.Concat(items(pod, "spec", "initContainers"), items(pod, "spec", "containers"))
}

// Place puts a copy of an object into a trial's namespace. It changes the object's own namespace, the namespace of RoleBinding
// subjects, and addresses of Services in the namespace that the objects were written for. Otherwise pods of a trial would
// call the application that it was copied from.
func (s *Set) Place(o map[string]any, namespace string) map[string]any {
	placed, _ := s.moved(o, namespace).(map[string]any)
	if values := mapping(placed, "data"); Object(placed).kind() == "Secret" {
		for name, value := range values {
			if plain, err := base64.StdEncoding.DecodeString(fmt.Sprint(value)); err == nil {
				moved, _ := s.moved(string(plain), namespace).(string)
				values[name] = base64.StdEncoding.EncodeToString([]byte(moved))
			}
		}
	}
	metadata := mapping(placed, "metadata")
	if metadata == nil {
		metadata = map[string]any{}
		placed["metadata"] = metadata
	}
	metadata["namespace"] = namespace
	for _, subject := range items(placed, "subjects") {
		if _, has := subject["namespace"]; has {
			subject["namespace"] = namespace
		}
	}
	return placed
}

// moved is a deep copy of a value, with the addresses of texts replaced. Identifiers such as names have no dot,
// and do not match.
func (s *Set) moved(v any, namespace string) any {
	r := s.addressed()
	var deep func(v any) any
	deep = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			all := make(map[string]any, len(v))
			for name, inner := range v {
				all[name] = deep(inner)
			}
			return all
		case []any:
			all := make([]any, len(v))
			for i, inner := range v {
				all[i] = deep(inner)
			}
			return all
		case string:
			for range 2 { // neighbours share the character between them
				if r != nil {
					v = r.ReplaceAllString(v, "${1}${2}."+namespace+"${3}")
				}
			}
			return v
		}
		return v
	}
	return deep(v)
}

// addressed matches NAME.NAMESPACE of a Service as a part of an address, or is nil if there is none to match.
func (s *Set) addressed() *regexp.Regexp {
	var names []string
	for _, o := range s.Objects {
		if o.kind() == "Service" {
			names = append(names, regexp.QuoteMeta(o.name()))
		}
	}
	if s.Namespace == "" || len(names) == 0 {
		return nil
	}
	return regexp.MustCompile(`(^|[^A-Za-z0-9_-])(` + strings.Join(names, "|") + `)\.` + regexp.QuoteMeta(s.Namespace) + `(\.svc\b|[:/\s"',;]|$)`)
}

// disturbing are kinds of objects that stay in force while an application is measured in place.
var disturbing = []struct{ group, kind, text, hint string }{
	{"autoscaling", "HorizontalPodAutoscaler", "it can change the number of pods within a measure phase", "set its minReplicas and maxReplicas to one number while measuring"},
	{"networking.k8s.io", "NetworkPolicy", "it can keep out the load and the mesh", "a trial whose requests are not answered fails; measure a copy (without inPlace)"},
	{"", "ResourceQuota", "it counts the pods of the load, the proxies, and pods that replace others", "a trial whose pods are refused fails; measure a copy (without inPlace)"},
	{"", "LimitRange", "it applies to the pods of the load and to proxies too", ""},
	{"batch", "CronJob", "its pods can start within a measure phase", "`kubectl patch` sets spec.suspend"},
}

// InPlace replaces the notes by the notes for an application that is measured where it runs.
func (s *Set) InPlace() {
	s.Notes = nil
	for _, o := range s.Objects {
		pod := podTemplate(o)
		if pod == nil || o.kind() == "Job" {
			continue
		}
		s.host(o, pod)
		replicas := valueAt(o, "spec", "replicas")
		switch {
		case slices.Contains([]string{"Pod", "ReplicaSet"}, o.kind()):
			s.Notes = append(s.Notes, Note{About: o.String(), Text: "its pods cannot be restarted: nothing replaces them", Hint: "measure a copy, without inPlace", Fatal: true})
		case o.kind() == "StatefulSet", o.kind() == "DaemonSet", text(o, "spec", "strategy", "type") == "Recreate":
			s.note(o, "measure when nobody needs it", "restarted twice in each trial, and requests fail while a pod is replaced")
		case replicas == nil || number(replicas) == 1:
			s.note(o, "", "restarted twice in each trial, with one pod")
		default:
			s.note(o, "", "restarted twice in each trial, with %d pods", number(replicas))
		}
	}
	for _, o := range slices.Concat(s.Left, s.Objects) {
		if sendsLoad(o) {
			s.note(o, "`kubectl scale` it to 0 while measuring", "it sends requests of its own, which the load does not count")
		}
		for _, d := range disturbing {
			if d.kind == o.kind() && d.group == o.group() {
				s.Notes = append(s.Notes, Note{About: fmt.Sprint(o), Text: d.text, Hint: d.hint})
			}
		}
	}
}
