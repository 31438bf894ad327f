package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
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

// onCluster reports whether the application is one on a cluster.
func (o weighOptions) onCluster() bool { return o.namespace != "" || len(o.manifests) > 0 }

// fileOnCluster is the experiment of an application on a cluster.
func (o weighOptions) fileOnCluster(args []string) (*weighFile, error) {
	switch {
	case o.inPlace && o.namespace == "":
		return nil, hint.Usage(errors.New("--in-place without --namespace"), "name the namespace where the application runs")
	case o.yes && !o.inPlace:
		return nil, hint.Usage(errors.New("--yes without --in-place"), "only --in-place asks for confirmation")
	case len(args) > 0 || o.url != "":
		return nil, hint.Usage(errors.New("both a program and an application on a cluster"), "remove one of the two")
	case o.namespace != "" && len(o.manifests) > 0:
		return nil, hint.Usage(errors.New("both --namespace and --manifests"), "remove one of the two")
	case o.ready != "":
		return nil, hint.Usage(errors.New("--ready is for a program on this machine"), "pods have readiness probes of their own")
	case o.rate < 0:
		return nil, hint.Usage(fmt.Errorf("--rate %v is negative", o.rate), "leave it out for the default")
	case slices.Equal(o.meshes, []string{"none"}):
		return nil, hint.Usage(errors.New("--mesh none is the baseline"), "name the mesh to compare with it, such as istio")
	}
	w := &weighFile{APIVersion: experiment.APIVersion, Kind: experiment.Kind, Blocks: minWeighBlocks, Control: true,
		Platform:    weighPlatform{Kind: mesh.OnKubernetes, Kubeconfig: o.kubeconfig, Context: o.context, Image: o.image},
		Application: weighApplication{Namespace: o.namespace, InPlace: o.inPlace, Entry: o.entry},
		Phases:      weighPhases{experiment.Duration(weighClusterWarmup), experiment.Duration(weighClusterMeasure), experiment.Duration(weighDrain)},
		Factors:     weighFactors{Mesh: []string{"none"}, Rate: []float64{cmp.Or(o.rate, weighClusterRate)}, Connections: []int{o.connections}}}
	if o.inUse {
		w.Platform.InUse = "allow"
	}
	for _, path := range o.manifests {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", path, err)
		}
		w.Application.Manifests = append(w.Application.Manifests, abs)
	}
	if o.protocol != app.HTTP1 {
		w.Factors.Protocol = []string{o.protocol}
	}
	if o.path != "" {
		w.Factors.Route = []string{o.path}
	}
	if err := errors.Join(w.addHeaders(o.headers), w.addMeshes(o.meshes)); err != nil {
		return nil, err
	}
	if err := w.choose(o); err != nil {
		return nil, err
	}
	name := cmp.Or(o.namespace, o.entry, "manifests")
	w.Metadata.Name = label("weigh-" + name)
	return w, nil
}

// choose sets the charts of the meshes.
func (w *weighFile) choose(o weighOptions) error {
	m := weighMesh{Version: o.version}
	if o.charts != "" {
		abs, err := filepath.Abs(o.charts)
		if err != nil {
			return fmt.Errorf("find %s: %w", o.charts, err)
		}
		m.Charts = abs
	}
	for _, text := range o.options {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return hint.Usage(fmt.Errorf("--option %s is not name=value", text), "`tare list meshes` prints the options of each mesh")
		}
		if m.Options == nil {
			m.Options = map[string]string{}
		}
		m.Options[name] = value
	}
	if m.Version == "" && m.Charts == "" && m.Options == nil {
		return nil
	}
	w.Meshes = map[string]weighMesh{}
	for _, name := range w.Factors.Mesh {
		if name != "none" {
			w.Meshes[name] = m
		}
	}
	return nil
}

// weighCopy writes the experiment file of an application on a cluster, runs it and prints the answer.
func (c weigher) weighCopy(ctx context.Context, w *weighFile, o weighOptions) error {
	study, out, path, err := c.begin(w, o)
	if err != nil {
		return err
	}
	if err := study.checkSource(); err != nil {
		return err
	}
	if o.inPlace {
		fmt.Fprint(c.Err, study.sourceText())
		if err := c.Confirm(fmt.Sprintf("restart the workloads of namespace %s, several times", o.namespace), o.yes); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w.Blocks = min(maxWeighBlocks, max(minWeighBlocks, int(o.time/study.Plan.TrialTime)/len(study.Plan.Treatments)))
	if study, err = c.keepFile(w, path); err != nil {
		return err
	}
	study.trialTimes = study.readTrialTimes(filepath.Dir(out))
	c.Notef("measuring at %v requests/s on %s: %s, about %v", w.Factors.Rate[0], printable.Counted(o.connections, "connection"), printable.Counted(w.Blocks, "block"), study.expected().Round(time.Minute))
	err = runCommand(c).run(ctx, path, runOptions{ExperimentOptions: ExperimentOptions{Meshes: w.definitions}, out: out, plain: o.plain, report: defaultReport(), finish: c.answer, sourceShown: o.inPlace})
	fmt.Fprintf(c.Err, "Experiment file for later runs: %s\n", path)
	return err
}
