package meshes

import (
	"context"
	"fmt"

	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// recordInstall writes down, in a dry run, what Install would put into the cluster. A chart that cannot be had here is
// told of in its place.
func (m *Mesh) recordInstall(ctx context.Context) error {
	if m.nothing() {
		return nil
	}
	command := []string{"tare", "mesh", "install", m.definition.Name}
	if m.o.WithCLI {
		command = append(command, "--with-cli") // the mesh's own program prints its manifests itself
	}
	m.cluster.Recorder().Add(cluster.Step{Command: command})
	if err := m.namespace(ctx); err != nil {
		return err
	}
	for _, c := range m.crds() {
		for _, f := range c.Files {
			m.cluster.Recorder().Kubectl("apply", "--server-side", "-f", f.URL)
		}
	}
	if m.o.WithCLI {
		return nil
	}
	all, err := m.Rendered(ctx)
	if err != nil {
		m.cluster.Recorder().Add(cluster.Step{Manifest: &cluster.Manifest{YAML: fmt.Appendf(nil, "# The charts of mesh %s cannot be rendered here: %v\n", m.definition.Name, err)}})
		return nil
	}
	for _, c := range m.k.Charts {
		r, ok := all[c.Release]
		if !ok {
			continue
		}
		text, err := blotted([]byte(r.Manifest))
		if err != nil {
			return m.failed("render", err)
		}
		head := fmt.Sprintf("# chart %s %s as %s/%s\n", r.Chart, r.Version, r.Namespace, r.Name)
		m.cluster.Recorder().Manifest(cluster.Manifest{YAML: append([]byte(head), text...)}, "apply", "--server-side", "-n", r.Namespace, "-f", "-")
	}
	return nil
}

// recordUninstall writes down that it would be taken out.
func (m *Mesh) recordUninstall() {
	if !m.nothing() {
		m.cluster.Recorder().Add(cluster.Step{Command: []string{"tare", "mesh", "uninstall", m.definition.Name, "--force"}})
	}
}
