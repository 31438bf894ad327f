package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// LeaseName is the name of the Lease that a run holds, so that no second run measures on the cluster.
const LeaseName = "tare"

const (
	// leaseDuration is the time after the last renewal in which a Lease is valid. It bridges an API server that is away
	// for most of a minute.
	leaseDuration = time.Minute
	renewEvery    = leaseDuration / 4
	// observeFor is the time in which a holder must renew a Lease that looks expired: clocks of two machines may differ.
	observeFor = renewEvery + 5*time.Second
)

// Holder is the run that holds a cluster.
type Holder struct {
	Run     string
	Owner   cluster.Owner
	Since   time.Time // it acquired the Lease
	Renewed time.Time
	Lease   cluster.Ref

	version string // of the object
}

func (h Holder) String() string {
	owner := h.Owner
	if !h.Since.IsZero() {
		owner.Since = h.Since.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("run %s, %s", h.Run, owner)
}

// Expired reports whether the Lease was not renewed in time, by this machine's clock.
func (h Holder) Expired() bool { return time.Since(h.Renewed) > leaseDuration }

// Held refuses a cluster that another run holds.
type Held struct {
	hint.Hinted
	Cluster string
	Holder  Holder
}

// ErrHeld is wrapped by every [Held].
var ErrHeld = errors.New("another run measures on the cluster")

func (e *Held) Error() string {
	return fmt.Sprintf("%s: %v (%s): %s", e.Cluster, ErrHeld, e.Holder.Lease, e.Holder)
}

// Lease is one run's claim on a cluster.
type Lease struct {
	cluster *cluster.Cluster
	run     string
	// namespaces of the Lease, the preferred one first. Without permission in one the next is used.
	namespaces []string
	observe    time.Duration

	mu     sync.Mutex
	object *coordinationv1.Lease // nil: not held
	lost   error
	stop   context.CancelFunc
	done   chan struct{} // closed when renewing has ended
}

// NewLease returns the claim of a run. It is made in kube-system, or without permission there in an existing namespace
// of the run, unless that is empty.
func NewLease(c *cluster.Cluster, run, namespace string) *Lease {
	l := &Lease{cluster: c, run: run, namespaces: []string{cluster.SystemNamespace}, observe: observeFor}
	if namespace != "" {
		l.namespaces = append(l.namespaces, namespace)
	}
	return l
}

// Acquire takes the Lease and renews it until Release. It takes over the Lease of a dead process of this machine and one
// that has expired. The error is a [*Held] if another run holds it, and Forbidden without permission for Leases.
func (l *Lease) Acquire(ctx context.Context) error {
	var err error
	for _, namespace := range l.namespaces {
		if err = l.acquireIn(ctx, namespace); err == nil || !cluster.IsForbidden(err) {
			return err
		}
	}
	return err
}

func (l *Lease) acquireIn(ctx context.Context, namespace string) error {
	for {
		h, held, err := holderIn(ctx, l.cluster, namespace)
		if err != nil {
			return err
		}
		if held && !l.ours(h) {
			free, err := l.free(ctx, h)
			if err != nil {
				return err
			}
			if !free {
				return heldBy(l.cluster, h)
			}
		}
		object, err := l.write(ctx, namespace, h.version)
		switch {
		case err == nil:
			l.keep(object)
			return nil
		case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && (!apierrors.IsNotFound(err) || h.version == ""):
			return err // NotFound without a Lease: the namespace does not exist
		}
		// Another process was faster: read the Lease again.
	}
}

func heldBy(c *cluster.Cluster, h Holder) *Held {
	text := "wait until it ends; `tare cluster status` shows it"
	if h.Owner.State() != cluster.Alive {
		text = fmt.Sprintf("wait until it ends; if its process has ended, the Lease expires %v after the last renewal (%s), or `tare cluster cleanup --run %s` deletes it",
			leaseDuration, h.Renewed.UTC().Format(time.TimeOnly), h.Run)
	}
	return &Held{Hinted: hint.Hinted{Err: ErrHeld, Text: text}, Cluster: c.Name(), Holder: h}
}

// free reports whether a Lease can be taken over. One that has expired by this machine's clock is observed first.
func (l *Lease) free(ctx context.Context, h Holder) (bool, error) {
	switch h.Owner.State() {
	case cluster.Dead:
		return true, nil
	case cluster.Alive:
		return false, nil
	}
	if !h.Expired() {
		return false, nil
	}
	if err := wait.For(ctx, l.observe); err != nil {
		return false, err
	}
	now, held, err := holderIn(ctx, l.cluster, h.Lease.Namespace)
	return err == nil && (!held || now.version == h.version), err
}

// write creates the Lease, or replaces the given version of it.
func (l *Lease) write(ctx context.Context, namespace, version string) (written *coordinationv1.Lease, err error) {
	owner, err := json.Marshal(cluster.ThisProcess())
	if err != nil {
		return nil, fmt.Errorf("write the Lease: %w", err)
	}
	now, seconds := metav1.NowMicro(), int32(leaseDuration/time.Second)
	object := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: LeaseName, ResourceVersion: version,
			Labels:      map[string]string{cluster.LabelManagedBy: cluster.ManagedBy, cluster.LabelRun: l.run},
			Annotations: map[string]string{cluster.AnnotationOwner: string(owner)}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new(l.run), LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
	err = l.cluster.Retry(ctx, "take the Lease of the cluster", func(ctx context.Context) (err error) {
		if version == "" {
			written, err = l.client(namespace).Create(ctx, object, metav1.CreateOptions{FieldManager: cluster.FieldManager})
		} else {
			written, err = l.client(namespace).Update(ctx, object, metav1.UpdateOptions{FieldManager: cluster.FieldManager})
		}
		return err
	})
	return written, err
}

// keep starts to renew the Lease, and ends an earlier renewal.
func (l *Lease) keep(object *coordinationv1.Lease) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	l.mu.Lock()
	earlier, ended := l.stop, l.done
	l.object, l.lost, l.stop, l.done = object, nil, stop, done
	l.mu.Unlock()
	if earlier != nil {
		earlier()
		<-ended
	}
	go routine.Guarded(func() {
		defer close(done)
		tick := time.NewTicker(renewEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if l.renew(ctx); l.Err() != nil {
				return
			}
		}
	})()
}

