package meshes

import (
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

// What an installation is noted in: a config map in the mesh's namespace.
const (
	recordName    = "tare-mesh"
	recordKey     = "installation.json"
	annotationRun = "tare.dev/for-run" // of the namespace: the run that installed it
)

// Installation is what a mesh came to be in a cluster.
type Installation struct {
	Mesh      string            `json:"mesh"`
	Version   string            `json:"version"` // as found: that of the charts, or what the mesh's own program says
	Profile   string            `json:"profile,omitempty"`
	Options   map[string]string `json:"options,omitempty"`
	Hub       string            `json:"hub,omitempty"`
	Namespace string            `json:"namespace,omitempty"`
	Charts    []InstalledChart  `json:"charts,omitempty"`
	Program   string            `json:"program,omitempty"` // the mesh's own that installed it, with its version
	CRDs      []string          `json:"crds,omitempty"`    // put there beside the charts' own
	Networks  []string          `json:"networks,omitempty"`
	// Run that it was installed for, and the process; empty: for good.
	Run   string        `json:"run,omitempty"`
	Owner cluster.Owner `json:"owner,omitzero"`
}

// InstalledChart is one release.
type InstalledChart struct {
	Release    string `json:"release"`
	Namespace  string `json:"namespace"`
	Chart      string `json:"chart"`
	Version    string `json:"version"`
	AppVersion string `json:"appVersion,omitempty"`
}

// Abandoned says that a run installed it which is dead.
func (i Installation) Abandoned() bool { return i.Run != "" && i.Owner.State() == cluster.Dead }

// Installed lists the meshes that tare has put into the cluster, by name. One whose installation was cut short has no
// version.
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
					return fmt.Errorf("read what is noted of mesh %s: %w", i.Mesh, err)
				}
			}
			i.Run = ns.Annotations[annotationRun]
			if text := ns.Annotations[cluster.AnnotationOwner]; text != "" {
				if err := json.Unmarshal([]byte(text), &i.Owner); err != nil {
					return fmt.Errorf("read who installed mesh %s: %w", i.Mesh, err)
				}
			}
			all = append(all, i)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b Installation) int { return strings.Compare(a.Mesh, b.Mesh) })
	return all, err
}

// note writes down what was installed.
func (m *Mesh) note(ctx context.Context, i Installation) error {
	text, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("note the installation: %w", err)
	}
	if err := m.archive("installation.json", text); err != nil {
		return err
	}
	return m.cluster.Apply(ctx, m.stamp(), &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: m.k.Namespace, Name: recordName},
		Data:       map[string]string{recordKey: string(text)},
	})
}

// found is what is noted of this mesh; false where it is not installed by tare.
func (m *Mesh) found(ctx context.Context) (Installation, bool, error) {
	all, err := Installed(ctx, m.cluster)
	for _, i := range all {
		if i.Mesh == m.definition.Name && i.Namespace == m.k.Namespace {
			return i, true, err
		}
	}
	return Installation{}, false, err
}

func (m *Mesh) installation(networks []string) Installation {
	return Installation{Mesh: m.definition.Name, Profile: m.settings.Profile, Options: m.settings.Options, Hub: m.settings.Hub,
		Namespace: m.k.Namespace, Networks: networks, Run: m.o.Run, Version: m.settings.Version}
}

// Settings are those that an installation was made with.
func (i Installation) Settings() mesh.Settings {
	return mesh.Settings{Profile: i.Profile, Options: i.Options, Hub: i.Hub}
}
