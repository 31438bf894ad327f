package manifest

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
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
	services := lists.Where(s.Objects, func(o Object) bool { return o.kind() == "Service" })
	names := lists.Map(services, func(o Object) string { return regexp.QuoteMeta(o.name()) })
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

// check notes what the objects need and a trial does not have.
func (s *Set) check() {
	for _, o := range s.Objects {
		switch o.kind() {
		case "PersistentVolumeClaim":
			s.volume(o, "it is created empty in each trial")
		case "Service":
			s.external(o)
		}
		for _, claim := range items(o, "spec", "volumeClaimTemplates") {
			s.volume(o, "its volumes "+text(claim, "metadata", "name")+" are created empty in each trial")
		}
		pod := podTemplate(o)
		if pod == nil {
			continue
		}
		s.references(o, pod)
		s.host(o, pod)
		s.addresses(o, pod)
	}
}

func (s *Set) volume(o Object, text string) {
	s.note(o, "fill it by an init container or a Job of the application; the cluster needs a storage class", "%s, without data", text)
}

// external notes Services whose pods are not in the namespace.
func (s *Set) external(o Object) {
	if name := text(o, "spec", "externalName"); name != "" {
		s.note(o, shared, "its address %s is outside the trial", name)
	} else if len(mapping(o, "spec", "selector")) == 0 {
		s.note(o, "add the workload to the objects, or a stand-in", "it selects no pods: its addresses were set by hand and are not copied")
	}
}

// shared is the hint for an address outside the trial.
const shared = "all trials use it, and its time is part of every latency: replace it by a workload of the application for exact figures"

// reference is an object that a pod needs by name.
type reference struct {
	kind, name string
	optional   bool
}

// references notes objects that pods name and the set lacks.
func (s *Set) references(o Object, pod map[string]any) {
	for _, r := range referencesOf(pod) {
		if r.optional || r.name == "" || slices.Contains(generated[r.kind], r.name) || r.kind == "ServiceAccount" && r.name == "default" {
			continue
		}
		if slices.ContainsFunc(s.Objects, func(x Object) bool { return x.kind() == r.kind && x.name() == r.name }) {
			continue
		}
		hint := fmt.Sprintf("add it to the objects: kubectl get %s %s -o yaml", strings.ToLower(r.kind), r.name)
		if r.kind == "Secret" {
			hint = "add a Secret of this name, with values for measuring; results never have its values"
		}
		n := Note{About: o.String(), Text: fmt.Sprintf("its pods need %s %s, which is not among the objects", r.kind, r.name), Hint: hint, Fatal: true}
		s.Notes = lists.Add(s.Notes, n)
	}
}

func referencesOf(pod map[string]any) (all []reference) {
	add := func(kind string, from map[string]any, field string) {
		if from != nil {
			optional, _ := from["optional"].(bool)
			all = append(all, reference{kind, text(from, field), optional})
		}
	}
	for _, c := range containers(pod) {
		for _, e := range items(c, "env") {
			add("Secret", mapping(e, "valueFrom", "secretKeyRef"), "name")
			add("ConfigMap", mapping(e, "valueFrom", "configMapKeyRef"), "name")
		}
		for _, e := range items(c, "envFrom") {
			add("Secret", mapping(e, "secretRef"), "name")
			add("ConfigMap", mapping(e, "configMapRef"), "name")
		}
	}
	for _, v := range items(pod, "spec", "volumes") {
		add("Secret", mapping(v, "secret"), "secretName")
		add("ConfigMap", mapping(v, "configMap"), "name")
		add("PersistentVolumeClaim", mapping(v, "persistentVolumeClaim"), "claimName")
		for _, source := range items(v, "projected", "sources") {
			add("Secret", mapping(source, "secret"), "name")
			add("ConfigMap", mapping(source, "configMap"), "name")
		}
	}
	for _, p := range items(pod, "spec", "imagePullSecrets") {
		if name := text(p, "name"); name != "" {
			all = append(all, reference{"Secret", name, true}) // images of nodes need none
		}
	}
	add("ServiceAccount", mapping(pod, "spec"), "serviceAccountName")
	return all
}

// host notes what pods share with their node, and so with other trials.
func (s *Set) host(o Object, pod map[string]any) {
	if network, _ := valueAt(pod, "spec", "hostNetwork").(bool); network {
		s.note(o, "a mesh does not redirect it: remove hostNetwork for a fair comparison", "its pods use the node's network")
	}
	for _, v := range items(pod, "spec", "volumes") {
		if path := text(v, "hostPath", "path"); path != "" {
			s.note(o, "", "its pods mount %s of the node, which all trials share", path)
		}
	}
}

// url finds the hosts of URLs.
var url = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://(?:[^@/\s"']*@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+)`)

// hostPort is a value that is a host and a port.
var hostPort = regexp.MustCompile(`^([A-Za-z0-9._-]+\.[A-Za-z0-9._-]+):[0-9]+$`)

// addresses notes addresses outside the application in arguments and the environment.
func (s *Set) addresses(o Object, pod map[string]any) {
	for _, c := range containers(pod) {
		values := map[string]string{}
		for _, e := range items(c, "env") {
			values["env "+text(e, "name")] = text(e, "value")
		}
		for _, field := range []string{"command", "args"} {
			values[field] = strings.Join(words(c, field), " ")
		}
		for _, where := range slices.Sorted(maps.Keys(values)) {
			for _, host := range hostsOf(values[where]) {
				if !s.inside(host) {
					s.note(o, shared, "%s has the address %s, outside the application", where, host)
				}
			}
		}
	}
}

func (s *Set) note(about Object, hint, format string, args ...any) {
	n := Note{About: about.String(), Text: fmt.Sprintf(format, args...), Hint: hint}
	s.Notes = lists.Add(s.Notes, n)
}

func hostsOf(text string) (all []string) {
	all = lists.Map(url.FindAllStringSubmatch(text, -1), func(m []string) string { return m[1] })
	if m := hostPort.FindStringSubmatch(strings.TrimSpace(text)); m != nil {
		all = append(all, m[1])
	}
	return all
}

// inside reports whether a host is in the application's namespace or in its pod. A name without a dot is.
func (s *Set) inside(host string) bool {
	if ip := net.ParseIP(strings.Trim(host, "[]")); ip != nil {
		return ip.IsLoopback() || ip.IsUnspecified()
	}
	service, rest, dotted := strings.Cut(host, ".")
	if !dotted || host == "localhost" {
		return true
	}
	namespace, _, _ := strings.Cut(rest, ".")
	if s.Namespace != "" && namespace == s.Namespace {
		return true
	}
	// db-0.db is a pod of a StatefulSet.
	return slices.ContainsFunc(s.Objects, func(o Object) bool {
		return o.kind() == "Service" && (o.name() == namespace || o.name() == service && rest == "svc")
	})
}
