package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

const (
	// stopGrace is how long a process may take to end by itself.
	stopGrace = 2 * time.Second
	// removeTimeout bounds the removal as a whole.
	removeTimeout = 20 * time.Second
)

// deployment is one trial's processes.
type deployment struct {
	spec    platform.Spec
	agent   string // program
	sidecar string // program; empty without a mesh
	// programs are those of the mesh, by the names its definition gives them.
	programs map[string]program
	edit     func(*app.Instance)
	settle   time.Duration
	abandon  context.CancelCauseFunc // ends the deploying

	addresses *addresses
	runtime   *runtimeDir
	token     string // of the services' REST interfaces
	secrets   *secrets
	authority *authority // nil without mTLS, and where the mesh has its own
	controls  []*control
	pods      map[string][]*pod
	load      *pod
	entry     []string

	mu        sync.Mutex
	processes []*process
	victims   []*victim
	loads     int
	broken    error // the first process that ended by itself
	removed   bool

	impairing sync.Mutex
	wire      wire // nil until a network is impaired
}

// process is a started process and the task it is.
type process struct {
	*proc.Process
	task      mesh.Task
	restarted bool // in place of one that was ended
	ended     bool // on purpose
}

var errRemoved = errors.New("the deployment has been removed")

// prepare makes what the pods need before any starts.
func (d *deployment) prepare() error {
	var err error
	d.addresses = newAddresses()
	if d.runtime, err = newRuntimeDir(); err != nil {
		return err
	}
	if err := d.makeToken(); err != nil {
		return err
	}
	if !d.spec.Mesh.Provides.MTLS || d.spec.Mesh.Local.Certificates != nil {
		return nil
	}
	if d.authority, err = newAuthority(); err != nil {
		return err
	}
	if err := os.WriteFile(d.runtime.file("ca.crt"), d.authority.pem, 0o600); err != nil {
		return fmt.Errorf("write the CA's certificate: %w", err)
	}
	return nil
}

// makeToken draws the token that changing a service takes. It lies in the
// runtime directory, so that it is never kept, and goes with the deployment.
func (d *deployment) makeToken() error {
	d.token = rand.Text()
	if err := os.WriteFile(d.tokenFile(), []byte(d.token+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	return nil
}

func (d *deployment) tokenFile() string { return d.runtime.file("token") }

// run starts a task's process and watches it. The printed command is what a
// person can paste; it differs where descriptors are inherited.
func (d *deployment) run(ctx context.Context, task mesh.Task, cmd, printed proc.Command) (*proc.Process, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removed {
		return nil, errRemoved
	}
	task = d.spec.Mesh.Attribute(task)
	cmd.CPUs = d.spec.CPUs[string(task.Plane)]
	printed.CPUs = cmd.CPUs
	p, err := proc.Start(ctx, cmd)
	if err != nil {
		err = fmt.Errorf("start %s: %w", task.ID, err)
		if cmd.CPUs != "" {
			err = &Error{err, fmt.Sprintf("platform.cpus pins the %s plane to %s; this process may use %d processors", task.Plane, cmd.CPUs, runtime.NumCPU())}
		}
		return nil, err
	}
	d.processes = append(d.processes, &process{Process: p, task: task, restarted: restarted(ctx)})
	if err := d.note(task.ID, p.PID, printed); err != nil {
		return nil, err // Remove stops it
	}
	return p, nil
}

// note appends a command line to provenance/commands.sh; pid 0: it was not run as one.
func (d *deployment) note(id string, pid int, cmd proc.Command) error {
	f, err := os.OpenFile(filepath.Join(d.spec.Provenance, "commands.sh"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("record a command line: %w", err)
	}
	if pid != 0 {
		id = fmt.Sprintf("%s, process %d", id, pid)
	}
	_, err = fmt.Fprintf(f, "# %s\n%s\n\n", id, d.secrets.redact([]byte(cmd.String())))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("record a command line: %w", err)
	}
	return nil
}

// watch reports a process that ends though nobody asked it to.
func (d *deployment) watch(id string, p *proc.Process) {
	go func() {
		<-p.Done()
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.removed || d.broken != nil || d.endedOnPurpose(p) {
			return
		}
		d.broken = ended(id, p)
		d.abandon(d.broken)
	}()
}

// ended says how a process that should run on has ended, as the error of [proc.Process.Wait] tells it.
func ended(id string, p *proc.Process) error {
	err := p.Wait()
	if err == nil {
		err = &proc.ExitError{Name: filepath.Base(p.Command().Path), Command: p.Command().String(), State: "exit status 0", Log: p.Tail(20)}
	}
	hint := "its log and its command line are in the trial's provenance directory; the command can be pasted to try it by hand"
	if log := p.Command().Log; log != "" {
		hint = fmt.Sprintf("its whole log is %s; beside it, commands.sh has the command line to try by hand", log)
	}
	return &Error{fmt.Errorf("%s is gone: %w", id, err), hint}
}

// Err implements [platform.Watcher].
func (d *deployment) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.broken
}

// Entry implements [platform.Running].
func (d *deployment) Entry() []string { return slices.Clone(d.entry) }

// StartLoad implements [platform.Running].
func (d *deployment) StartLoad(ctx context.Context, cmd proc.Command) (platform.Process, error) {
	d.mu.Lock()
	d.loads++
	container := "load"
	id := loadService + "/load"
	if d.loads > 1 {
		id = fmt.Sprintf("%s-%d", id, d.loads)
	}
	d.mu.Unlock()
	cmd.Log = filepath.Join(d.spec.Provenance, filepath.Base(id)+".log")
	task := mesh.Task{ID: id, Pod: loadService, Service: loadService, Container: container}
	p, err := d.run(ctx, task, cmd, cmd)
	if err != nil {
		return nil, fmt.Errorf("start the load generator: %w", err)
	}
	return p, nil
}

// Tasks implements [platform.Running]. Processes started by a task belong to
// it; those started by tare otherwise match no rule and are unattributed.
func (d *deployment) Tasks(ctx context.Context) ([]platform.Task, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	self := platform.Task{PID: os.Getpid(), Task: d.spec.Mesh.Attribute(mesh.Task{ID: "tare", Pod: "tare", Container: "tare"})}
	tasks := []platform.Task{self}
	d.mu.Lock()
	for _, p := range d.processes {
		select {
		case <-p.Done():
		default:
			tasks = append(tasks, platform.Task{PID: p.PID, Task: p.task, Restarted: p.restarted})
		}
	}
	d.mu.Unlock()
	others, err := descendants(tasks)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	for _, o := range others {
		t := o.task
		if t.Plane == metric.Harness {
			t.Pod, t.Container = "", o.name
			t.Task = d.spec.Mesh.Attribute(t.Task)
		}
		t.ID = fmt.Sprintf("%s/%s-%d", t.ID, o.name, t.PID)
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// Remove implements [platform.Running].
func (d *deployment) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	kept := d.keepMetrics(ctx)
	d.mu.Lock()
	d.removed = true
	processes := d.processes
	d.mu.Unlock()

	var stopping errgroup.Group
	failed := make([]error, len(processes)+2)
	failed[len(processes)+1] = d.freeNetwork()
	for i, p := range processes {
		stopping.Go(func() error {
			failed[i] = p.Stop(ctx, stopGrace)
			return nil
		})
	}
	_ = stopping.Wait()
	if d.runtime != nil {
		failed[len(processes)] = d.runtime.remove()
	}
	if err := errors.Join(append(failed, kept)...); err != nil {
		return fmt.Errorf("remove the deployment: %w", err)
	}
	return nil
}
