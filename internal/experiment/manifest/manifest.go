// Package manifest reads an application's Kubernetes objects: from files, or as
// they are in a cluster. It finds the Services, removes what belongs to one
// cluster or namespace, and lists what a trial cannot have. It contacts nothing.
package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/regular"
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

func words(o map[string]any, field string) []string {
	list, _ := o[field].([]any)
	return lists.Map(list, func(v any) string {
		word, _ := v.(string)
		return word
	})
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

// Read reads files, and the files of directories without their subdirectories. It refuses kustomizations.
func Read(paths ...string) (*Set, error) {
	var objects []Object
	for _, path := range paths {
		found, err := readAt(path)
		if err != nil {
			return nil, err
		}
		if objects = append(objects, found...); len(objects) > maxObjects {
			return nil, fmt.Errorf("%s: more than %d objects", path, maxObjects)
		}
	}
	return New(strings.Join(paths, ", "), objects, false)
}

func readAt(path string) (objects []Object, err error) {
	if dir := kustomized(path); dir != "" {
		return nil, hint.New("`kubectl kustomize "+dir+" > app.yaml` renders it: name that file", "%s is a kustomization: %w", dir, errors.ErrUnsupported)
	}
	files, err := filesAt(path)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := regular.ReadInput(file, maxFile)
		if err != nil {
			return nil, err
		}
		found, err := Parse(file, data)
		if err != nil {
			return nil, err
		}
		if objects = append(objects, found...); len(objects) > maxObjects {
			break // the caller refuses them
		}
	}
	return objects, nil
}

// Bounds of the input.
const (
	maxFile    = 8 << 20 // bytes of a file (a ConfigMap has 1 MiB at most)
	maxFiles   = 1000
	maxObjects = 5000
)

// extensions of the files of a directory, as kubectl reads them.
var extensions = []string{".yaml", ".yml", ".json"}

var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// kustomized returns the directory of a kustomization, which path or a file in it names, or "" if it is none.
func kustomized(path string) (dir string) {
	if slices.Contains(kustomizations, filepath.Base(path)) {
		return filepath.Dir(path)
	}
	for _, name := range kustomizations {
		if _, err := os.Lstat(filepath.Join(path, name)); err == nil {
			return path
		}
	}
	return ""
}

