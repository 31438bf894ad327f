package timeline_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/timeline"
)

// changer takes some time for each change.
type changer struct {
	takes time.Duration

	mu   sync.Mutex
	made []platform.Change
}

func (c *changer) Endpoints() []string { return []string{"127.0.0.2:1", "127.0.0.3:1"} }

func (c *changer) Change(ctx context.Context, change platform.Change) error {
	c.mu.Lock()
	c.made = append(c.made, change)
	c.mu.Unlock()
	select {
	case <-time.After(c.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestChangesAreMadeWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &changer{takes: 3 * time.Second} // six times the time between them
		x := experiment.Changes{Every: experiment.Duration(500 * time.Millisecond), Count: 12, Kinds: mesh.ChangeKinds()}
		changes := must.Get(timeline.NewChanges(x, 1, &platform.Deployment{Changer: c}))(t)
		start := time.Now()
		must.OK(t, changes.Run(t.Context(), start, start.Add(time.Second), start.Add(time.Minute)))
		made := changes.Made()
		if len(made) != 12 {
			t.Fatalf("%d changes, want 12", len(made))
		}
		kinds := map[string]int{}
		for i, m := range made {
			kinds[m.Kind]++
			if want := 1 + 0.5*float64(i+1); m.SentSeconds != want || m.DueSeconds != want || m.AcceptedSeconds != want+3 {
				t.Errorf("change %d: due %v, sent %v, accepted %v s, want %v", i, m.DueSeconds, m.SentSeconds, m.AcceptedSeconds, want)
			}
		}
		for _, kind := range mesh.ChangeKinds() {
			if kinds[kind] != 4 {
				t.Errorf("%d changes of kind %s, want 4", kinds[kind], kind)
			}
		}
		out := false
		for i, m := range c.made {
			switch m.Kind {
			case mesh.EndpointRemoved:
				out = true
			case mesh.EndpointAdded:
				out = false
			}
			if want := map[bool]int{false: 2, true: 1}[out]; len(m.Endpoints) != want {
				t.Errorf("change %d (%s) leaves %d endpoints, want %d", i, m.Kind, len(m.Endpoints), want)
			}
		}
		again := must.Get(timeline.NewChanges(x, 1, &platform.Deployment{Changer: &changer{}}))(t)
		must.OK(t, again.Run(t.Context(), start, time.Now(), time.Now().Add(time.Minute)))
		for i, m := range again.Made() {
			if m.Kind != made[i].Kind || m.Endpoint != made[i].Endpoint {
				t.Errorf("change %d of the same seed is %s %s, want %s %s", i, m.Kind, m.Endpoint, made[i].Kind, made[i].Endpoint)
			}
		}
	})
}

func TestMeshesThatCannotChangeAreNamed(t *testing.T) {
	var meshes []mesh.Definition
	for _, name := range []string{"none", "envoy", "envoy-xds"} {
		m := must.Get(mesh.Load(name))(t)
		meshes = append(meshes, m)
	}
	err := timeline.CheckChanges(experiment.Changes{Kinds: mesh.ChangeKinds()}, meshes)
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"mesh none cannot make endpoint-removed", "mesh envoy cannot make route-changed"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	for _, not := range []string{"none cannot make route-changed", "envoy-xds"} {
		if strings.Contains(err.Error(), not) {
			t.Errorf("the error has %q: %v", not, err)
		}
	}
	able := slices.DeleteFunc(meshes, func(m mesh.Definition) bool { return m.Name == "envoy" })
	if err := timeline.CheckChanges(experiment.Changes{Kinds: []string{mesh.RouteChanged}}, able); err != nil {
		t.Error(err)
	}
}
