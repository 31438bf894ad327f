package timeline_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/timeline"
	"github.com/tare-mesh/tare/test/must"
)

// authority renews the certificates of all endpoints some time after each change.
type authority struct {
	changer
	after time.Duration

	mu    sync.Mutex
	since []time.Time // of each renewal
	hands []time.Time // of each handshake
}

func (a *authority) Change(_ context.Context, change platform.Change) error {
	time.Sleep(a.prepares)
	change.Send()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since = append(a.since, time.Now().Add(a.after))
	return nil
}

func (a *authority) Serial(context.Context, string) (string, error) {
	defer time.Sleep(time.Millisecond) // a handshake takes time
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hands = append(a.hands, time.Now())
	n := 0
	for _, at := range a.since {
		if !time.Now().Before(at) {
			n++
		}
	}
	return strconv.Itoa(n), nil
}

// A change that renews the certificates of all endpoints is seen at any of them, and a long wait has few handshakes.
func TestRenewalOfAllCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &authority{after: 3 * time.Second}
		x := experiment.Changes{Every: experiment.Duration(12 * time.Second), Count: 6, Kinds: []string{metric.CertificateRenewed}}
		changes := must.Get(timeline.NewChanges(x, 1, "web", true, &platform.Deployment{Changer: a, Serial: a.Serial}))(t)
		start, endpoints := time.Now(), map[string]bool{}
		must.OK(t, changes.Run(t.Context(), start, start, start.Add(time.Hour), ignored))
		for i, m := range changes.Made() {
			endpoints[m.Endpoint] = true
			if m.FirstNew.BeforeMS == nil || m.FirstNew.AfterMS > 3000 || *m.FirstNew.BeforeMS < 3000 || *m.FirstNew.BeforeMS-m.FirstNew.AfterMS > 40 {
				t.Errorf("change %d: first effect in %+v, want 3000 ms and an interval of some 1 %%", i+1, m.FirstNew)
			}
			if m.AcceptedSeconds != m.SentSeconds {
				t.Errorf("change %d: sent after %v s and accepted after %v s, want at once", i+1, m.SentSeconds, m.AcceptedSeconds)
			}
			if m.Probes < 100 || m.Probes > 400 || m.Failed+m.Flaps > 0 {
				t.Errorf("change %d: %d handshakes, %d failed, %d flaps, want 100 to 400", i+1, m.Probes, m.Failed, m.Flaps)
			}
		}
		if len(a.since) != 6 || len(endpoints) != 2 {
			t.Errorf("%d changes at %v, want 6 at both endpoints", len(a.since), endpoints)
		}
	})
}

// Both halves of the time to the next change have the same handshakes, so that none is in the CPU of the change.
func TestHandshakesAreInTheLevel(t *testing.T) {
	for _, after := range []time.Duration{40 * time.Millisecond, 700 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			const every, count = 2 * time.Second, 3
			a := &authority{after: after}
			x := experiment.Changes{Every: experiment.Duration(every), Count: count, Kinds: []string{metric.CertificateRenewed}}
			changes := must.Get(timeline.NewChanges(x, 1, "web", true, &platform.Deployment{Changer: a, Serial: a.Serial}))(t)
			start := time.Now()
			must.OK(t, changes.Run(t.Context(), start, start, start.Add(time.Hour), ignored))
			halves := make([]int, 2*count)
			made := changes.Made()
			for i, m := range made {
				next := m.SentSeconds + 0.75*every.Seconds() // the least time to another
				if i+1 < len(made) {
					next = made[i+1].SentSeconds
				}
				for _, at := range a.hands { // the clocks are read a millisecond before
					if place := (at.Sub(start).Seconds() + 0.001 - m.SentSeconds) / (next - m.SentSeconds); place >= 0 && place < 1 {
						halves[2*i+int(2*place)]++
					}
				}
			}
			for i := 0; i < len(halves); i += 2 {
				if halves[i] < 20 || halves[i] != halves[i+1] {
					t.Errorf("renewed after %v, change %d: %d handshakes in the first half of the time to the next, %d in the second", after, i/2+1, halves[i], halves[i+1])
				}
			}
		})
	}
}