// renew updates the time of the Lease. A failed request is repeated at the next renewal.
func (l *Lease) renew(ctx context.Context) {
	l.mu.Lock()
	object := l.object.DeepCopy()
	l.mu.Unlock()
	if object == nil { // lost, or released
		return
	}
	object.Spec.RenewTime = new(metav1.NowMicro())
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	updated, err := l.client(object.Namespace).Update(ctx, object, metav1.UpdateOptions{FieldManager: cluster.FieldManager})
	if apierrors.IsConflict(err) { // a renewal whose answer was lost, or another run
		if updated, err = l.client(object.Namespace).Get(ctx, LeaseName, metav1.GetOptions{}); err == nil {
			if h := holderOf(updated); !l.ours(h) {
				l.lose(hint.New("run it again when the other run has ended", "the Lease of the cluster was taken over: %s", h))
				return
			}
		}
	}
	switch {
	case err == nil:
		l.mu.Lock()
		l.object = updated
		l.mu.Unlock()
	case apierrors.IsNotFound(err):
		l.lose(hint.New("another run may have measured at the same time: run it again", "the Lease of the cluster was deleted (`tare cluster cleanup`?)"))
	}
}

func (l *Lease) lose(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost, l.object = why, nil
}

// Err returns why the run no longer holds the cluster, nil if it does or has not acquired it.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Release stops renewing and deletes the Lease. It returns nil if the Lease is not held.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	stop, done := l.stop, l.done
	l.stop = nil
	l.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	<-done
	l.mu.Lock()
	object := l.object
	l.object = nil
	l.mu.Unlock()
	if object == nil {
		return nil
	}
	h, held, err := holderIn(ctx, l.cluster, object.Namespace)
	if err != nil || !held || !l.ours(h) { // a run that takes an expired Lease over keeps its UID
		return err
	}
	err = l.cluster.Retry(ctx, "release the Lease of the cluster", func(ctx context.Context) error {
		return l.client(object.Namespace).Delete(ctx, LeaseName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID, ResourceVersion: &h.version}})
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // another run has it
		return nil
	}
	return err
}

func (l *Lease) ours(h Holder) bool { return h.Run == l.run && h.Owner == cluster.ThisProcess() }

func (l *Lease) client(namespace string) coordination.LeaseInterface {
	return l.cluster.Typed().CoordinationV1().Leases(namespace)
}

// Holder returns the run that holds the cluster, false if there is none, or it has ended.
func (g *Guard) Holder(ctx context.Context) (Holder, bool, error) {
	h, held, err := holderIn(ctx, g.cluster, g.namespace)
	if err != nil || !held || h.Owner.State() == cluster.Dead || h.Owner.State() != cluster.Alive && h.Expired() {
		return Holder{}, false, err
	}
	return h, true, nil
}

func holderIn(ctx context.Context, c *cluster.Cluster, namespace string) (h Holder, held bool, err error) {
	err = c.Retry(ctx, "read the Lease of the cluster", func(ctx context.Context) error {
		object, err := c.Typed().CoordinationV1().Leases(namespace).Get(ctx, LeaseName, metav1.GetOptions{})
		held = err == nil
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			h = holderOf(object)
		}
		return err
	})
	return h, held, err
}

func holderOf(object *coordinationv1.Lease) Holder {
	ref, _ := cluster.RefOf(object) // fails only without a name
	h := Holder{Run: object.Labels[cluster.LabelRun], Lease: ref, version: object.ResourceVersion}
	if json.Unmarshal([]byte(object.Annotations[cluster.AnnotationOwner]), &h.Owner) != nil {
		h.Owner = cluster.Owner{}
	}
	if t := object.Spec.AcquireTime; t != nil {
		h.Since = t.Time
	}
	if t := object.Spec.RenewTime; t != nil {
		h.Renewed = t.Time
	}
	return h
}
