package kubecli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/cli/health"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/guard"
	"github.com/tare-mesh/tare/kube/internal/platform/kube"
	"github.com/tare-mesh/tare/kube/internal/rbac"
	"github.com/tare-mesh/tare/kube/internal/session/kubernetes"
)

type examinedCluster struct {
	k *cluster.Cluster
	x *experiment.Experiment
	// needed derives the permissions of the experiment. Nil means the permissions that every run needs.
	needed    func(context.Context) ([]rbac.Permission, error)
	nodes     []corev1.Node
	forbidden error // error of listing nodes
}

// clusterChecks in the order in which they are printed.
var clusterChecks = []struct {
	name string
	hint string
	look func(context.Context, *examinedCluster) health.Finding
}{
	{"use", "", lookUse},
	{"RBAC permissions", "`tare cluster rbac --for FILE` prints the manifest that grants them", lookPermissions},
	{"nodes", "", lookNodes},
	{"placement", "kubectl label node NODE " + kube.LabelRole + "=" + kube.RoleApplication + " (three of them), and " + kube.LabelRole + "=" + kube.RoleLoad + " for the load", lookPlacement},
	{"image", "`tare cluster image load` puts it onto the nodes", lookImage},
	{"meter of the cluster", "", lookClusterMeter},
}

// examine returns a line for each part of the cluster that an experiment names.
func examine(ctx context.Context, s *session.Study) []health.Row {
	x := s.Experiment
	ctx, cancel := context.WithTimeout(ctx, askCluster)
	defer cancel()
	k, err := cluster.Connect(ctx, cluster.Options{Kubeconfig: x.Platform.Kubeconfig, Context: x.Platform.Context})
	version := ""
	if err == nil {
		version, err = k.Version(ctx)
	}
	if err != nil {
		return []health.Row{{Name: "cluster", Finding: health.Finding{Verdict: health.Fail, Detail: err.Error(), Hint: hint.Of(err)}}}
	}
	e := &examinedCluster{k: k, x: x, needed: func(ctx context.Context) ([]rbac.Permission, error) { return kubernetes.Permissions(ctx, s) }}
	rows := []health.Row{{Name: "cluster", Finding: health.Finding{Detail: k.Name() + ", Kubernetes " + version}}}
	e.forbidden = k.Retry(ctx, "list nodes", func(ctx context.Context) error {
		list, err := k.Typed().CoreV1().Nodes().List(ctx, cluster.RealNodes())
		if err == nil {
			e.nodes = list.Items
		}
		return err
	})
	for _, d := range clusterChecks {
		f := d.look(ctx, e)
		f.Hint = cmp.Or(f.Hint, d.hint)
		rows = append(rows, health.Row{Name: d.name, Finding: f})
	}
	return rows
}

// lookUse checks whether a run is refused because others use the cluster.
func lookUse(ctx context.Context, e *examinedCluster) health.Finding {
	err := guard.New(e.k).Check(ctx)
	var inUse *guard.InUse
	allowed := e.x.Platform.InUse == "allow"
	switch {
	case errors.Is(err, guard.ErrHeld):
		return health.Finding{Verdict: health.Fail, Detail: err.Error(), Hint: hint.Of(err)}
	case err == nil:
		return health.Finding{Detail: "marked as disposable, and no other workloads run on it"}
	case allowed && errors.As(err, &inUse) && len(inUse.Workloads) == 0:
		return health.Finding{Detail: "not marked as disposable, which platform.inUse allows; no other workloads run on it"}
	case allowed:
		return health.Finding{Verdict: health.Warn, Detail: err.Error(), Hint: "other workloads there are measured too"}
	}
	return health.Finding{Verdict: health.Fail, Detail: err.Error(), Hint: hint.Of(err)}
}

