package meshes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// recordPrefix and the name of a mesh are the annotation of namespace kube-system that has the record of its installation,
// as JSON. It is older than the first object of the mesh, and no removal of the mesh removes it before the last one.
const recordPrefix = "mesh.tare.dev/"

// Installation is the record of an installed mesh.
type Installation struct {
	Mesh      string            `json:"mesh"`
	From      string            `json:"from,omitempty"` // of a variant: the definition
	Version   string            `json:"version"`        // of the charts, or as the mesh's own program prints it
	Profile   string            `json:"profile,omitempty"`
	Options   map[string]string `json:"options,omitempty"`
	Hub       string            `json:"hub,omitempty"`
	Namespace string            `json:"namespace,omitempty"`
	Charts    []InstalledChart  `json:"charts,omitempty"`
	Shared    []string          `json:"shared,omitempty"` // of a revision: releases that other revisions use too
	CRDs      []string          `json:"crds,omitempty"`   // installed besides the charts' CRDs
	Networks  []string          `json:"networks,omitempty"`
	// Run is the ID of the run that installed it, empty if a user installed it.
	Run string `json:"run,omitempty"`
	// Incomplete: Owner installs or uninstalls it, or was killed meanwhile.
	Incomplete bool          `json:"incomplete,omitempty"`
	Owner      cluster.Owner `json:"owner,omitzero"` // the process that changed it last
	// Text of its definition, if that does not come with tare. Its file may be gone when the mesh is uninstalled.
	Text string `json:"definition,omitempty"`
}

// InstalledChart is one Helm release.
type InstalledChart struct {
	Release    string `json:"release"`
	Namespace  string `json:"namespace"`
	Chart      string `json:"chart"`
	Version    string `json:"version"`
	AppVersion string `json:"appVersion,omitempty"`
}

// Abandoned reports whether the run that installed it has died, or a process that installed or uninstalled it.
func (i Installation) Abandoned() bool {
	return (i.Run != "" || i.Incomplete) && i.Owner.State() == cluster.Dead
}

// Origin names what left an abandoned mesh.
func (i Installation) Origin() string {
	if i.Run == "" {
		return "an interrupted command"
	}
	return "run " + i.Run
}

// remedy is the command that uninstalls it. One whose definition does not come with tare needs --force.
func (i Installation) remedy() string {
	force := ""
	if !shipped(i.Mesh) {
		force = " --force"
	}
	return "`tare mesh uninstall " + i.Mesh + force + "` removes it"
}

// Installed lists the meshes that tare has installed in the cluster, by name.
func Installed(ctx context.Context, c *cluster.Cluster) (all []Installation, err error) {
	err = c.Retry(ctx, "list the meshes of the cluster", func(ctx context.Context) error {
		ns, err := c.Typed().CoreV1().Namespaces().Get(ctx, cluster.SystemNamespace, metav1.GetOptions{})
		if err != nil {
			return err
		}
		all = nil
		for _, key := range slices.Sorted(maps.Keys(ns.Annotations)) {
			name, ok := strings.CutPrefix(key, recordPrefix)
			if !ok {
				continue
			}
			var i Installation
			if err := json.Unmarshal([]byte(ns.Annotations[key]), &i); err != nil {
				return hint.New("uninstall the mesh, and remove annotation "+key+" of namespace "+ns.Name, "read the record of mesh %s: %w", name, err)
			}
			all = append(all, i)
		}
		return nil
	})
	return all, err
}

// Definition is the definition that it was installed by: one that comes with tare, or the text that is kept with it.
// Revisions have namespaces of their own.
func (i Installation) Definition() (mesh.Definition, error) {
	name := cmp.Or(i.From, i.Mesh)
	var d mesh.Definition
	var err error
	if shipped(name) || i.Text == "" && !mesh.IsPath(name) {
		d, err = mesh.Load(name)
	} else {
		d, err = mesh.Decode("definition of mesh "+name, []byte(i.Text))
	}
	if err != nil {
		return d, err
	}
	if d.Name != name || d.Kubernetes == nil {
		return d, fmt.Errorf("the definition kept in namespace %s is not that of mesh %s on clusters", i.Namespace, name)
	}
	d.Name, d.From = i.Mesh, i.From
	if k := d.Kubernetes; k.Revisions != nil && i.Namespace != k.Namespace {
		d, err = d.AsRevision()
	}
	if err == nil && d.Kubernetes.Namespace != i.Namespace {
		err = fmt.Errorf("the definition of mesh %s has namespace %s, and it is installed in %s", i.Mesh, d.Kubernetes.Namespace, i.Namespace)
	}
	return d, err
}

// isRevision reports whether an installation is a different revision of the same mesh.
func (i *instance) isRevision(o Installation) bool {
	return i.k.Revision != "" && !o.is(i.definition) && cmp.Or(o.From, o.Mesh) == cmp.Or(i.definition.From, i.definition.Name)
}

