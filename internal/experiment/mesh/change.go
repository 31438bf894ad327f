package mesh

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/certificate"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/metric"
)

// Change is the request that makes a kind of change.
type Change struct {
	Request `yaml:",inline"`
	// Without are kinds that an experiment with it cannot have.
	Without []string `yaml:"without,omitempty" json:"without,omitempty"`
	// EverySeconds is the least time between changes that it needs, in seconds. 0 means none.
	EverySeconds int `yaml:"everySeconds,omitempty" json:"everySeconds,omitempty" range:"0,3600"`
}

// ChangeContext is the data of the templates of a change.
type ChangeContext struct {
	Service   string     // whose route or endpoints change
	Version   int        // of the new route, from 1
	Before    int        // version of the route before, from 0
	Endpoints []Endpoint // all of the service after the change
	Control   map[string]ControlContext
	// Pod is the replica that is removed, added, or gets a new certificate.
	Pod string
	// CertPath and KeyPath are the paths of the new certificate and its key (PEM).
	CertPath, KeyPath string
	Secrets
}

// AuthorityKey makes a private key for a new authority, PEM (SEC 1).
func (ChangeContext) AuthorityKey() (string, error) {
	pair, err := certificate.New(certificate.Authority("tare change"), nil)
	if err != nil {
		return "", err
	}
	key, err := pair.KeyPEM()
	return string(key), err
}

// ControlMoment has the instants of one change of [Local.Changes] as a control plane counts them, in ns since 1970.
type ControlMoment struct {
	ReceivedNS int64 `json:"receivedNs"` // it received the change
	SentNS     int64 `json:"sentNs"`     // it had sent the new configuration to all proxies
}

// reloads are the kinds of changes that a proxy makes by reading its configuration again.
var reloads = []string{metric.RouteChanged, metric.EndpointRemoved, metric.EndpointAdded, metric.CertificateRenewed}

// NothingRestarts reports whether a kind of change ends processes of a mesh, and there is no mesh. On a cluster a pod has a restart
// without a proxy too.
func (d Definition) NothingRestarts(platform, kind string) bool {
	described, _ := metric.ChangeKindOf(kind)
	if platform == OnKubernetes {
		return d.Kubernetes == nil && described.Plane == metric.Control
	}
	return d.Local == nil && described.Plane != ""
}

// CanChange returns an error with the reason if nothing on a platform makes a kind of change. Without a mesh, the
// application itself changes its version, and nothing restarts: requests then fail without a change, if any.
func (d Definition) CanChange(platform, kind string) error {
	switch {
	case d.NothingRestarts(platform, kind):
		return nil
	case platform == OnKubernetes:
		return d.canChangeInCluster(kind)
	}
	described, _ := metric.ChangeKindOf(kind)
	switch {
	case kind == metric.VersionChanged:
		return errors.New("only a cluster has revisions")
	case d.Local == nil && kind == metric.RouteChanged:
		return nil
	case d.Local == nil:
		return errors.New("it has no proxy")
	case described.Plane == metric.Data:
		return nil
	case described.Plane == metric.Control && len(d.Local.Controls()) == 0:
		return errors.New("it has no control plane")
	case described.Plane == metric.Control:
		return nil
	case kind == metric.CertificateRenewed && !d.Provides.MTLS:
		return errors.New("it has no mutual TLS")
	case d.Local.Changes[kind].URL != "", d.Local.Sidecar.Reload != nil && slices.Contains(reloads, kind):
		return nil
	}
	return errors.New("its definition has no request for it in local.changes")
}

// canChangeInCluster returns why neither Kubernetes nor an object of the mesh makes a kind of change.
func (d Definition) canChangeInCluster(kind string) error {
	switch k := d.Kubernetes; {
	case kind == metric.EndpointRemoved, kind == metric.EndpointAdded, kind == metric.ProxyRestarted:
		return nil
	case k == nil && (kind == metric.RouteChanged || kind == metric.VersionChanged):
		return nil
	case k == nil:
		return errors.New("it has no proxy")
	case (kind == metric.ControlRestarted || kind == metric.ControlStopped) && len(k.Workloads) == 0:
		return errors.New("it has no control plane of its own")
	case kind == metric.ControlStopped && slices.ContainsFunc(k.Workloads, func(w Workload) bool { return w.Kind == "DaemonSet" }):
		return errors.New("a DaemonSet of its control plane cannot be scaled to none")
	case kind == metric.VersionChanged && (k.Revisions == nil || len(k.Revisions.Proof.Labels)+len(k.Revisions.Proof.Annotations) == 0):
		return errors.New("its definition has no revisions with marks of their pods")
	case kind == metric.VersionChanged && k.Revision != "":
		return errors.New("it is a revision beside others: write order: by-mesh")
	case kind == metric.VersionChanged, kind == metric.ControlRestarted, kind == metric.ControlStopped, k.Changes[kind] != "":
		return nil
	}
	return errors.New("its definition has no object for it in kubernetes.changes")
}

