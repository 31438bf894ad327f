package mesh

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
)

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