func lookPermissions(ctx context.Context, e *examinedCluster) health.Finding {
	needed, err := e.needed(ctx)
	if err != nil {
		return health.Finding{Verdict: health.Warn, Detail: "those of this experiment are unknown: " + err.Error(), Hint: hint.Of(err)}
	}
	missing, err := rbac.MissingOf(ctx, e.k, needed)
	if err != nil {
		return health.Finding{Verdict: health.Fail, Detail: err.Error(), Hint: hint.Of(err)}
	}
	if len(missing) == 0 {
		return health.Finding{Detail: fmt.Sprintf("none of the %d that this experiment needs is missing", len(needed))}
	}
	f := health.Finding{Verdict: health.Warn}
	var all []string
	for _, r := range missing {
		if r.Without == "" || r.Without == rbac.NoRun || slices.Contains(r.Resources, "namespaces") {
			f.Verdict = health.Fail
		}
		all = append(all, fmt.Sprintf("%s (%s)", r, cmp.Or(r.Without, r.For)))
	}
	const shown = 6
	if more := len(all) - shown; more > 0 {
		all = append(all[:shown], fmt.Sprintf("%d more", more))
	}
	f.Detail = "missing: " + strings.Join(all, "; ")
	return f
}

func lookNodes(_ context.Context, e *examinedCluster) health.Finding {
	if e.forbidden != nil {
		return health.Finding{Verdict: health.Warn, Detail: e.forbidden.Error(), Hint: hint.Of(e.forbidden)}
	}
	var all []string
	cores, ready := 0.0, 0
	for _, n := range e.nodes {
		what := fmt.Sprintf("%s (%s CPU, %s for pods)", n.Name, n.Status.Allocatable.Cpu(), n.Status.Allocatable.Memory())
		if cluster.TakesPods(n) {
			ready++
			cores += n.Status.Allocatable.Cpu().AsApproximateFloat64()
		} else {
			what += " takes no pods"
		}
		all = append(all, what)
	}
	f := health.Finding{Detail: strings.Join(all, ", ")}
	switch {
	case ready == 0:
		f.Verdict, f.Detail = health.Fail, cmp.Or(f.Detail, "there are none")
	case cores < health.FewProcessors:
		f.Verdict, f.Hint = health.Warn, "load generator, application and proxy share CPUs: lower the rate, and run more blocks"
	}
	return f
}

// lookPlacement checks the node labels for application and load.
func lookPlacement(_ context.Context, e *examinedCluster) health.Finding {
	if e.x.Platform.Affinity != kube.AffinityLabels {
		return health.Finding{Detail: "platform.affinity: " + cmp.Or(e.x.Platform.Affinity, "auto")}
	}
	if e.forbidden != nil {
		return health.Finding{Verdict: health.Warn, Detail: "the labels of nodes cannot be seen"}
	}
	if err := kube.CheckLabels(kube.NodesFrom(e.nodes), e.x.Outside()); err != nil {
		return health.Finding{Verdict: health.Fail, Detail: err.Error()}
	}
	return health.Finding{Detail: "nodes are labelled for application and load"}
}

// lookImage checks that nodes have an image that they cannot pull. A node reports its fifty largest images.
func lookImage(_ context.Context, e *examinedCluster) health.Finding {
	name := cmp.Or(e.x.Platform.Image, kubernetes.DefaultImage(console.Version()))
	if !kube.NeverPulled(name) {
		return health.Finding{Detail: name + ", pulled by nodes without it"}
	}
	var without []string
	for _, n := range e.nodes {
		has := slices.ContainsFunc(n.Status.Images, func(i corev1.ContainerImage) bool { return slices.Contains(i.Names, name) })
		if !has && cluster.TakesPods(n) {
			without = append(without, n.Name)
		}
	}
	switch {
	case e.forbidden != nil:
		return health.Finding{Detail: name + "; whether the nodes have it cannot be seen"}
	case len(without) > 0:
		return health.Finding{Verdict: health.Warn, Detail: fmt.Sprintf("%s is not on %s (a node reports its images once a minute)", name, strings.Join(without, ", "))}
	}
	return health.Finding{Detail: name + ", on every node"}
}

func lookClusterMeter(ctx context.Context, e *examinedCluster) health.Finding {
	p := e.x.Platform
	if e.x.ByNodeAgent() {
		p.Meter = session.MeterNodeAgent
	}
	m, err := kubernetes.OpenMeter(ctx, kubernetes.MeterSource{Cluster: e.k, Platform: p})
	switch {
	case err != nil:
		return health.Finding{Verdict: health.Fail, Detail: err.Error(), Hint: hint.Of(err)}
	case m.Agents != nil:
		return health.Finding{Detail: m.Name + ": a run may start agents"}
	}
	return health.Finding{Detail: m.Name + " answers"}
}
