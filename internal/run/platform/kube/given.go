package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tare-mesh/tare/internal/kube/cluster"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// given says that trials are made in a namespace that was there before, and stays.
func (p *Platform) given() bool { return p.options.Namespace != "" }

// sweep removes what dead runs have left. In a namespace that is given nothing of another run may stand: its services
// would have the same names.
func (p *Platform) sweep(ctx context.Context) error {
	c := p.options.Cluster
	look := c.SweepDead
	if p.given() {
		look = func(ctx context.Context, report func(string)) ([]cluster.Leftover, error) {
			return c.SweepDeadIn(ctx, p.options.Namespace, report)
		}
	}
	swept, err := look(ctx, p.options.Report)
	if err != nil {
		return err
	}
	for _, s := range swept {
		p.options.Report(fmt.Sprintf("removed what run %s had left in the cluster", s.Run))
	}
	if !p.given() {
		return nil
	}
	left, err := p.left(ctx)
	for _, l := range left {
		if l.Run != p.options.Run {
			return &Error{fmt.Errorf("namespace %s holds what run %s has put there: %s", p.options.Namespace, l.Run, refNames(l.Objects)),
				"wait until it has ended; if it has, `tare cleanup --namespace " + p.options.Namespace + " --run " + l.Run + "` removes it"}
		}
	}
	return err
}

// left is what runs have in the namespace that is given. Kinds that may not be listed there may not be made either.
func (p *Platform) left(ctx context.Context) ([]cluster.Leftover, error) {
	all, err := p.options.Cluster.LeftoversIn(ctx, p.options.Namespace)
	var hidden *cluster.Hidden
	if errors.As(err, &hidden) {
		err = nil
	}
	return all, err
}

func refNames(refs []cluster.Ref) string {
	var all []string
	for _, r := range refs {
		all = append(all, r.String())
	}
	return strings.Join(all, ", ")
}

// refusesIn says why a mesh cannot be had in a namespace that is given.
func (p *Platform) refusesIn(m mesh.Definition) error {
	if !p.given() || m.Kubernetes == nil {
		return nil
	}
	return &Error{fmt.Errorf("mesh %s marks the namespaces that it is in, and %s is given", m.Name, p.options.Namespace),
		"leave platform.namespace out: a mesh takes rights in the whole cluster"}
}

// enterGiven removes from the given namespace what an interrupted attempt of this run left there.
func (d *deployment) enterGiven(ctx context.Context) error {
	if d.cluster.DryRun() {
		return nil
	}
	left, err := d.platform.left(ctx)
	if err != nil {
		return err
	}
	for _, l := range left {
		if l.Run == d.platform.options.Run {
			return d.cluster.Delete(ctx, d.platform.options.Report, l.Objects...)
		}
	}
	return nil
}

// free refuses objects that would take the place of some that are there: in a given namespace they are somebody's.
func (d *deployment) free(ctx context.Context, objects []runtime.Object) error {
	if !d.platform.given() || d.cluster.DryRun() {
		return nil
	}
	for _, o := range objects {
		ref, err := cluster.RefOf(o)
		if err != nil {
			return err
		}
		there, err := d.cluster.Get(ctx, ref)
		switch {
		case cluster.IsNotFound(err):
		case err != nil:
			return err
		default:
			if run := there.GetLabels()[cluster.LabelRun]; run != d.platform.options.Run {
				return &Error{fmt.Errorf("make %s: it is there, and not of this run", ref), "give the run a namespace that is empty, or the service another name"}
			}
		}
	}
	return nil
}

// isOwn says that a pod is the trial's: all in a namespace of its own are, and in a given one those that carry its marks.
func (d *deployment) isOwn(pod *corev1.Pod) bool {
	return pod.Namespace == d.namespace && (!d.platform.given() || pod.Labels[cluster.LabelRun] == d.platform.options.Run)
}
