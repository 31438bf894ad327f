package session

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Phases of tare weigh on a cluster, where each trial is deployed alone.
const (
	weighClusterWarmup  = 5 * time.Second
	weighClusterMeasure = 20 * time.Second
	weighClusterRate    = 50
)

func (o Weigh) fileOnCluster(args []string) (*weighFile, error) {
	switch {
	case o.InPlace && o.Namespace == "":
		return nil, hint.Usage(errors.New("--in-place without --namespace"), "name the namespace where the application runs")
	case o.Yes && !o.InPlace:
		return nil, hint.Usage(errors.New("--yes without --in-place"), "only --in-place asks for confirmation")
	case len(args) > 0 || o.URL != "":
		return nil, hint.Usage(errors.New("both a program and an application on a cluster"), "remove one of the two")
	case o.Namespace != "" && len(o.Manifests) > 0:
		return nil, hint.Usage(errors.New("both --namespace and --manifests"), "remove one of the two")
	case len(o.Sidecars) > 0:
		return nil, hint.Usage(errors.New("--sidecar is for a program on this machine"), "name a mesh of the cluster with --mesh")
	case o.changesProgram():
		return nil, hint.Usage(errors.New("--env, --prefix and --beside are for a program on this machine"), "on a cluster write an experiment file, whose applications have patches, images or values")
	case o.TLS:
		return nil, hint.Usage(errors.New("--tls is for a program on this machine"), "on a cluster, name a port of plain HTTP with --entry")
	case o.Ready != "":
		return nil, hint.Usage(errors.New("--ready is for a program on this machine"), "pods have readiness probes of their own")
	case !(o.Rate >= 0) || math.IsInf(o.Rate, 0): // NaN is neither
		return nil, hint.Usage(fmt.Errorf("--rate is %v", o.Rate), "leave it out for the default")
	case slices.Equal(o.Meshes, []string{"none"}):
		return nil, hint.Usage(errors.New("--mesh none is the baseline"), "name the mesh to compare with it, such as istio")
	}
	w := &weighFile{APIVersion: experiment.APIVersion, Kind: experiment.Kind, Blocks: repeated(minWeighBlocks), Control: true,
		Platform:    weighPlatform{Kind: mesh.OnKubernetes, Kubeconfig: o.Kubeconfig, Context: o.Context, Image: o.Image},
		Application: weighApplication{Namespace: o.Namespace, InPlace: o.InPlace, Entry: o.Entry},
		Phases:      weighPhases{Warmup: experiment.Duration(weighClusterWarmup), Measure: experiment.Duration(weighClusterMeasure), Drain: experiment.Duration(weighDrain)},
		Factors:     weighFactors{Mesh: []string{"none"}, Rate: []float64{cmp.Or(o.Rate, weighClusterRate)}, Connections: []int{o.Connections}}}
	if o.InUse {
		w.Platform.InUse = "allow"
	}
	for _, path := range o.Manifests {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", path, err)
		}
		w.Application.Manifests = append(w.Application.Manifests, abs)
	}
	if o.Protocol != app.HTTP1 {
		w.Factors.Protocol = []string{o.Protocol}
	}
	var invalid error
	w.Load, w.Factors.Route, invalid = o.load(o.Protocol)
	if err := errors.Join(invalid, w.addMeshes(o.Meshes)); err != nil {
		return nil, err
	}
	if err := w.choose(o); err != nil {
		return nil, err
	}
	name := cmp.Or(o.Namespace, o.Entry, "manifests")
	w.Metadata.Name = label("weigh-" + name)
	return w, nil
}

func (w *weighFile) choose(o Weigh) error {
	m := weighMesh{Version: o.Version}
	if o.Charts != "" {
		abs, err := filepath.Abs(o.Charts)
		if err != nil {
			return fmt.Errorf("find %s: %w", o.Charts, err)
		}
		m.Charts = abs
	}
	for _, text := range o.Options {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return hint.Usage(fmt.Errorf("--option %s is not name=value", text), "`tare list options` prints the options of each mesh")
		}
		if m.Options == nil {
			m.Options = map[string]string{}
		}
		m.Options[name] = value
	}
	if m.Version == "" && m.Charts == "" && m.Options == nil {
		return nil
	}
	if w.Meshes == nil {
		w.Meshes = map[string]weighMesh{}
	}
	for _, name := range w.Factors.Mesh {
		of := w.Meshes[name]
		if name == "none" || of.Sidecar != nil || of.Gateway != nil && of.From == "" {
			continue
		}
		of.Version, of.Charts = m.Version, m.Charts
		if of.Options == nil {
			of.Options = map[string]string{}
		}
		maps.Copy(of.Options, m.Options)
		w.Meshes[name] = of
	}
	return nil
}
