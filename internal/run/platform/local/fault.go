package local

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// victim is a container of a pod over all of its lives.
type victim struct {
	id        string // of the first life
	pod       *pod
	container string
	again     func(context.Context) error // starts it as it was, at its address
	lives     int
	process   *proc.Process // the present, or the last; nil before the first
	frozen    bool
}

// incarnation is the task's ID in its present life: what one life used must not
// be taken for what another did.
func (v *victim) incarnation() string {
	if v.lives == 1 {
		return v.id
	}
	return fmt.Sprintf("%s.%d", v.id, v.lives)
}

func (v *victim) up() bool {
	if v.process == nil {
		return false
	}
	select {
	case <-v.process.Done():
		return false
	default:
		return true
	}
}

// victim finds a container, or notes it, and begins a life of it.
func (d *deployment) victim(p *pod, container string, again func(context.Context) error) *victim {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := p.name + "/" + container
	v := d.find(id)
	if v == nil {
		v = &victim{id: id, pod: p, container: container}
		d.victims = append(d.victims, v)
	}
	v.again = again
	v.lives++
	return v
}

// find finds a victim; d.mu is held.
func (d *deployment) find(id string) *victim {
	for _, v := range d.victims {
		if v.id == id {
			return v
		}
	}
	return nil
}

func (d *deployment) starts(v *victim, p *proc.Process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v.process, v.frozen = p, false
}

// restartKey marks the context of a start in place of a task that was ended.
type restartKey struct{}

func restarted(ctx context.Context) bool { return ctx.Value(restartKey{}) != nil }

// of finds what is known of a process; d.mu is held.
func (d *deployment) of(p *proc.Process) *process {
	for _, q := range d.processes {
		if q.Process == p {
			return q
		}
	}
	return nil
}

// endedOnPurpose says that a fault ended the process; d.mu is held.
func (d *deployment) endedOnPurpose(p *proc.Process) bool {
	q := d.of(p)
	return q != nil && q.ended
}

// same holds that a sidecar that was started again listens where it did: its callers know no other place.
func same(listener string, before, now netip.AddrPort) (netip.AddrPort, error) {
	if before.IsValid() && before != now {
		return before, &Error{fmt.Errorf("the sidecar's listener %q is now at port %d, it was at %d", listener, now.Port(), before.Port()),
			"let the mesh definition's template use {{.Inbound.Port}}, and {{.Port}} of each of .Outbound"}
	}
	return now, nil
}

// planeOf a process; d.mu is held.
func (d *deployment) planeOf(p *proc.Process) metric.Plane {
	if q := d.of(p); q != nil {
		return q.task.Plane
	}
	return metric.Unattributed
}

// Victims implements [platform.TaskFaults].
func (d *deployment) Victims() []platform.Victim {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []platform.Victim
	add := func(p *pod) {
		for _, container := range []string{"app", "sidecar", controlContainer} {
			v := d.find(p.name + "/" + container)
			if v == nil || v.process == nil {
				continue
			}
			all = append(all, platform.Victim{ID: v.id, Pod: p.name, Service: p.service, Replica: p.replica,
				Plane: d.planeOf(v.process), Up: v.up()})
		}
	}
	for _, s := range d.spec.Topology.Services {
		for _, p := range d.pods[s.Name] {
			add(p)
		}
	}
	if d.load != nil {
		add(d.load)
	}
	for _, c := range d.controls {
		add(c.pod)
	}
	return all
}

// alive finds a victim that runs.
func (d *deployment) alive(id string) (*victim, *proc.Process, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.find(id)
	switch {
	case d.removed:
		return nil, nil, errRemoved
	case v == nil:
		return nil, nil, fmt.Errorf("there is no task %s", id)
	case !v.up():
		return v, nil, nil
	}
	return v, v.process, nil
}

// End implements [platform.TaskFaults].
func (d *deployment) End(ctx context.Context, id string, grace time.Duration) error {
	v, p, err := d.alive(id)
	if err != nil {
		return fmt.Errorf("end %s: %w", id, err)
	}
	if p == nil {
		return nil
	}
	d.purpose(p)
	if grace > 0 && !v.frozen { // who is stopped does not hear
		err = p.Stop(ctx, grace)
	} else if err = p.Signal(os.Kill); err == nil {
		err = awaitEnd(ctx, p)
	}
	if err != nil {
		return fmt.Errorf("end %s: %w", id, err)
	}
	return nil
}

func (d *deployment) purpose(p *proc.Process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.of(p); q != nil {
		q.ended = true
	}
}

func awaitEnd(ctx context.Context, p *proc.Process) error {
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Freeze implements [platform.TaskFaults].
func (d *deployment) Freeze(_ context.Context, id string, frozen bool) error {
	v, p, err := d.alive(id)
	if err == nil && p == nil && frozen {
		err = errors.New("it does not run")
	}
	if err != nil {
		return fmt.Errorf("freeze %s: %w", id, err)
	}
	if p == nil {
		return nil
	}
	signal := syscall.SIGCONT
	if frozen {
		signal = syscall.SIGSTOP
	}
	if err := p.Signal(signal); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v.frozen = frozen
	return nil
}

// Restart implements [platform.TaskFaults].
func (d *deployment) Restart(ctx context.Context, id string) error {
	v, p, err := d.alive(id)
	if err == nil && p != nil {
		err = errors.New("it runs")
	}
	if err == nil {
		err = v.again(context.WithValue(ctx, restartKey{}, true))
	}
	if err != nil {
		return fmt.Errorf("restart %s: %w", id, err)
	}
	return nil
}

// Ended implements [platform.EndedTasks].
func (d *deployment) Ended() []platform.Ended {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []platform.Ended
	for _, p := range d.processes {
		if u, ok := p.Usage(); ok && p.ended {
			all = append(all, platform.Ended{Task: platform.Task{Task: p.task, PID: p.PID, Restarted: p.restarted},
				CPU: u.CPU, Peak: u.Peak, Voluntary: u.Voluntary, Involuntary: u.Involuntary})
		}
	}
	return all
}

// MeshCounters implements [platform.MeshCounters].
func (d *deployment) MeshCounters(ctx context.Context) (map[string]int64, error) {
	sums := map[string]int64{}
	if d.sidecar == "" {
		return sums, nil
	}
	pods := []*pod{d.load}
	for _, s := range d.spec.Topology.Services {
		pods = append(pods, d.pods[s.Name]...)
	}
	for _, p := range pods {
		if _, running, _ := d.alive(p.name + "/sidecar"); running == nil || len(p.sidecar.Outbound) == 0 {
			continue
		}
		names, err := d.spec.Mesh.Local.Verify.Counters(p.sidecar)
		if err != nil {
			return nil, err
		}
		values, err := p.admin.counters(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		for _, o := range names.Outbound {
			for name, counter := range map[string]string{"retries": o.Retries, "timeouts": o.Timeouts} {
				if v, ok := values[counter]; ok && counter != "" {
					sums[name] += v
				}
			}
		}
	}
	return sums, nil
}
