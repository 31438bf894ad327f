package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// systemNamespace is there on every cluster and as old as it: its annotation is the cluster's.
const systemNamespace = "kube-system"

// AnnotationDisposable on the namespace kube-system says that the cluster was given up for measuring: a [Mark] as JSON.
const AnnotationDisposable = "tare.dev/disposable"

// Mark says that a cluster was given up for measuring, by whom, and what ran on it that was accepted.
type Mark struct {
	By        string     `json:"by"`
	Host      string     `json:"host"`
	Time      time.Time  `json:"time"`
	Workloads []Workload `json:"workloads,omitempty"`
}

// Mark is the mark the cluster carries; false where it carries none.
func (c *Cluster) Mark(ctx context.Context) (Mark, bool, error) {
	var text string
	err := c.Retry(ctx, "read the cluster's mark", func(ctx context.Context) error {
		ns, err := c.typed.CoreV1().Namespaces().Get(ctx, c.guardNamespace, metav1.GetOptions{})
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
		return Mark{}, false, &Error{"read the cluster's mark", fmt.Errorf("annotation %s of namespace %s: %w", AnnotationDisposable, c.guardNamespace, err),
			"`tare cluster adopt` writes it anew"}
	}
	return m, true, nil
}

// Adopt marks the cluster as given up for measuring, with what runs on it now: show that before. In a dry run kubectl's
// command is recorded.
func (c *Cluster) Adopt(ctx context.Context, accepted []Workload) (Mark, error) {
	owner := ThisProcess()
	m := Mark{By: owner.User, Host: owner.Host, Time: time.Now().UTC().Truncate(time.Second), Workloads: accepted}
	text, err := json.Marshal(m)
	if err != nil {
		return Mark{}, fmt.Errorf("mark the cluster: %w", err)
	}
	value := string(text)
	return m, c.annotate(ctx, "mark the cluster", &value)
}

// Release takes the mark away; a cluster without one is left as it is. In a dry run kubectl's command is recorded.
func (c *Cluster) Release(ctx context.Context) error {
	return c.annotate(ctx, "take the cluster's mark away", nil)
}

// annotate sets the annotation, or takes it away where value is nil.
func (c *Cluster) annotate(ctx context.Context, op string, value *string) error {
	if c.DryRun() {
		word := AnnotationDisposable + "-"
		if value != nil {
			word = AnnotationDisposable + "=" + *value
		}
		c.recorder.Add(Step{Command: c.kubectl("annotate", "--overwrite", "namespace", c.guardNamespace, word)})
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{AnnotationDisposable: value}}})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return c.Retry(ctx, op, func(ctx context.Context) error {
		_, err := c.typed.CoreV1().Namespaces().Patch(ctx, c.guardNamespace, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
		return err
	})
}

// Guard refuses a cluster that was not given up for measuring ([Cluster.Adopt]), or that carries workloads which
// were not there when it was: what is measured there would be theirs too, and what tare does would be done to them. The
// error is an [*InUse]. Whoever knows better does not call it. Nothing is checked in a dry run.
func (c *Cluster) Guard(ctx context.Context) error {
	if c.DryRun() {
		return nil
	}
	mark, marked, err := c.Mark(ctx)
	if err != nil {
		return guardError(err)
	}
	foreign, err := c.Foreign(ctx)
	if err != nil {
		return guardError(err)
	}
	unknown := slices.DeleteFunc(foreign, func(w Workload) bool { return slices.ContainsFunc(mark.Workloads, w.same) })
	if marked && len(unknown) == 0 {
		return nil
	}
	return &InUse{Cluster: c.Name(), Marked: marked, Workloads: unknown}
}

// guardError says how to go on where the guard itself may not look.
func guardError(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return &Error{"find out whether the cluster is in use", err,
		"without the right to list namespaces and pods (`tare cluster rbac`) that cannot be seen; if you know that it is not, set platform.inUse: allow"}
}

// InUse refuses a cluster that is, or may be, in use.
type InUse struct {
	Cluster   string
	Marked    bool       // it was given up for measuring; the workloads came later
	Workloads []Workload // neither tare's nor the system's
}

// workloadsShown bounds how many workloads a message names.
const workloadsShown = 10

func (e *InUse) Error() string {
	s := e.Cluster + " is not marked as disposable"
	if e.Marked {
		s = e.Cluster + " carries workloads that were not there when it was marked as disposable"
	}
	if len(e.Workloads) > 0 {
		s += ": " + names(e.Workloads)
	}
	return s
}

// Hint says what the user can do.
func (e *InUse) Hint() string {
	if len(e.Workloads) == 0 {
		return "nothing foreign runs on it: `tare cluster adopt` marks it"
	}
	return "measure on a cluster of your own; if this one may be disturbed, `tare cluster adopt` marks it, or set platform.inUse: allow for this experiment"
}

// Unwrap lets callers recognise a refusal.
func (e *InUse) Unwrap() error { return ErrInUse }

// ErrInUse is what every [InUse] wraps.
var ErrInUse = errors.New("the cluster is in use")

func names(workloads []Workload) string {
	var all []string
	for _, w := range workloads[:min(len(workloads), workloadsShown)] {
		all = append(all, w.String())
	}
	if more := len(workloads) - workloadsShown; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}