// Change renders the objects of a kind of change, as a stream of YAML.
func (k Kubernetes) Change(kind string, ctx ChangeContext) ([]byte, error) {
	var r rendering
	text := r.text("changes."+kind, k.Changes[kind], ctx)
	return []byte(text), r.err("the objects of " + kind)
}

// Background are requests about services that no request of the load calls, named background-1 and so on. They are
// templates over [BackgroundContext].
type Background struct {
	// Services adds them, before the first sidecar starts.
	Services Request `yaml:"services" json:"services"`
	// Change gives one of them another endpoint.
	Change    Request `yaml:"change" json:"change"`
	Simulated `yaml:",inline"`
	// Gauge of a sidecar is at least the number of services in its configuration. Empty means that the control plane does not
	// configure the sidecars, so that simulated proxies alone know the services.
	Gauge string `yaml:"gauge,omitempty" json:"gauge,omitempty"`
}

// Simulated is where simulated proxies connect, and the nodes that they are. Its texts are templates.
type Simulated struct {
	// Proxies is the address of delta ADS, host:port, to which simulated proxies connect. Empty means that there is none.
	Proxies string `yaml:"proxies,omitempty" json:"proxies,omitempty" as:"template"`
	// Node is the id of a simulated proxy's node, and Metadata its metadata as JSON. {number} is from 1, and {ip} an address of the
	// range 198.19.0.0/16. Absent means proxy-{number}, without metadata.
	Node     string `yaml:"node,omitempty" json:"node,omitempty" as:"template"`
	Metadata string `yaml:"metadata,omitempty" json:"metadata,omitempty" as:"template"`
}

// Render renders the texts over a [BackgroundContext], or on a cluster over an [EnrolContext].
func (s Simulated) Render(data any) (Simulated, error) {
	for name, text := range map[string]*string{"proxies": &s.Proxies, "node": &s.Node, "metadata": &s.Metadata} {
		b, err := execute(name, *text, data)
		if err != nil {
			return Simulated{}, fmt.Errorf("render background.%s: %w", name, err)
		}
		*text = string(b)
	}
	return s, nil
}

// CanSimulate returns an error with the missing part of the definition if simulated proxies cannot connect to the control plane on
// a platform. Without a mesh, none are started.
func (d Definition) CanSimulate(platform string) error {
	missing := ""
	switch {
	case platform == OnKubernetes && d.Kubernetes != nil && (d.Kubernetes.Background == nil || d.Kubernetes.Background.Proxies == ""):
		missing = "kubernetes.background.proxies"
	case platform == OnLocal && d.Local != nil && (d.Local.Background == nil || d.Local.Background.Proxies == ""):
		missing = "local.background.proxies"
	default:
		return nil
	}
	return fmt.Errorf("%w: its definition has no address in %s", errors.ErrUnsupported, missing)
}

// BackgroundContext is the data of the templates of [Background].
type BackgroundContext struct {
	Services int // in all
	Number   int // of a change, from 1: the services change in turn
	Control  map[string]ControlContext
	Secrets
}

// MaxBackgroundServices is the highest number of services that no request calls.
const MaxBackgroundServices = 10_000

// BackgroundName is the name of a background service, by its index.
func BackgroundName(i int) string { return fmt.Sprintf("background-%d", i+1) }

// MaxBackgroundProxies is the highest number of simulated proxies.
const MaxBackgroundProxies = 5000

// simulatedTime is the time per simulated proxy until all have a configuration. istiod with its default limit of new streams took 40 s
// for 500, 53 s for 1,000 and 92 s for 2,000 (docs/lab/churn.md).
const simulatedTime = 80 * time.Millisecond