// filesAt is a file, or the regular files of a directory. Links in a directory are not followed.
func filesAt(path string) (files []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && slices.Contains(extensions, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	switch {
	case len(files) == 0:
		return nil, hint.New("subdirectories are not read: list them too", "%s has no file *%s", path, strings.Join(extensions, ", *"))
	case len(files) > maxFiles:
		return nil, fmt.Errorf("%s has more than %d files", path, maxFiles)
	}
	return files, nil
}

// Parse reads the objects of a YAML stream, and the items of Lists. name is the file in errors.
func Parse(name string, data []byte) (objects []Object, err error) {
	documents := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		err := documents.Decode(&n)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		found, err := objectsOf(name, &n)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
}

func objectsOf(name string, n *yaml.Node) ([]Object, error) {
	timesAsText(n, map[*yaml.Node]bool{})
	place := fmt.Sprintf("%s:%d:%d", name, n.Line, n.Column)
	var fields map[string]any // decoded as Object, inner mappings would have this type too
	if len(n.Content) == 1 && n.Content[0].ShortTag() == "!!null" {
		return nil, nil // comments alone
	}
	if err := n.Decode(&fields); err != nil {
		return nil, hint.New("write apiVersion, kind and metadata", "%s: not a Kubernetes object: %w", place, err)
	}
	o := Object(fields)
	if list, ok := o["items"].([]any); ok && strings.HasSuffix(o.kind(), "List") {
		var all []Object
		for i, item := range list {
			one, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s: items[%d] is not a Kubernetes object", place, i)
			}
			if err := complete(place, one); err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return all, nil
	}
	return []Object{o}, complete(place, o)
}

// complete refuses an object without the fields that identify it.
func complete(place string, o Object) error {
	switch {
	case o.kind() == "" || text(o, "apiVersion") == "":
		return hint.New("a Helm chart has application: {chart: …}", "%s: not a Kubernetes object: apiVersion or kind is missing", place)
	case o.name() == "":
		return hint.New("generateName is not supported", "%s: %s has no metadata.name", place, o.kind())
	}
	if _, err := json.Marshal(o); err != nil {
		return hint.New("keys are texts, and numbers are finite", "%s: %s is not JSON: %w", place, o, err)
	}
	return nil
}

// timesAsText keeps dates as they are written: JSON has none.
func timesAsText(n *yaml.Node, seen map[*yaml.Node]bool) {
	if n == nil || seen[n] {
		return
	}
	seen[n] = true
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, c := range n.Content {
		timesAsText(c, seen)
	}
	timesAsText(n.Alias, seen)
}

// Protocols, as experiments name them.
const (
	http1 = "http1"
	http2 = "http2"
	grpc  = "grpc"
	tcp   = "tcp"
)

// byName are protocols by a port's appProtocol, or the first word of its name, as meshes read it.
var byName = map[string]string{
	"http": http1, "http1": http1, "web": http1, "www": http1, "ws": http1, "kubernetes.io/ws": http1,
	"http2": http2, "h2c": http2, "kubernetes.io/h2c": http2,
	"grpc": grpc,
	"tcp":  tcp, "tls": tcp, "https": tcp, "redis": tcp, "mysql": tcp, "mongo": tcp, "postgres": tcp, "postgresql": tcp, "amqp": tcp, "memcached": tcp, "kafka": tcp,
}

// preferred orders the ports of a Service: requests before plain connections.
var preferred = []string{http1, http2, grpc, "", tcp}

// findServices lists the Services with pods and a TCP port.
func (s *Set) findServices() {
	for _, o := range s.Objects {
		if o.kind() != "Service" || o.group() != "" || len(mapping(o, "spec", "selector")) == 0 {
			continue
		}
		best := Service{Name: o.name()}
		for _, port := range items(o, "spec", "ports") {
			if p := text(port, "protocol"); p != "" && p != "TCP" {
				continue
			}
			protocol := protocolOf(port)
			if best.Port == 0 || slices.Index(preferred, protocol) < slices.Index(preferred, best.Protocol) {
				best.Port, best.Protocol = number(port["port"]), protocol
			}
		}
		if best.Port != 0 {
			s.Services = append(s.Services, best)
		}
	}
	slices.SortFunc(s.Services, func(a, b Service) int { return strings.Compare(a.Name, b.Name) })
}

// byPort are protocols of customary ports.
var byPort = map[int]string{
	80: http1, 3000: http1, 5000: http1, 8000: http1, 8080: http1, 8081: http1, 8888: http1, 9090: http1,
	50051: grpc,
	443:   tcp, 8443: tcp, 1433: tcp, 2181: tcp, 3306: tcp, 5432: tcp, 5672: tcp, 6379: tcp, 9092: tcp, 11211: tcp, 27017: tcp,
}

// protocolOf is the protocol of a Service's port, or "" if unknown.
func protocolOf(port map[string]any) string {
	if p, ok := byName[strings.ToLower(text(port, "appProtocol"))]; ok {
		return p
	}
	word, _, _ := strings.Cut(strings.ToLower(text(port, "name")), "-")
	if p, ok := byName[word]; ok {
		return p
	}
	return byPort[number(port["port"])]
}

// Call is a call between two Services that the configuration of pods shows: From's configuration contains To's address.
// The addresses of caches and databases are among them, and calls by other means are not.
type Call struct{ From, To string }

// findCalls searches the arguments and the environment of pods, and the ConfigMaps that they name, for addresses of
// Services. Values of Secrets are not searched.
func (s *Set) findCalls() {
	for _, o := range s.Objects {
		pod := podTemplate(o)
		from := s.serviceOf(pod)
		if from == "" {
			continue
		}
		texts := s.configuration(pod)
		for _, to := range s.Objects {
			if to.kind() != "Service" || to.group() != "" || to.name() == from {
				continue
			}
			c := Call{from, to.name()}
			if !slices.Contains(s.Calls, c) && s.names(texts, to) {
				s.Calls = append(s.Calls, c)
			}
		}
	}
	slices.SortFunc(s.Calls, func(a, b Call) int { return strings.Compare(a.From+" "+a.To, b.From+" "+b.To) })
}

// serviceOf is the first Service, by name, whose selector matches the labels of a pod template, or "" if there is none.
func (s *Set) serviceOf(pod map[string]any) string {
	if pod == nil {
		return ""
	}
	labels := mapping(pod, "metadata", "labels")
	for _, service := range s.Services {
		i := slices.IndexFunc(s.Objects, func(o Object) bool { return o.kind() == "Service" && o.name() == service.Name })
		selector, matches := mapping(s.Objects[i], "spec", "selector"), true
		for name, value := range selector {
			matches = matches && labels[name] == value
		}
		if matches {
			return service.Name
		}
	}
	return ""
}

func (s *Set) configuration(pod map[string]any) (texts []string) {
	for _, c := range containers(pod) {
		for _, e := range items(c, "env") {
			texts = append(texts, text(e, "value"))
		}
		for _, field := range []string{"command", "args"} {
			texts = append(texts, words(c, field)...)
		}
	}
	for _, r := range referencesOf(pod) {
		i := slices.IndexFunc(s.Objects, func(o Object) bool { return r.kind == "ConfigMap" && o.kind() == "ConfigMap" && o.name() == r.name })
		if i < 0 {
			continue
		}
		for _, v := range mapping(s.Objects[i], "data") {
			value, _ := v.(string)
			texts = append(texts, value)
		}
	}
	return texts
}

// names reports whether a text has an address of a Service: a URL, a qualified name, or its name with one of its ports.
func (s *Set) names(texts []string, service Object) bool {
	name := regexp.QuoteMeta(service.name())
	ports := lists.Map(items(service, "spec", "ports"), func(p map[string]any) string { return strconv.Itoa(number(p["port"])) })
	const before, after = `(^|[^A-Za-z0-9_.-])`, `([^A-Za-z0-9_-]|$)`
	qualified := name + `\.[a-z0-9-]+\.svc` + after // NAME.NAMESPACE.svc
	if s.Namespace != "" {
		qualified = name + `\.` + regexp.QuoteMeta(s.Namespace) + after
	}
	patterns := []string{
		`://([^@/\s"']*@)?` + name + `([:/\s"';,]|$)`,
		before + qualified,
		before + name + `:(` + strings.Join(ports, "|") + `)([^0-9]|$)`,
	}
	if len(ports) == 0 {
		patterns = patterns[:2]
	}
	for _, p := range patterns {
		r := regexp.MustCompile(p)
		if slices.ContainsFunc(texts, r.MatchString) {
			return true
		}
	}
	return false
}
