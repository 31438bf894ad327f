package local

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/tare-mesh/tare/internal/base/cgroup"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// processes starts, watches and lists the processes of a trial.
type processes struct {
	attribute func(mesh.Task) mesh.Task
	cpus      map[string]string // by plane
	workspace *workspace
	limits    limits
	abandon   context.CancelCauseFunc // ends a deployment that is being made

	mu         sync.Mutex
	started    []*process
	adopted    []platform.Task // of programs that ran before and keep running
	containers []*container
	noted      map[int]bool // descendants of programs of the user, recorded for a sweep
	broken     error        // the first process that ended by itself
	removed    bool
}

type process struct {
	*proc.Process
	task      mesh.Task
	restarted bool // replaces an ended one
	began     time.Time
	ended     bool // on purpose: a fault ended it
}

// runIn starts a container of a pod. It is watched, and faults can end and restart it.
func (ps *processes) runIn(ctx context.Context, p *pod, container string, cmd, printed proc.Command, again func(context.Context) error) (*proc.Process, error) {
	v := ps.begin(p, container, again)
	id := v.incarnation()
	started, err := ps.run(ctx, mesh.Task{ID: id, Pod: p.name, Service: p.service, Container: container}, cmd, printed)
	if err != nil {
		return nil, err
	}
	ps.setProcess(v, started)
	ps.watch(id, started)
	return started.Process, nil
}

var errRemoved = errors.New("the deployment has been removed")

// run starts and records a task's process. The printed command can be pasted, but it differs from
// cmd in inherited descriptors.
func (ps *processes) run(ctx context.Context, task mesh.Task, cmd, printed proc.Command) (*process, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.removed {
		return nil, errRemoved
	}
	task = ps.attribute(task)
	cmd.CPUs = ps.cpus[string(task.Plane)]
	printed.CPUs = cmd.CPUs
	began := time.Now()
	p, err := proc.Start(ctx, cmd)
	if err != nil {
		err = fmt.Errorf("start %s: %w", task.ID, err)
		if cmd.CPUs != "" {
			err = hint.Wrap(err, fmt.Sprintf("platform.cpus pins the %s plane to %s; this process may use %d processors", task.Plane, cmd.CPUs, runtime.NumCPU()))
		}
		return nil, err
	}
	started := &process{Process: p, task: task, restarted: restarted(ctx), began: began}
	ps.started = append(ps.started, started)
	if err := ps.workspace.recordCommand(task.ID, p.PID, printed); err != nil {
		return nil, err // Remove stops it
	}
	return started, nil
}

// watch records a process that ends by itself.
func (ps *processes) watch(id string, p *process) {
	go routine.Guarded(func() {
		<-p.Done()
		ps.mu.Lock()
		defer ps.mu.Unlock()
		if ps.removed || ps.broken != nil || p.ended {
			return
		}
		ps.broken = ps.limits.explain(p.task.Pod, ended(id, p.Process))
		ps.abandon(ps.broken)
	})()
}

func (ps *processes) Err() error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.broken
}

// close refuses further starts and returns all processes.
func (ps *processes) close() []*process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.removed = true
	return ps.started
}

// adopt adds a process that tare neither started nor stops, and its descendants.
func (ps *processes) adopt(task mesh.Task, pid int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if slices.ContainsFunc(ps.adopted, func(t platform.Task) bool { return t.ID == task.ID }) {
		task.ID = fmt.Sprintf("%s-%d", task.ID, pid)
	}
	ps.adopted = append(ps.adopted, platform.Task{PID: pid, Task: ps.attribute(task), Parent: true})
}

// closed reports whether the deployment is removed, or being removed.
func (ps *processes) closed() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.removed
}

