package meshes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// The record of an installation is a ConfigMap in the mesh's namespace.
const (
	recordName     = "tare-mesh"
	recordKey      = "installation.json"
	annotationRun  = "tare.dev/for-run" // of the namespace: the run that installed the mesh
	annotationFrom = "tare.dev/from"    // of the namespace of a variant: its definition
	// annotationDefinition, of the namespace, is the text of a definition that does not come with tare. Its file may be
	// gone once the mesh has to be removed.
	annotationDefinition = "tare.dev/definition"
)

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
	Shared    []string          `json:"shared,omitempty"`  // of a revision: releases that other revisions use too
	Program   string            `json:"program,omitempty"` // the mesh's own program that installed it, with its version
	CRDs      []string          `json:"crds,omitempty"`    // installed besides the charts' CRDs
	Networks  []string          `json:"networks,omitempty"`
	// Run is the ID of the run that installed it, with its process, empty if a user installed it.
	Run   string        `json:"run,omitempty"`
	Owner cluster.Owner `json:"owner,omitzero"`
	// text of its definition, if that does not come with tare.
	text string
}

// InstalledChart is one Helm release.
type InstalledChart struct {
	Release    string `json:"release"`
	Namespace  string `json:"namespace"`
	Chart      string `json:"chart"`
	Version    string `json:"version"`
	AppVersion string `json:"appVersion,omitempty"`
}

// Abandoned reports whether the run that installed it has died.
func (i Installation) Abandoned() bool { return i.Run != "" && i.Owner.State() == cluster.Dead }

// Installed lists the meshes that tare has installed in the cluster, by name. One whose installation was interrupted has
// no version.
func Installed(ctx context.Context, c *cluster.Cluster) ([]Installation, error) {
	var all []Installation
	err := c.Retry(ctx, "list the meshes of the cluster", func(ctx context.Context) error {
		all = nil
		list, err := c.Typed().CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: cluster.LabelInstalled})
		if err != nil {
			return err
		}
		for _, ns := range list.Items {
			i := Installation{Mesh: ns.Labels[cluster.LabelInstalled], Namespace: ns.Name}
			found, err := c.Typed().CoreV1().ConfigMaps(ns.Name).Get(ctx, recordName, metav1.GetOptions{})
			if err != nil && !cluster.IsNotFound(err) {
				return err
			}
			if err == nil {
				if err := json.Unmarshal([]byte(found.Data[recordKey]), &i); err != nil {
					return fmt.Errorf("read the record of mesh %s: %w", i.Mesh, err)
				}
			}
			i.Run, i.From, i.text = ns.Annotations[annotationRun], ns.Annotations[annotationFrom], ns.Annotations[annotationDefinition]
			if text := ns.Annotations[cluster.AnnotationOwner]; text != "" {
				if err := json.Unmarshal([]byte(text), &i.Owner); err != nil {
					return fmt.Errorf("read the owner of mesh %s: %w", i.Mesh, err)
				}
			}
			all = append(all, i)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b Installation) int { return strings.Compare(a.Mesh, b.Mesh) })
	return all, err
}

// is reports whether it is an installation by this definition.
func (i Installation) is(d mesh.Definition) bool {
	return i.Mesh == d.Name && (d.Kubernetes == nil || i.Namespace == d.Kubernetes.Namespace)
}

// Definition is the definition that it was installed by: one that comes with tare, or the text that is kept with it.
// Revisions have namespaces of their own.
func (i Installation) Definition() (mesh.Definition, error) {
	name := cmp.Or(i.From, i.Mesh)
	var d mesh.Definition
	var err error
	if shipped(name) || i.text == "" && !mesh.IsPath(name) {
		d, err = mesh.Load(name)
	} else {
		d, err = mesh.Decode("definition of mesh "+name, []byte(i.text))
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

// shipped reports whether the definition of a mesh comes with tare.
func shipped(name string) bool { return slices.Contains(mesh.Names(), name) }

// isRevision reports whether an installation is a different revision of the same mesh.
func (i *instance) isRevision(o Installation) bool {
	return i.k.Revision != "" && !o.is(i.definition) && cmp.Or(o.From, o.Mesh) == cmp.Or(i.definition.From, i.definition.Name)
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

// record writes the record of the installation.
func (i *instance) record(ctx context.Context, done Installation) error {
	text, err := json.MarshalIndent(done, "", "  ")
	if err != nil {
		return fmt.Errorf("record the installation: %w", err)
	}
	if err := i.keep("installation.json", text); err != nil {
		return err
	}
	return i.cluster.Apply(ctx, i.stamp(), &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: i.k.Namespace, Name: recordName},
		Data:       map[string]string{recordKey: string(text)},
	})
}

// installed returns the record of this mesh, false if tare has not installed it.
func (i *instance) installed(ctx context.Context) (Installation, bool, error) {
	all, err := Installed(ctx, i.cluster)
	for _, found := range all {
		if found.Mesh == i.definition.Name && found.Namespace == i.k.Namespace {
			return found, true, err
		}
	}
	return Installation{}, false, err
}

func (i *instance) installation(networks []string) Installation {
	var shared []string
	if i.k.Revision != "" {
		shared = i.k.Revisions.Shared
	}
	return Installation{Shared: shared, Mesh: i.definition.Name, From: i.definition.From, Profile: i.settings.Profile, Options: i.settings.Options, Hub: i.settings.Hub,
		Namespace: i.k.Namespace, Networks: networks, Run: i.options.Run, Version: i.settings.Version}
}
