package local

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/tare-mesh/tare/internal/base/cgroup"
	"github.com/tare-mesh/tare/internal/base/hint"
)

// limits are the control groups of the sidecars, one for each pod.
type limits struct {
	of cgroup.Limits // of a sidecar

	mu     sync.Mutex
	groups map[string]*cgroup.Group // by pod
}

// group makes the group of a pod's sidecar, or returns it if the sidecar is restarted. It is nil without limits.
func (l *limits) group(w *workspace, pod string) (*cgroup.Group, error) {
	if l.of == (cgroup.Limits{}) {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.groups[pod]; g != nil {
		return g, nil
	}
	g, err := cgroup.Make(filepath.Base(w.runtime.path)+"-"+pod, l.of)
	if err != nil {
		return nil, fmt.Errorf("limit the sidecar of %s: %w", pod, err)
	}
	if l.groups == nil {
		l.groups = map[string]*cgroup.Group{}
	}
	l.groups[pod] = g
	return g, nil
}

// explain adds to the error of a pod's sidecar that it was killed at its memory limit.
func (l *limits) explain(pod string, err error) error {
	l.mu.Lock()
	g := l.groups[pod]
	l.mu.Unlock()
	if err == nil || g == nil {
		return err
	}
	if c, failed := g.Counts(); failed != nil || c.OOMKills == 0 {
		return err
	}
	return hint.Wrap(fmt.Errorf("the sidecar of %s was OOMKilled: it needs more than its memory limit of %d MiB: %w", pod, l.of.Memory>>20, err),
		"raise resources.limits.memory of the mesh, or measure without it what it needs")
}

// remove removes all groups, whose processes have ended.
func (l *limits) remove() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var failed []error
	for _, g := range l.groups {
		failed = append(failed, g.Remove())
	}
	return errors.Join(failed...)
}
