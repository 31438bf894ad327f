// Package leftover finds and deletes the objects that runs have in a cluster.
package leftover

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/internal/inplace"
	"github.com/tare-mesh/tare/kube/internal/rbac"
)

// restoreWithin bounds putting applications back after deletions that used up the time.
const restoreWithin = 5 * time.Minute

// Run is one run's objects in a cluster.
type Run struct {
	ID      string
	Owner   cluster.Owner
	Objects []cluster.Ref // namespaces first, as their content is deleted with them and is not listed
}

// DeleteDead deletes the objects of runs whose process on this machine has ended, in the whole cluster or one namespace
// as in [Find], and returns these runs. Other runs are left alone. What cannot be listed is reported.
func DeleteDead(ctx context.Context, c *cluster.Cluster, namespace string, report func(string)) ([]Run, error) {
	all, err := Find(ctx, c, namespace)
	if err != nil && report != nil {
		report("search for leftovers of earlier runs: " + err.Error())
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("delete leftovers of earlier runs: %w", ctx.Err())
	}
	dead := slices.DeleteFunc(all, func(r Run) bool { return r.State() != cluster.Dead })
	return dead, Delete(ctx, c, report, dead...)
}

// Remaining lists the objects that runs still have in a cluster or namespace, as in [Find].
func Remaining(ctx context.Context, c *cluster.Cluster, namespace string, runs ...Run) ([]cluster.Ref, error) {
	all, err := Find(ctx, c, namespace)
	var left []cluster.Ref
	for _, found := range all {
		if slices.ContainsFunc(runs, func(r Run) bool { return r.ID == found.ID }) {
			left = append(left, found.Objects...)
		}
	}
	return left, err
}

// Find lists the objects of all runs, running ones included. It searches namespaces, objects without a namespace, and
// objects in namespaces that are not tare's. If namespace is not empty, it searches there only, for the kinds that a
// run creates in an existing namespace. What cannot be listed is in the error (kinds without permission in a
// [*cluster.Unlisted]), beside the runs found.
func Find(ctx context.Context, c *cluster.Cluster, namespace string) ([]Run, error) {
	q := cluster.Query{Selector: cluster.LabelRun, Namespace: namespace}
	if namespace != "" {
		q.Kinds = rbac.CreatesInNamespace
	}
	objects, err := c.Objects(ctx, q)
	return byRun(objects), err
}

// byRun groups objects by run, without those in a run's own namespace or with an owner reference.
func byRun(objects []cluster.Object) []Run {
	slices.SortStableFunc(objects, func(a, b cluster.Object) int { return cmp.Compare(rank(a), rank(b)) })
	runs := map[string]*Run{}
	ours := map[string]bool{} // namespaces
	for _, o := range objects {
		if o.Kind == cluster.KindNamespace {
			ours[o.Name] = true
		}
		if ours[o.Namespace] || o.Owned {
			continue
		}
		id := o.Labels[cluster.LabelRun]
		if runs[id] == nil {
			runs[id] = &Run{ID: id}
		}
		runs[id].add(o)
	}
	return lists.Map(slices.Sorted(maps.Keys(runs)), func(id string) Run { return *runs[id] })
}

// rank orders objects: namespaces, others without a namespace, then objects in namespaces.
func rank(o cluster.Object) int {
	switch {
	case o.Kind == cluster.KindNamespace:
		return 0
	case o.Namespace == "":
		return 1
	}
	return 2
}

// add adds an object. The objects of a resumed run have several owners. The one most likely alive counts.
func (r *Run) add(o cluster.Object) {
	r.Objects = append(r.Objects, o.Ref)
	var owner cluster.Owner
	if json.Unmarshal([]byte(o.Annotations[cluster.AnnotationOwner]), &owner) != nil {
		owner = cluster.Owner{}
	}
	order := []cluster.State{cluster.Alive, cluster.Elsewhere, cluster.Dead, cluster.Unmarked}
	if len(r.Objects) == 1 || slices.Index(order, owner.State()) < slices.Index(order, r.Owner.State()) {
		r.Owner = owner
	}
}

// State is the state of the run's process, as far as it is visible from here.
func (r Run) State() cluster.State { return r.Owner.State() }

// Delete deletes the objects of runs in any state, waits until they are gone, and then puts back applications that were
// measured in place.
func Delete(ctx context.Context, c *cluster.Cluster, report func(string), runs ...Run) error {
	var refs []cluster.Ref
	for _, r := range runs {
		refs = append(refs, slices.DeleteFunc(slices.Clone(r.Objects), inplace.IsState)...)
	}
	err := c.Delete(ctx, report, refs...)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) { // an object that is not deleted must not keep an application changed
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), restoreWithin)
		defer cancel()
	}
	for _, r := range runs {
		for _, namespace := range r.InPlace() {
			err = errors.Join(err, inplace.Restore(ctx, c, namespace, inplace.Report{Notice: report, Progress: report}))
		}
	}
	return hint.Prefix(err, "delete leftovers of earlier runs")
}

// InPlace are the namespaces of applications that the run measured in place. Deleting its objects puts them back.
func (r Run) InPlace() (namespaces []string) {
	for _, o := range r.Objects {
		if inplace.IsState(o) {
			namespaces = append(namespaces, o.Namespace)
		}
	}
	return namespaces
}
