package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/kube/guard"
	"github.com/tare-mesh/tare/internal/kube/rbac"
	"github.com/tare-mesh/tare/internal/run/platform/kube"
)

// examinedCluster is what the checks of a cluster look at.
type examinedCluster struct {
	cli       *cli
	k         *cluster.Cluster
	x         *experiment.Experiment
	nodes     []corev1.Node
	forbidden error // why the nodes cannot be seen
}

// clusterChecks in the order in which they are printed.
var clusterChecks = []struct {
	description string
	hint        string
	look        func(context.Context, *examinedCluster) finding
}{
	{"use", "", lookUse},
	{"rights", "`tare cluster rbac` prints the manifest that grants them", lookRights},
	{"nodes", "", lookNodes},
	{"placement", "kubectl label node NODE " + kube.LabelRole + "=" + kube.RoleApplication + " (three of them), and " + kube.LabelRole + "=" + kube.RoleLoad + " for the load", lookPlacement},
	{"image", "`tare image load` puts it onto the nodes", lookImage},
	{"meter of the cluster", "", lookClusterMeter},
}

// clusterFindings are a line for each thing about the cluster that an experiment names.
func (c *cli) clusterFindings(ctx context.Context, x *experiment.Experiment) []row {
	ctx, cancel := context.WithTimeout(ctx, askCluster)
	defer cancel()
	k, err := cluster.Connect(ctx, cluster.Options{Kubeconfig: x.Platform.Kubeconfig, Context: x.Platform.Context})
	if err != nil {
		return []row{{"cluster", finding{broken, err.Error(), hintOf(err)}}}
	}
	e := &examinedCluster{cli: c, k: k, x: x}
	version, err := k.Version(ctx)
	if err != nil {
		return []row{{"cluster", finding{broken, err.Error(), hintOf(err)}}}
	}
	rows := []row{{"cluster", finding{detail: k.Name() + ", Kubernetes " + version}}}
	e.forbidden = k.Retry(ctx, "list nodes", func(ctx context.Context) error {
		list, err := k.Typed().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err == nil {
			e.nodes = list.Items
		}
		return err
	})
	for _, check := range clusterChecks {
		f := check.look(ctx, e)
		if f.hint == "" {
			f.hint = check.hint
		}
		rows = append(rows, row{check.description, f})
	}
	return rows
}

// lookUse says whether a run would be refused because others use the cluster.
func lookUse(ctx context.Context, e *examinedCluster) finding {
	err := guard.New(e.k).Check(ctx)
	var inUse *guard.InUse
	allowed := e.x.Platform.InUse == "allow"
	switch {
	case err == nil:
		return finding{detail: "marked as disposable, and nothing foreign runs on it"}
	case allowed && errors.As(err, &inUse) && len(inUse.Workloads) == 0:
		return finding{detail: "not marked as disposable, which platform.inUse allows; nothing foreign runs on it"}
	case allowed:
		return finding{noisy, err.Error(), "what else runs there is measured with it"}
	}
	return finding{broken, err.Error(), hintOf(err)}
}

// withoutRun is what [rbac.Permission.Without] says where nothing can be done without the right.
const withoutRun = rbac.NoRun

func lookRights(ctx context.Context, e *examinedCluster) finding {
	missing, err := rbac.Missing(ctx, e.k, e.x.Platform.Namespace)
	if err != nil {
		return finding{broken, err.Error(), hintOf(err)}
	}
	if len(missing) == 0 {
		where := "in the cluster"
		if e.x.Platform.Namespace != "" {
			where = "in namespace " + e.x.Platform.Namespace
		}
		return finding{detail: "all that a run needs " + where}
	}
	f := finding{verdict: noisy}
	var all []string
	for _, r := range missing {
		if r.Without == withoutRun || slices.Contains(r.Resources, "namespaces") {
			f.verdict = broken
		}
		all = append(all, fmt.Sprintf("%s %s (%s)", strings.Join(r.Verbs, ", "), strings.Join(r.Resources, ", "), r.Without))
	}
	f.detail = "missing: " + strings.Join(all, "; ")
	return f
}

func lookNodes(_ context.Context, e *examinedCluster) finding {
	if e.forbidden != nil {
		return finding{noisy, e.forbidden.Error(), hintOf(e.forbidden)}
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
	f := finding{detail: strings.Join(all, ", ")}
	switch {
	case ready == 0:
		f.verdict, f.detail = broken, cmp.Or(f.detail, "there are none")
	case cores < fewProcessors:
		f.verdict, f.hint = noisy, "load generator, application and proxy have to share: lower the rate, and run more blocks"
	}
	return f
}

// lookPlacement says whether there are nodes for application and load, where they go by labels.
func lookPlacement(_ context.Context, e *examinedCluster) finding {
	if e.x.Platform.Affinity != kube.AffinityLabels {
		return finding{detail: "platform.affinity: " + cmp.Or(e.x.Platform.Affinity, "auto")}
	}
	if e.forbidden != nil {
		return finding{verdict: noisy, detail: "the labels of nodes cannot be seen"}
	}
	if err := kube.Labelled(kube.Described(e.nodes), e.x.Outside()); err != nil {
		return finding{verdict: broken, detail: err.Error()}
	}
	return finding{detail: "nodes are labelled for application and load"}
}

// lookImage says whether nodes have an image that they cannot pull. A node tells of its fifty largest.
func lookImage(_ context.Context, e *examinedCluster) finding {
	name := cmp.Or(e.x.Platform.Image, defaultImage())
	if !kube.OnlyLoaded(name) {
		return finding{detail: name + ", which the nodes pull where they have it not"}
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
		return finding{detail: name + "; whether the nodes have it cannot be seen"}
	case len(without) > 0:
		return finding{verdict: noisy, detail: fmt.Sprintf("%s was not seen on %s, which says within a minute what it has", name, strings.Join(without, ", "))}
	}
	return finding{detail: name + ", on every node"}
}

func lookClusterMeter(ctx context.Context, e *examinedCluster) finding {
	m, err := e.cli.catalog.openMeter(ctx, e.k, e.x.Platform)
	switch {
	case err != nil:
		return finding{broken, err.Error(), hintOf(err)}
	case m.note != "":
		return finding{noisy, m.note, ""}
	}
	return finding{detail: m.name + " answers"}
}
