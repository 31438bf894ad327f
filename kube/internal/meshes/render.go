package meshes

import (
	"bytes"
	"context"
	"fmt"

	"github.com/tare-mesh/tare/kube/internal/chart"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// recordSteps records what Install would do, in a dry run. If a chart is not available, the record contains the error.
func (n *installer) recordSteps(ctx context.Context) error {
	if !n.installable() {
		return nil
	}
	recorder := n.cluster.Recorder()
	recorder.Add(cluster.Step{Command: []string{"tare", "mesh", "install", n.definition.Name}})
	if err := n.createNamespace(ctx); err != nil {
		return err
	}
	for _, c := range n.crds() {
		for _, f := range c.Files {
			recorder.Kubectl("apply", "--server-side", "-f", f.URL)
		}
	}
	all, err := n.render(ctx)
	if err != nil {
		recorder.Add(cluster.Step{Unknown: err, Manifest: &cluster.Manifest{YAML: fmt.Appendf(nil, "# The charts of mesh %s cannot be rendered here: %v\n", n.definition.Name, err)}})
		return nil
	}
	if o := n.k.Published; o != nil {
		if r, ok := all[o.Name]; ok {
			recorder.Manifest(cluster.Manifest{YAML: []byte(r.Manifest)}, "apply", "--server-side", "-f", "-")
		} else {
			for _, f := range o.Files {
				recorder.Kubectl("apply", "--server-side", "-f", f.URL)
			}
		}
	}
	for _, c := range n.k.Charts {
		r, ok := all[c.Release]
		if !ok {
			continue
		}
		head := fmt.Sprintf("# chart %s %s as %s/%s\n", r.Chart, r.Version, r.Namespace, r.Name)
		recorder.Manifest(cluster.Manifest{YAML: []byte(head + r.Manifest)}, "apply", "--server-side", "-n", r.Namespace, "-f", "-")
	}
	return n.applyManifests(ctx, n.k.InstallContext(n.settings))
}

// render implements [Mesh.Rendered].
func (n *installer) render(ctx context.Context) (map[string]chart.Installed, error) {
	info := clusterInfo{networks: privateNetworks()}
	if n.cluster != nil && !n.cluster.DryRun() {
		var err error
		if info, err = readClusterInfo(ctx, n.cluster, n.options.ServiceCIDR); err != nil {
			return nil, n.failed("render", err)
		}
	}
	in, err := n.templateValues(info)
	if err != nil {
		return nil, n.failed("render", err)
	}
	releases, err := n.k.Releases(n.settings, in)
	if err != nil {
		return nil, n.failed("render", err)
	}
	all := map[string]chart.Installed{}
	if o := n.k.Published; o != nil && n.sources.dir != "" {
		files, err := n.sources.localManifests(o.Name)
		if err != nil {
			return nil, n.failed("render", err)
		}
		text, err := redacted(bytes.Join(files, []byte("\n---\n")))
		if err != nil {
			return nil, n.failed("render", err)
		}
		all[o.Name] = chart.Installed{Name: o.Name, Namespace: n.k.Namespace, Manifest: string(text)}
	}
	for _, r := range releases {
		from, err := n.sources.chart(r)
		if err != nil {
			return nil, n.failed("render", err)
		}
		rendered, err := n.helm().Render(ctx, n.release(r, from))
		if err != nil {
			return nil, n.failed("render", err)
		}
		text, err := redacted([]byte(rendered.Manifest))
		if err != nil {
			return nil, n.failed("render", err)
		}
		rendered.Manifest = string(text)
		all[r.Release] = rendered
	}
	return all, nil
}
