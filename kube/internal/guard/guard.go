// Package guard refuses clusters that are in use. A cluster is accepted once a
// user has marked it as disposable, and as long as it runs only workloads that
// were accepted with the mark.
package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// AnnotationDisposable on the namespace kube-system marks a cluster as disposable. Its value is a [Mark] as JSON.
const AnnotationDisposable = "tare.dev/disposable"

// Mark records who marked a cluster as disposable, and the workloads that were accepted.
type Mark struct {
	By        string     `json:"by"`
	Host      string     `json:"host"`
	Time      time.Time  `json:"time"`
	Workloads []Workload `json:"workloads,omitempty"`
}

// Guard reads and writes the mark of one cluster.
type Guard struct {
	cluster   *cluster.Cluster
	namespace string // whose annotation is the mark
}

// New returns the guard of a cluster.
func New(c *cluster.Cluster) *Guard { return &Guard{c, cluster.SystemNamespace} }

// Check refuses a cluster that is not marked as disposable, or that runs workloads which were not accepted with the
// mark: their CPU would be measured, and tare's faults would hit them. The error is an [*InUse], or a [*Held] if another
// run measures there now.
func (g *Guard) Check(ctx context.Context) error {
	if err := g.Free(ctx); err != nil {
		return err
	}
	mark, marked, err := g.Mark(ctx)
	if err != nil {
		return explained(err)
	}
	foreign, err := g.Foreign(ctx)
	if err != nil {
		return explained(err)
	}
	unknown := slices.DeleteFunc(foreign, func(w Workload) bool { return slices.ContainsFunc(mark.Workloads, w.same) })
	if marked && len(unknown) == 0 {
		return nil
	}
	return inUse(g.cluster.Name(), marked, unknown)
}

// Free refuses a cluster that another run holds, with a [*Held]. Without permission for Leases it is free as far as known.
func (g *Guard) Free(ctx context.Context) error {
	holder, held, err := g.Holder(ctx)
	if err != nil && !cluster.IsForbidden(err) {
		return err
	}
	if held {
		return heldBy(g.cluster, holder)
	}
	return nil
}

// explained adds a way out if permissions to check are missing.
func explained(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return hint.New("checking needs permission to list namespaces and pods (`tare cluster rbac`); if you are sure that the cluster is not in use, set platform.inUse: allow",
		"check whether the cluster is in use: %w", err)
}

// Mark returns the cluster's mark, or false if there is none.
func (g *Guard) Mark(ctx context.Context) (Mark, bool, error) {
	var text string
	err := g.cluster.Retry(ctx, "read the cluster's mark", func(ctx context.Context) error {
		ns, err := g.cluster.Typed().CoreV1().Namespaces().Get(ctx, g.namespace, metav1.GetOptions{})
		if err == nil {
			text = ns.Annotations[AnnotationDisposable]
		}
		return err
	})
	if err != nil || text == "" {
		return Mark{}, false, err
	}
	var m Mark
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return Mark{}, false, hint.New("`tare cluster adopt` writes a new one",
			"read the cluster's mark: annotation %s of namespace %s: %w", AnnotationDisposable, g.namespace, err)
	}
	return m, true, nil
}

// Adopt marks the cluster as disposable and accepts workloads. Show them to the user first.
func (g *Guard) Adopt(ctx context.Context, accepted []Workload) (Mark, error) {
	owner := cluster.ThisProcess()
	m := Mark{By: owner.User, Host: owner.Host, Time: time.Now().UTC().Truncate(time.Second), Workloads: accepted}
	text, err := json.Marshal(m)
	if err != nil {
		return Mark{}, fmt.Errorf("mark the cluster: %w", err)
	}
	return m, g.annotate(ctx, "mark the cluster", new(string(text)))
}

// Release removes the mark, if any.
func (g *Guard) Release(ctx context.Context) error {
	return g.annotate(ctx, "remove the cluster's mark", nil)
}

// annotate sets the annotation, or removes it if value is nil.
func (g *Guard) annotate(ctx context.Context, op string, value *string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{AnnotationDisposable: value}}})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return g.cluster.Retry(ctx, op, func(ctx context.Context) error {
		_, err := g.cluster.Typed().CoreV1().Namespaces().Patch(ctx, g.namespace, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: cluster.FieldManager})
		return err
	})
}

// InUse refuses a cluster that is, or may be, in use.
type InUse struct {
	hint.Hinted
	Cluster   string
	Marked    bool       // as disposable, before the workloads were deployed
	Workloads []Workload // of others
}

// ErrInUse is wrapped by every [InUse].
var ErrInUse = errors.New("the cluster is in use")

func inUse(name string, marked bool, workloads []Workload) *InUse {
	text := "measure on a cluster of your own; if this one is disposable, `tare cluster adopt` marks it, or set platform.inUse: allow for this experiment"
	if len(workloads) == 0 {
		text = "no other workloads run on it: `tare cluster adopt` marks it"
	}
	return &InUse{Hinted: hint.Hinted{Err: ErrInUse, Text: text}, Cluster: name, Marked: marked, Workloads: workloads}
}

func (e *InUse) Error() string {
	s := e.Cluster + " is not marked as disposable"
	if e.Marked {
		s = e.Cluster + " runs workloads that were deployed after it was marked as disposable"
	}
	if len(e.Workloads) > 0 {
		s += ": " + printable.Listed(lists.Map(e.Workloads, Workload.String), shown)
	}
	return s
}

// shown bounds the workloads that a message names.
const shown = 10