func (i Installation) is(d mesh.Definition) bool {
	return i.Mesh == d.Name && (d.Kubernetes == nil || i.Namespace == d.Kubernetes.Namespace)
}

// shared reports whether all revisions of the mesh use a release.
func (i *instance) shared(release string) bool {
	return i.k.Revisions != nil && slices.Contains(i.k.Revisions.Shared, release)
}

// hasVersion reports whether the mesh or one of its charts has a version, empty for any.
func (i Installation) hasVersion(version string) bool {
	return version == "" || i.Version == version || slices.ContainsFunc(i.Charts, func(c InstalledChart) bool { return c.Version == version })
}

// Settings returns the settings that the mesh was installed with.
func (i Installation) Settings() mesh.Settings {
	return mesh.Settings{Profile: i.Profile, Options: i.Options, Hub: i.Hub}
}

func (i *instance) record(ctx context.Context, done Installation) error {
	done.Owner = cluster.ThisProcess()
	return writeRecord(ctx, i.cluster, i.definition.Name, &done)
}

// writeRecord writes the record of a mesh, or removes it if it is nil.
func writeRecord(ctx context.Context, c *cluster.Cluster, name string, record *Installation) error {
	var value *string
	if record != nil {
		text, err := json.Marshal(record)
		if err != nil {
			return fmt.Errorf("record the installation: %w", err)
		}
		value = new(string(text))
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{recordPrefix + name: value}}})
	if err != nil {
		return fmt.Errorf("record the installation: %w", err)
	}
	return c.Patch(ctx, cluster.Ref{Kind: cluster.KindNamespace, Name: cluster.SystemNamespace}, patch)
}

// installed returns the record of this mesh, false if tare has not installed it.
func (i *instance) installed(ctx context.Context) (Installation, bool, error) {
	all, err := Installed(ctx, i.cluster)
	found, ours := lists.First(all, func(o Installation) bool { return o.Mesh == i.definition.Name && o.Namespace == i.k.Namespace })
	return found, ours, err
}

func (i *instance) installation(networks []string) Installation {
	var shared []string
	if i.k.Revision != "" {
		shared = i.k.Revisions.Shared
	}
	text := ""
	if !shipped(cmp.Or(i.definition.From, i.definition.Name)) {
		text = string(i.definition.Text)
	}
	return Installation{Shared: shared, Mesh: i.definition.Name, Text: text, From: i.definition.From, Profile: i.settings.Profile, Options: i.settings.Options, Hub: i.settings.Hub,
		Namespace: i.k.Namespace, Networks: networks, Run: i.options.Run, Version: i.settings.Version}
}

// shipped reports whether the definition of a mesh comes with tare.
func shipped(name string) bool { return slices.Contains(mesh.Names(), name) }

// Image is the image of a running container.
type Image struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Image     string `json:"image"`
	Digest    string `json:"digest"` // as the container runtime reports it
}

// archiver keeps the configuration and images of a running mesh.
type archiver struct {
	*instance
	reader podReader
}

func (a *archiver) run(ctx context.Context, namespace string) error {
	if a.options.Archive == nil || a.definition.Kubernetes == nil {
		return nil
	}
	var images []Image
	var groups podGroups
	for _, ns := range []string{a.k.Namespace, namespace} {
		if ns == "" {
			continue
		}
		pods, err := a.reader.list(ctx, ns)
		if err != nil {
			return a.failed("archive", err)
		}
		for _, p := range pods {
			images = append(images, imagesOf(p)...)
		}
		if ns == namespace {
			groups = groupPods(pods, Target{LoadInside: true, IsLoad: func(*corev1.Pod) bool { return false }}, a.proxies(true))
		}
	}
	text, err := json.MarshalIndent(images, "", "  ")
	if err != nil {
		return a.failed("archive", err)
	}
	if err := a.keep("images.json", text); err != nil {
		return err
	}
	for _, x := range a.proxies(true) {
		pods, err := a.reader.podsOf(ctx, x, a.k.Namespace, groups)
		if err != nil {
			return a.failed("archive", err)
		}
		for _, p := range pods {
			for _, f := range x.Archive {
				name := path.Join("proxies", p.Namespace+"-"+p.Name+"-"+f.Name)
				body, err := a.reader.get(ctx, p, f.Port, f.Path)
				if err != nil {
					name, body = name+".error", []byte(err.Error()+"\n")
				}
				if err := a.keep(name, body); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func imagesOf(p *corev1.Pod) []Image {
	all := lists.Map(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(s corev1.ContainerStatus) Image {
		return Image{p.Namespace, p.Name, s.Name, s.Image, s.ImageID}
	})
	slices.SortFunc(all, func(a, b Image) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
}
