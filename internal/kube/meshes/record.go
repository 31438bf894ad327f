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
	CRDs      []string          `json:"crds,omitempty"`    // installed besides those of the charts
	Networks  []string          `json:"networks,omitempty"`
	// Run is the ID of the run that installed it, with its process; empty: installed by a user.
	Run   string        `json:"run,omitempty"`
	Owner cluster.Owner `json:"owner,omitzero"`
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
			i.Run, i.From = ns.Annotations[annotationRun], ns.Annotations[annotationFrom]
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

// Definition is the shipped definition that it was installed by. Revisions have namespaces of their own.
func (i Installation) Definition() (mesh.Definition, error) {
	d, err := mesh.Load(cmp.Or(i.From, i.Mesh))
	if err != nil {
		return d, err
	}
	d.Name, d.From = i.Mesh, i.From
	if k := d.Kubernetes; k != nil && k.Revisions != nil && i.Namespace != k.Namespace {
		return d.AsRevision()
	}
	return d, nil
}

// isRevision reports whether an installation is a different revision of the same mesh.
func (i *instance) isRevision(o Installation) bool {
	return i.k.Revision != "" && !o.is(i.definition) && cmp.Or(o.From, o.Mesh) == cmp.Or(i.definition.From, i.definition.Name)
}

// shared reports whether all revisions of the mesh use a release.
func (i *instance) shared(release string) bool {
	return i.k.Revisions != nil && slices.Contains(i.k.Revisions.Shared, release)
}

// hasVersion reports whether the mesh or one of its charts has a version; empty: any.
func (i Installation) hasVersion(version string) bool {
	return version == "" || i.Version == version || slices.ContainsFunc(i.Charts, func(c InstalledChart) bool { return c.Version == version })
}

// Settings are those of the installation.
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

// installed returns the record of this mesh; false if tare has not installed it.
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