// SimulatedTime is about the time until n simulated proxies have a configuration.
func SimulatedTime(n int) time.Duration { return time.Duration(n) * simulatedTime }

// SimulatedLimit is the maximum time until n simulated proxies have a configuration. Without any it is 0.
func SimulatedLimit(n int) time.Duration {
	if n == 0 {
		return 0
	}
	return time.Minute + 4*SimulatedTime(n)
}

// MaxBackgroundChange is the highest number of a change in a trial.
const MaxBackgroundChange = 1<<16 - 1

// CheckBackground refuses a number of services that no request calls.
func CheckBackground(services int) error {
	if services < 0 || services > MaxBackgroundServices {
		return fmt.Errorf("%d is not between 0 and %d services", services, MaxBackgroundServices)
	}
	return nil
}

// CheckBackgroundChange refuses a change of these services with a number that does not exist.
func CheckBackgroundChange(number, services int) error {
	if number < 1 || number > MaxBackgroundChange || services == 0 {
		return fmt.Errorf("change %d of %d services", number, services)
	}
	return nil
}

// BackgroundAddress is the address that a background service has after a change, by the number of the change. The addresses are
// of a range for benchmarks (RFC 2544), in which nothing answers. They show which change a proxy received.
func BackgroundAddress(number int) string {
	return fmt.Sprintf("198.18.%d.%d", number>>8&255, number&255)
}

// BackgroundChange returns the number of the change that an address is of.
func BackgroundChange(address string) (number int, ok bool) {
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.Is4() {
		return 0, false
	}
	b := ip.As4()
	return int(binary.BigEndian.Uint16(b[2:])), b[0] == 198 && b[1] == 18
}

// Revisions describes how several versions of the mesh are installed at once: each is a revision, with a control
// plane in a namespace of its own, which acts on the namespaces enrolled with that revision.
type Revisions struct {
	// Shared are releases for the whole cluster, such as CRDs: installed with the first revision, removed with the last.
	Shared []string `yaml:"shared,omitempty" json:"shared,omitempty"`
	// Values override the charts' values, by release. They are templates of YAML with .Revision and .Namespace.
	Values map[string]string `yaml:"values,omitempty" json:"values,omitempty" in:"install" as:"values"`
	// Workloads and webhooks of a revision, in place of the mesh's. Their names are templates.
	Workloads []Workload `yaml:"workloads,omitempty" json:"workloads,omitempty" in:"install"`
	Webhooks  []Webhook  `yaml:"webhooks,omitempty" json:"webhooks,omitempty" in:"install"`
	// Namespace has the marks of an enrolled namespace, in place of enrolment.namespace.
	// They are templates with .Revision.
	Namespace Marks `yaml:"namespace,omitempty" json:"namespace" in:"enrol"`
	// Proof are marks that a revision adds to its pods. Without them an application cannot move to another revision.
	Proof Marks `yaml:"proof,omitempty" json:"proof" in:"enrol"`
}

// maxRevision bounds the name of a revision: with a prefix, names of Services and namespaces have up to 63 characters.
const maxRevision = 40

// AsRevision returns the definition as a revision with the mesh's name, beside other revisions of the same mesh.
// The error has a hint.
func (d Definition) AsRevision() (Definition, error) {
	if d.Kubernetes == nil || d.Kubernetes.Revisions == nil {
		return d, hint.New("write order: by-mesh, one batch per mesh", "mesh %s has no revisions", d.Name)
	}
	revision := strings.ReplaceAll(d.Name, ".", "-") // a DNS label
	if len(revision) > maxRevision {
		return d, hint.New(fmt.Sprintf("at most %d characters", maxRevision), "the name %.80s is too long for a revision", d.Name)
	}
	return d.asRevision(revision, d.Kubernetes.Namespace+"-"+revision)
}

// NextRevision returns the definition as a revision in the mesh's own namespace, to which applications move from the
// installed one. Both have one certificate authority.
func (d Definition) NextRevision(revision string) (Definition, error) {
	return d.asRevision(revision, d.Kubernetes.Namespace)
}