// tasks lists tare, its processes and their descendants. A descendant belongs to the task of its
// nearest listed ancestor. Other descendants of tare match no rule and are unattributed.
func (ps *processes) tasks(ctx context.Context) ([]platform.Task, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	self := platform.Task{PID: os.Getpid(), Task: ps.attribute(mesh.Task{ID: "tare", Pod: "tare", Container: "tare"})}
	tasks := []platform.Task{self}
	ps.mu.Lock()
	for _, p := range ps.started {
		if !exited(p.Process) {
			tasks = append(tasks, platform.Task{PID: p.PID, Task: p.task, Restarted: p.restarted, Parent: p.Mark() != ""})
		}
	}
	tasks = append(tasks, ps.adopted...)
	ps.mu.Unlock()
	proc.ReapOrphans()
	others, err := descendants(tasks, func(all map[int]bool) { deployed.pids(ps, all) })
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	for _, o := range others {
		t := o.task
		if mark := proc.MarkOf(t.PID); t.Plane == metric.Harness && mark != "" { // a helper whose parent has ended
			owner, ok := ps.marked(mark)
			if !ok {
				continue // of another deployment
			}
			t.Task, t.Parent = owner, true
		}
		if t.Plane == metric.Harness {
			t.Pod, t.Container = "", o.name
			t.Task = ps.attribute(t.Task)
		}
		if t.Plane == metric.App || t.Plane == metric.Data {
			ps.note(o)
		}
		t.ID = fmt.Sprintf("%s/%s-%d", t.ID, o.name, t.PID)
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// marked returns the task of the process whose descendants have a mark.
func (ps *processes) marked(mark string) (mesh.Task, bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p, ok := lists.First(ps.started, func(p *process) bool { return p.Mark() == mark })
	if !ok {
		return mesh.Task{}, false
	}
	return p.task, true
}

// note records a descendant of an application: if tare is killed, the kernel ends only the processes
// that tare has started itself. Descendants of adopted programs are left alone.
func (ps *processes) note(d descendant) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.noted[d.task.PID] || slices.ContainsFunc(ps.adopted, func(t platform.Task) bool { return t.ID == d.task.ID }) {
		return
	}
	if ps.noted == nil {
		ps.noted = map[int]bool{}
	}
	ps.noted[d.task.PID] = true
	_ = proc.Note(d.task.PID, d.name) // the run continues: it is for a sweep after a kill
}

const (
	// startTimeout bounds the time until a new process is ready. Gateways in Python import for half a minute on a busy machine.
	startTimeout = 60 * time.Second
	// elsewhereLists is the number of lists, one every listenPause, in which a process listens, and not where it is expected, until
	// it is late. A machine that stands still makes none.
	elsewhereLists = 4
)

// awaitReady waits until a new process is ready or has ended, or the time is over. One that listens at other addresses than
// the expected ones is late after elsewhereLists.
func awaitReady(ctx context.Context, id string, p *proc.Process, ready func(context.Context) error, expected ...netip.AddrPort) error {
	const advice = "a command has {listen} where it takes the address to listen on"
	var gone, last error
	began := time.Now()
	listed, lists := began, 0
	err := wait.Within(ctx, startTimeout, adminPause, func(ctx context.Context) error {
		err := ready(ctx)
		if err != nil && exited(p) {
			gone = ended(id, p)
			return wait.Stop(gone)
		}
		if errors.Is(err, syscall.ECONNREFUSED) && time.Since(listed) > listenPause {
			listed = time.Now()
			lists++
			if missing := notAmong(expected, listening(p.PID)); !missing.IsValid() {
				lists = 0
			} else if lists == elsewhereLists {
				gone = notReady(id, p, missing, advice, time.Since(began), err)
				return wait.Stop(gone)
			}
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		return err
	})
	switch {
	case err == nil, gone != nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("start %s: %w", id, context.Cause(ctx))
	}
	return notReady(id, p, netip.AddrPort{}, advice, startTimeout, last)
}

// notAmong is the first of the expected addresses at which a process that listens does not. It is none for one that does not listen.
func notAmong(expected, listens []netip.AddrPort) (missing netip.AddrPort) {
	for _, at := range expected {
		if len(listens) > 0 && !slices.Contains(listens, at) {
			return at
		}
	}
	return missing
}

// ended returns the error of a process that ended unexpectedly, with the error of [proc.Process.Wait].
func ended(id string, p *proc.Process) error {
	err, daemon := p.Wait(), ""
	if err == nil {
		daemon = "a program that continues in the background (a daemon) must stay in the foreground, such as nginx -g 'daemon off;'; "
		err = &proc.ExitError{Name: filepath.Base(p.Command().Path), Command: p.Command().String(), State: "exit status 0", Log: p.Tail(20)}
	}
	advice := "its log and command line are in the trial's provenance directory; paste the command to try it"
	if log := p.Command().Log; log != "" {
		advice = fmt.Sprintf("its whole log is %s; commands.sh beside it has the command line", log)
	}
	return hint.Wrap(fmt.Errorf("%s is gone: %w", id, err), daemon+advice)
}

func exited(p *proc.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// deployed are the deployments of this process, of all its platforms: their processes are its descendants.
var deployed neighbours

// neighbours are the deployments that exist at the same time. Each lists only its own processes.
type neighbours struct {
	mu  sync.Mutex
	all map[*processes]bool
	// commands are processes that end by themselves while a deployment is made, such as the bootstrap of a sidecar:
	// tasks of none. A deployment beside it may have listed one that ended since, so each stays for forgotten.
	commands map[*proc.Process]time.Time
}

const forgotten = time.Minute

// start starts a process that ends by itself.
func (n *neighbours) start(start func() (*proc.Process, error)) (*proc.Process, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, err := start()
	if err != nil {
		return nil, err
	}
	if n.commands == nil {
		n.commands = map[*proc.Process]time.Time{}
	}
	n.commands[p] = time.Now()
	return p, nil
}

func (n *neighbours) enter(ps *processes) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all == nil {
		n.all = map[*processes]bool{}
	}
	n.all[ps] = true
}

// leave is for a removed deployment. It may be called more than once.
func (n *neighbours) leave(ps *processes) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.all, ps)
}

