package guard

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/kube/internal/cluster"
	"github.com/tare-mesh/tare/kube/test/clustertest"
	"github.com/tare-mesh/tare/test/must"
)

// claim is the Lease of a run in the test's namespace.
func claim(c *cluster.Cluster, namespace, run string) *Lease {
	return &Lease{cluster: c, run: run, namespaces: []string{namespace}, observe: time.Second}
}

// owned gives the Lease of a namespace another owner and time of renewal, as another process would have written it.
func owned(t *testing.T, c *cluster.Cluster, namespace, run string, owner cluster.Owner, renewed time.Time) {
	t.Helper()
	text := must.Get(json.Marshal(owner))(t)
	leases, at := c.Typed().CoordinationV1().Leases(namespace), metav1.NewMicroTime(renewed)
	_ = leases.Delete(t.Context(), LeaseName, metav1.DeleteOptions{})
	must.Get(leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName,
		Labels: map[string]string{cluster.LabelRun: run}, Annotations: map[string]string{cluster.AnnotationOwner: string(text)}},
		Spec: coordinationv1.LeaseSpec{AcquireTime: &at, RenewTime: &at}}, metav1.CreateOptions{}))(t)
}

// One run holds the cluster. A second is refused until the first releases it.
func TestRealLease(t *testing.T) {
	c := clustertest.Connect(t)
	ns, _ := clustertest.Namespace(t, c)
	g := New(c)
	g.namespace = ns
	ctx := clustertest.Within(t, 2*time.Minute)
	first, second := claim(c, ns, "first"), claim(c, ns, "second")
	must.OK(t, first.Acquire(ctx))
	if h, held, err := g.Holder(ctx); err != nil || !held || h.Run != "first" || h.Owner != cluster.ThisProcess() || time.Since(h.Since) > time.Minute {
		t.Errorf("%+v, %v, %v", h, held, err)
	}
	err := second.Acquire(ctx)
	var held *Held
	if !errors.As(err, &held) || !errors.Is(err, ErrHeld) {
		t.Fatalf("%v", err)
	}
	clustertest.Contains(t, err.Error()+hint.Of(err), "run first", "process ", " since ", "wait until it ends")
	if err := g.Check(ctx); !errors.Is(err, ErrHeld) {
		t.Errorf("the guard accepts it: %v", err)
	}
	before := first.object.Spec.RenewTime.Time
	if first.renew(ctx); !first.object.Spec.RenewTime.Time.After(before) || first.Err() != nil {
		t.Errorf("not renewed: %v, %v", first.object.Spec.RenewTime, first.Err())
	}
	must.OK(t, first.Release(ctx))
	must.OK(t, second.Acquire(ctx))
	// The Lease of a live run is deleted: the run notices it, and can take it again.
	must.OK(t, c.Delete(ctx, nil, second.held(ns)))
	if second.renew(ctx); second.Err() == nil || !strings.Contains(second.Err().Error(), "was deleted") {
		t.Errorf("its Lease is deleted: %v", second.Err())
	}
	if err := second.Acquire(ctx); err != nil || second.Err() != nil {
		t.Errorf("%v, %v", err, second.Err())
	}
	// Another run takes it over.
	owned(t, c, ns, "third", cluster.Owner{Host: "elsewhere", PID: 7}, time.Now())
	if second.renew(ctx); second.Err() == nil || !strings.Contains(second.Err().Error(), "run third") {
		t.Errorf("its Lease is taken: %v", second.Err())
	}
	if err := second.Release(ctx); err != nil {
		t.Error(err)
	}
	if h, held, _ := g.Holder(ctx); !held || h.Run != "third" {
		t.Errorf("the Lease of another run was released: %+v", h)
	}
	// A take-over of an expired Lease keeps the object. The former holder may notice it only when it releases.
	must.OK(t, errors.Join(c.Delete(ctx, nil, second.held(ns)), first.Acquire(ctx)))
	leases := c.Typed().CoordinationV1().Leases(ns)
	object := must.Get(leases.Get(ctx, LeaseName, metav1.GetOptions{}))(t)
	object.Labels[cluster.LabelRun] = "fourth"
	must.Get(leases.Update(ctx, object, metav1.UpdateOptions{}))(t)
	if err := first.Release(ctx); err != nil {
		t.Error(err)
	}
	if h, held, _ := g.Holder(ctx); !held || h.Run != "fourth" {
		t.Errorf("the Lease that another run took over was released: %+v", h)
	}
	absent := claim(c, "tare-test-absent", "fifth")
	if err := absent.Acquire(ctx); !cluster.IsNotFound(err) {
		t.Errorf("a namespace that does not exist: %v", err)
	}
}

// One renewal runs, however often and concurrently the Lease is taken. A second one would fail here without a cluster.
func TestOneRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Lease{}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { l.keep(&coordinationv1.Lease{}) })
		}
		all.Wait()
		l.object = nil // lost
		l.renew(t.Context())
		must.OK(t, l.Release(t.Context()))
		l.object = &coordinationv1.Lease{}
		time.Sleep(3 * renewEvery)
	})
}

func (l *Lease) held(namespace string) cluster.Ref {
	ref, _ := cluster.RefOf(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: LeaseName}})
	return ref
}

// The Lease of a killed process ends at once on its machine, and a minute after its last renewal elsewhere. One that is
// renewed while it is observed does not end, however wrong the clocks are.
func TestRealLeaseOfOthers(t *testing.T) {
	c := clustertest.Connect(t)
	ns, _ := clustertest.Namespace(t, c)
	here := cluster.ThisProcess()
	dead := here
	dead.PID, dead.Start = 1<<22-1, 1
	elsewhere := cluster.Owner{Host: "elsewhere", PID: 7}
	for _, o := range []struct {
		name    string
		owner   cluster.Owner
		renewed time.Duration // ago
		renews  bool
		taken   bool
	}{
		{"killed here", dead, 0, false, true},
		{"live here", here, 0, false, false},
		{"live here, long not renewed", here, time.Hour, false, false},
		{"elsewhere", elsewhere, 0, false, false},
		{"elsewhere, expired", elsewhere, 2 * time.Minute, false, true},
		{"elsewhere, a slow clock", elsewhere, 2 * time.Minute, true, false},
	} {
		t.Run(o.name, func(t *testing.T) {
			owned(t, c, ns, "other", o.owner, time.Now().Add(-o.renewed))
			l := claim(c, ns, "mine")
			if o.renews {
				l.observe = 3 * time.Second
				leases := c.Typed().CoordinationV1().Leases(ns)
				stop := time.AfterFunc(time.Second, func() {
					if object, err := leases.Get(context.Background(), LeaseName, metav1.GetOptions{}); err == nil {
						at := metav1.NewMicroTime(object.Spec.RenewTime.Add(renewEvery))
						object.Spec.RenewTime = &at
						_, _ = leases.Update(context.Background(), object, metav1.UpdateOptions{})
					}
				})
				defer stop.Stop()
			}
			err := l.Acquire(clustertest.Within(t, time.Minute))
			if (err == nil) != o.taken || err != nil && !errors.Is(err, ErrHeld) {
				t.Errorf("%v", err)
			}
			if err != nil && o.owner == elsewhere && !strings.Contains(hint.Of(err), "tare cluster cleanup --run other") {
				t.Errorf("hint %q", hint.Of(err))
			}
			if err := l.Release(clustertest.Within(t, time.Minute)); err != nil {
				t.Error(err)
			}
		})
	}
}
