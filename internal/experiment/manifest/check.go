package manifest

import (
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
)

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
			list, _ := c[field].([]any)
			for _, v := range list {
				word, _ := v.(string)
				values[field] += " " + word
			}
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