func (d Definition) asRevision(revision, namespace string) (Definition, error) {
	k := *d.Kubernetes
	home := k.Namespace
	k.Revision, k.Namespace = revision, namespace
	ctx := InstallContext{Revision: k.Revision, Namespace: k.Namespace}
	k.Workloads, k.Webhooks = slices.Clone(k.Revisions.Workloads), slices.Clone(k.Revisions.Webhooks)
	var r rendering
	for i := range k.Workloads {
		k.Workloads[i].Name = r.text("workloads", k.Workloads[i].Name, ctx)
	}
	for i := range k.Webhooks {
		k.Webhooks[i].Name = r.text("webhooks", k.Webhooks[i].Name, ctx)
	}
	k.Enrolment.Namespace, k.Enrolment.Proof = k.Revisions.Namespace, k.Enrolment.Proof.with(k.Revisions.Proof)
	d.Kubernetes, d.Tasks = &k, slices.Clone(d.Tasks)
	for i := range d.Tasks {
		if d.Tasks[i].Namespace == home {
			d.Tasks[i].Namespace = k.Namespace
		}
	}
	return d, r.err(fmt.Sprintf("revision %s of mesh %s", revision, d.Name))
}

func (m Marks) with(further Marks) Marks {
	all := Marks{Labels: map[string]string{}, Annotations: map[string]string{}}
	for _, one := range []Marks{m, further} {
		maps.Copy(all.Labels, one.Labels)
		maps.Copy(all.Annotations, one.Annotations)
	}
	return all
}

func (v *validation) revisions(r *Revisions) {
	if r == nil {
		return
	}
	for i, name := range r.Shared {
		v.release(fmt.Sprintf("kubernetes.revisions.shared[%d]", i), name)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		v.release("kubernetes.revisions.values."+name, name)
	}
}

// release reports a name that no chart has.
func (v *validation) release(path, name string) {
	if !slices.ContainsFunc(v.d.Kubernetes.Charts, func(c Chart) bool { return c.Release == name }) {
		v.report(path, fmt.Sprintf("there is no release %q", name), "name one of charts")
	}
}

// Moved are the revisions of a mesh before and after a version change, as the cluster ran them.
type Moved struct {
	From    RevisionImages `json:"from"`           // that the application left
	To      RevisionImages `json:"to"`             // that it moved to
	Proxies int            `json:"proxies"`        // new proxies
	Left    []string       `json:"left,omitempty"` // pods of these that do not run the new version: the change is not complete
}

// RevisionImages are the images of a revision of a mesh.
type RevisionImages struct {
	Version string   `json:"version"` // tag of the images of the control plane
	Control []string `json:"control"` // images of the control plane
	Proxies []string `json:"proxies"` // images of the proxies of the application
}

// Begin takes the images of both control planes, and of the proxies of each pod before the move.
func (m *Moved) Begin(from, to []string, pods map[string][]string) {
	m.From = RevisionImages{versionOf(from), from, distinct(pods)}
	m.To = RevisionImages{Version: versionOf(to), Control: to}
}

// End takes the images of the proxies of each new pod. chosen is the image that the user gives them, empty for the image of
// their version.
func (m *Moved) End(pods map[string][]string, chosen string) {
	m.To.Proxies = distinct(pods)
	for pod, images := range pods {
		m.Proxies += len(images)
		if slices.ContainsFunc(images, func(image string) bool { return !m.isNew(image, chosen) }) {
			m.Left = append(m.Left, pod)
		}
	}
	slices.Sort(m.Left)
}

// isNew reports whether the image of a new proxy is of the new version. If control plane and proxies had one tag before, they must
// have one again. Proxies with versions of their own must have another image than before.
func (m *Moved) isNew(image, chosen string) bool {
	switch {
	case chosen != "":
		return strings.Contains(image, chosen)
	case versionOf(m.From.Proxies) == m.From.Version:
		return tagOf(image) == m.To.Version
	case m.From.Version == m.To.Version:
		return true
	}
	return !slices.Contains(m.From.Proxies, image)
}

// distinct are the images of all pods, each once.
func distinct(pods map[string][]string) []string {
	all := slices.Concat(slices.Collect(maps.Values(pods))...)
	slices.Sort(all)
	return slices.Compact(all)
}

// versionOf is the tag of images, several with commas between.
func versionOf(images []string) string {
	tags := lists.Map(images, tagOf)
	slices.Sort(tags)
	return strings.Join(slices.Compact(tags), ", ")
}

// tagOf is the tag of an image, or its digest if it has none.
func tagOf(image string) string {
	name, digest, _ := strings.Cut(image, "@")
	if _, tag, tagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":"); tagged {
		return tag
	}
	return cmp.Or(digest, "latest")
}
