package kube

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/kube/internal/chart"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

const (
	defaultRelease = "app"
	// defaultForeignPort is the port of an entry whose port is not in the file.
	defaultForeignPort = 80
)

// helmRelease is an application that is installed from a chart.
type helmRelease struct {
	*trial
	archive archive
	helm    *chart.Helm // nil before install
	release chart.Release
}

// install installs the application's chart. The objects are checked, labelled and archived as they are rendered with the
// capabilities of the cluster, before the first is applied.
func (h *helmRelease) install(ctx context.Context) error {
	if err := h.checkForeign(); err != nil {
		return err
	}
	c := h.spec.Topology.Chart
	spread := h.nodes.schedulable() > 1 && h.options.Affinity != affinityNone
	values, err := c.ValuesFor(max(1, h.spec.Treatment.Levels.Replicas), spread, h.spec.Topology.Changes.Values)
	if err != nil {
		return err
	}
	h.helm = chart.New(h.cluster, h.options.ChartCache)
	h.release = chart.Release{
		Name: cmp.Or(c.Release, defaultRelease), Namespace: h.namespace, Values: values,
		Source: chart.Source{Chart: c.Chart, Repo: c.Repo, Version: c.Version},
	}
	editor := &chartEditor{objectEditor: newObjectEditor(ctx, h.trial, "disable it in application.chart.values"),
		keep: func(c chart.Installed, applied []byte) error { return h.save(c, applied, values) }}
	h.release.Editor = editor
	if h.cluster.DryRun() {
		rendered, err := h.helm.Render(ctx, h.release)
		if err != nil {
			return err
		}
		for _, text := range []string{editor.hooks.String(), rendered.Manifest} {
			if text != "" {
				h.cluster.Recorder().Manifest(cluster.Manifest{Ref: h.namespaceRef(), YAML: []byte(text)}, "apply", "-n", h.namespace, "-f", "-")
			}
		}
	} else if _, err = h.helm.Install(ctx, h.release); err != nil {
		return err
	}
	h.foreign = editor.found
	return nil
}

// save archives the objects that are applied, and the chart's values.
func (h *helmRelease) save(c chart.Installed, applied []byte, values map[string]any) error {
	text, err := yaml.Marshal(values)
	if err != nil {
		return fmt.Errorf("keep the chart's values: %w", err)
	}
	head := fmt.Sprintf("# chart %s %s, application %s\n", c.Chart, c.Version, c.AppVersion)
	for name, content := range map[string][]byte{valuesFile: text, chartFile: bytes.TrimSpace(applied)} {
		if err := h.archive.Write(name, slices.Concat([]byte(head), content, []byte("\n"))); err != nil {
			return fmt.Errorf("keep the chart: %w", err)
		}
	}
	return nil
}

// uninstall uninstalls the release. Its other objects are deleted with the namespace.
func (h *helmRelease) uninstall(ctx context.Context) error {
	if h.helm == nil || h.cluster.DryRun() {
		return nil
	}
	return h.helm.Uninstall(ctx, h.namespace, h.release.Name)
}