// pids adds the processes of all other deployments, and of no deployment, to a set.
func (n *neighbours) pids(of *processes, all map[int]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p, started := range n.commands {
		all[p.PID] = true
		select {
		case <-p.Done():
			if time.Since(started) > forgotten {
				delete(n.commands, p)
			}
		default:
		}
	}
	for ps := range n.all {
		if ps == of {
			continue
		}
		ps.mu.Lock()
		for _, p := range ps.started {
			all[p.PID] = true
		}
		ps.mu.Unlock()
	}
}

// descendant is an unlisted process, with the task of its nearest listed ancestor.
type descendant struct {
	task platform.Task // PID is the descendant's own
	name string
}

// descendants finds the descendants of the known processes, without others and their descendants.
// The function add puts these others into a set: processes from before the listing, and
// processes that started meanwhile.
func descendants(known []platform.Task, add func(others map[int]bool)) ([]descendant, error) {
	others := map[int]bool{}
	add(others)
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	type node struct {
		parent int
		name   string
	}
	tree := map[int]node{}
	for _, p := range all {
		stat, err := p.Stat()
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return nil, fmt.Errorf("read process %d: %w", p.PID, err)
		}
		if stat.State != "Z" {
			tree[p.PID] = node{stat.PPID, stat.Comm}
		}
	}
	add(others)
	tasks := map[int]platform.Task{}
	for _, t := range known {
		tasks[t.PID] = t
	}
	var found []descendant
	for _, p := range all {
		n, alive := tree[p.PID]
		if _, listed := tasks[p.PID]; listed || !alive || others[p.PID] {
			continue
		}
		// At most as many steps as processes: the tree is read while it changes.
		for at, steps := n.parent, 0; at > 1 && !others[at] && steps < len(tree); at, steps = tree[at].parent, steps+1 {
			if ancestor, ok := tasks[at]; ok {
				found = append(found, descendant{platform.Task{Task: ancestor.Task, PID: p.PID, Parent: ancestor.Parent}, n.name})
				break
			}
		}
	}
	return found, nil
}

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
