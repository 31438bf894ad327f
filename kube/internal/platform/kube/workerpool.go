package kube

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	_ "embed" // generators.yaml
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load/worker"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// indexAnnotation numbers the pods of an indexed Job.
const indexAnnotation = "batch.kubernetes.io/job-completion-index"

// agentProgram is the program of the image.
const agentProgram = "tare-agent"

var errRemoved = errors.New("the deployment has been removed")

// starter starts a command that generates load.
type starter func(context.Context, proc.Command) (platform.Process, error)

// loadSource starts load generators: in load workers or on this machine.
type loadSource interface {
	StartLoad(ctx context.Context, cmd proc.Command) (platform.Process, error)
	// starters has a function for each place that load comes from.
	starters() []starter
	// tasks are the running processes of the load on this machine.
	tasks() []platform.Task
	// stop stops the load. No other starts afterwards.
	stop(ctx context.Context) error
}

// workerPool is the Job of the load workers: a pod and a connection each.
type workerPool struct {
	*trial
	pods    *trialPods
	archive archive
	lost    func() error // the reason why the trial can no longer be measured
	workers []*loadWorker

	mu       sync.Mutex
	commands []*remoteCommand
	active   int   // commands that run
	next     int   // the worker of the next command, since none ran
	closed   error // why no command can be started
}

// loadWorker is a pod of the load's Job and the connection to it.
type loadWorker struct {
	pod     string
	node    string
	forward *cluster.Forward
	client  *worker.Client
}

func (p *workerPool) LoadWorkers() int { return p.options.Workers }

// connect finds the pod of each load worker and reads its clock, as a test of the connection.
func (p *workerPool) connect(ctx context.Context) error {
	if p.cluster.DryRun() {
		return nil
	}
	workers := make([]*loadWorker, p.LoadWorkers())
	for _, pod := range p.pods.all() {
		i, err := strconv.Atoi(pod.Annotations[indexAnnotation])
		if pod.Labels[labelService] != loadService || err != nil || i < 0 || i >= len(workers) || workers[i] != nil {
			continue
		}
		workers[i] = p.dial(p.namespace, pod.Name, p.token)
		workers[i].node = pod.Spec.NodeName
	}
	for i, w := range workers {
		if w == nil {
			return fmt.Errorf("find load worker %d: job %s/%s has no pod with this index", i, p.namespace, loadService)
		}
	}
	p.workers = workers
	for i := range p.workers {
		if _, _, err := p.clock(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) dial(namespace, pod, token string) *loadWorker {
	forward := t.cluster.Forward(namespace, pod, workerPort)
	return &loadWorker{pod: pod, forward: forward, client: worker.NewClient(forward.DialContext, token)}
}

// LoadClock implements [platform.LoadWorkers]. A worker has the clock of its node, and the node agent compares that
// best. Workers on one node then have the same difference. Each call measures it again.
func (p *workerPool) LoadClock(ctx context.Context, i int) (ahead, unsure time.Duration, err error) {
	if i < 0 || i >= len(p.workers) {
		return 0, 0, fmt.Errorf("clock of load worker %d: there are %d workers", i, len(p.workers))
	}
	return p.clockOf(ctx, p.workers[i].node, func(ctx context.Context) (ahead, unsure time.Duration, err error) { return p.clock(ctx, i) })
}

// clockOf returns how far the clock of a node is ahead of tare's, and the uncertainty: from its node agent, or else as measured by
// compare.
func (t *trial) clockOf(ctx context.Context, node string, compare func(context.Context) (ahead, unsure time.Duration, err error)) (ahead, unsure time.Duration, err error) {
	if a := t.options.Agents; a != nil {
		if err := a.Compare(ctx); err != nil {
			return 0, 0, err
		}
		if ahead, unsure, ok := a.Clock(node); ok {
			return ahead, unsure, nil
		}
	}
	return compare(ctx)
}

func (p *workerPool) clock(ctx context.Context, i int) (ahead, unsure time.Duration, err error) {
	ahead, unsure, err = p.workers[i].client.Clock(ctx)
	return ahead, unsure, hint.Prefix(err, "clock of load worker %d (pod %s/%s)", i, p.namespace, p.workers[i].pod)
}

// StartLoad implements [platform.Running]. The command runs in the next load worker's pod, with the program of the same
// name in its image. Its files are copied to cmd.Dir when it has ended.
func (p *workerPool) StartLoad(ctx context.Context, cmd proc.Command) (platform.Process, error) {
	if p.cluster.DryRun() {
		program := generatorImage{p.trial}.path(cmd.Path)
		p.cluster.Recorder().Kubectl(append([]string{"exec", "-i", "-n", p.namespace, "job/" + loadService, "--", program}, cmd.Args...)...)
		return endedCommand(), nil
	}
	i, err := p.reserve(nextWorker)
	if err != nil {
		return nil, fmt.Errorf("start the load generator: %w", err)
	}
	return p.start(ctx, i, cmd)
}

// starters implements loadSource: one for each worker.
func (p *workerPool) starters() (all []starter) {
	for i := range p.workers {
		all = append(all, func(ctx context.Context, cmd proc.Command) (platform.Process, error) {
			if _, err := p.reserve(i); err != nil {
				return nil, err
			}
			return p.start(ctx, i, cmd)
		})
	}
	return all
}

// tasks implements loadSource: load workers are tasks of the cluster.
func (p *workerPool) tasks() []platform.Task { return nil }

// nextWorker reserves the worker after the last one, and the first again after all commands have ended.
const nextWorker = -1

// reserve reserves a load worker, or [nextWorker].
func (p *workerPool) reserve(i int) (int, error) {
	lost := p.lost()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmp.Or(p.closed, lost); err != nil {
		return 0, err
	}
	if p.active == 0 {
		p.next = 0
	}
	if i == nextWorker {
		i = p.next
	}
	if i >= len(p.workers) {
		return 0, errors.New("every load worker is busy")
	}
	p.next = max(p.next, i+1)
	p.active++
	return i, nil
}

// start starts a command in a reserved load worker and releases the worker when the command has ended.
func (p *workerPool) start(ctx context.Context, i int, cmd proc.Command) (_ platform.Process, err error) {
	w := p.workers[i]
	defer func() {
		if err != nil {
			p.release()
			err = fmt.Errorf("start the load generator in load worker %d (pod %s/%s): %w", i, p.namespace, w.pod, err)
		}
	}()
	c, err := p.send(ctx, w, cmd)
	if err != nil {
		if filepath.Base(cmd.Path) != agentProgram {
			err = hint.Wrap(err, "name an image with the program in platform.images; `tare cluster image build --with NAME=PATH` adds a static program to tare-agent's image")
		}
		return nil, err
	}
	if err := p.archive.Command(fmt.Sprintf("in load worker %d, pod %s/%s", i, p.namespace, w.pod), c.command.String()); err != nil {
		c.cancel(err)
		return nil, err
	}
	log := os.DevNull
	if p.archive.Enabled() {
		log = p.archive.Path(fmt.Sprintf("load-%d-command.log", i))
	}
	go routine.Guarded(func() {
		defer p.release()
		defer close(c.done)
		c.err = c.follow(cmd, log)
	})()
	return c, nil
}

// release returns a load worker whose command has ended.
func (p *workerPool) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active--
}

// send sends the command to the worker, which runs it from then on.
func (p *workerPool) send(ctx context.Context, w *loadWorker, cmd proc.Command) (*remoteCommand, error) {
	var stdin []byte
	if cmd.Stdin != nil {
		var err error
		if stdin, err = io.ReadAll(cmd.Stdin); err != nil {
			return nil, fmt.Errorf("read its standard input: %w", err)
		}
	}
	program, args := generatorImage{p.trial}.command(cmd)
	run, err := w.client.Start(ctx, worker.Command{ID: newCommandID(), Path: program, Args: args, Env: cmd.Env, Stdin: stdin})
	if err != nil {
		return nil, err
	}
	c := &remoteCommand{run: run, command: proc.Command{Path: program, Args: args, Env: cmd.Env}, done: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed != nil {
		c.cancel(p.closed)
	}
	p.commands = append(p.commands, c)
	return c, nil
}

// stop implements loadSource. The connections stay open until close, so that logs can be read first.
func (p *workerPool) stop(context.Context) error {
	p.abandon(errRemoved)
	return nil
}

// abandon gives up all commands: their workers cannot be reached.
func (p *workerPool) abandon(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = cmp.Or(p.closed, why)
	for _, c := range p.commands {
		c.cancel(why)
	}
}

func (p *workerPool) close() {
	for _, w := range p.workers {
		w.forward.Close()
	}
}

func (w *loadWorker) output(ctx context.Context, c worker.Command) (run *worker.Run, out, errOut []byte, err error) {
	c.ID = newCommandID()
	if run, err = w.client.Start(ctx, c); err != nil {
		return nil, nil, nil, err
	}
	var outs, errs bytes.Buffer
	err = errors.Join(run.Copy(ctx, worker.Stdout, &limitedBuffer{&outs}), run.Copy(ctx, worker.Stderr, &limitedBuffer{&errs}))
	return run, outs.Bytes(), errs.Bytes(), err
}

func newCommandID() string { return strings.ToLower(rand.Text()) }

// maxResponse bounds the output of a probe, bytes.
const maxResponse = 1 << 20

// limitedBuffer accepts at most maxResponse bytes.
type limitedBuffer struct{ to *bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.to.Len()+len(p) > maxResponse {
		return 0, io.ErrShortBuffer
	}
	return b.to.Write(p)
}

// stopGrace is the grace period of a load process of this machine when its trial is removed.
const stopGrace = 2 * time.Second

// localLoad is load from this machine: its processes.
type localLoad struct {
	archive archive
	dryRun  bool
	lost    func() error // the reason why the trial can no longer be measured

	mu        sync.Mutex
	processes []localProcess
	closed    bool
}

type localProcess struct {
	*proc.Process
	task platform.Task
}

// StartLoad implements [platform.Running].
func (l *localLoad) StartLoad(ctx context.Context, cmd proc.Command) (_ platform.Process, err error) {
	if l.dryRun {
		return endedCommand(), nil // kubectl has no command for it
	}
	defer func() { err = hint.Prefix(err, "start the load generator") }()
	lost := l.lost()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case lost != nil:
		return nil, lost
	case l.closed:
		return nil, errRemoved
	}
	id := loadService + "/" + loadContainer
	if n := len(l.processes); n > 0 {
		id = fmt.Sprintf("%s-%d", id, n+1)
	}
	if l.archive.Enabled() {
		cmd.Log = l.archive.Path(filepath.Base(id) + "-outside.log")
	}
	if err := l.archive.Command("on this machine, "+id, cmd.String()); err != nil {
		return nil, err
	}
	p, err := proc.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	task := platform.Task{PID: p.PID, Task: mesh.Task{ID: id, Pod: loadService, Service: loadService, Container: loadContainer, Plane: metric.Load}}
	l.processes = append(l.processes, localProcess{p, task})
	return p, nil
}

func (l *localLoad) starters() []starter { return []starter{l.StartLoad} }

func (l *localLoad) tasks() (tasks []platform.Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.processes {
		select {
		case <-p.Done():
		default:
			tasks = append(tasks, p.task)
		}
	}
	return tasks
}

func (l *localLoad) stop(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	processes := slices.Clone(l.processes)
	l.mu.Unlock()
	return errors.Join(lists.Map(processes, func(p localProcess) error { return p.Stop(ctx, stopGrace) })...)
}

const (
	// stopMargin is the time to stop a command beyond its grace period: request and response.
	stopMargin = 30 * time.Second
	// tailLines bounds the command output in an error.
	tailLines = 20
)

// remoteCommand is a command that a load worker runs. It implements [platform.Process].
type remoteCommand struct {
	run     *worker.Run
	command proc.Command // as it runs in the pod
	tail    proc.Ring
	ctx     context.Context // ends when the command is abandoned
	cancel  context.CancelCauseFunc
	done    chan struct{}
	err     error // set before done is closed
}

// endedCommand is the command of a dry run.
func endedCommand() *remoteCommand {
	c := &remoteCommand{done: make(chan struct{})}
	close(c.done)
	return c
}

// follow copies the command's output until it ends, and then its files.
func (c *remoteCommand) follow(cmd proc.Command, logPath string) (err error) {
	log, err := os.OpenFile(logPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep the load generator's log: %w", err)
	}
	defer func() { err = cmp.Or(err, hint.Prefix(log.Close(), "keep the load generator's log")) }()
	errOut := io.MultiWriter(log, &c.tail)
	out := cmd.Stdout
	if out == nil {
		out = errOut
	}
	var copying errgroup.Group
	copying.Go(routine.Guarded(func() error { return c.run.Copy(c.ctx, worker.Stdout, out) }))
	copying.Go(routine.Guarded(func() error { return c.run.Copy(c.ctx, worker.Stderr, errOut) }))
	if err := copying.Wait(); err != nil {
		return orCause(c.ctx, err)
	}
	if cmd.Dir != "" {
		if err := c.copyFiles(cmd.Dir); err != nil {
			return orCause(c.ctx, err)
		}
	}
	s, err := c.run.Status(c.ctx)
	if err != nil {
		return orCause(c.ctx, err)
	}
	if s.Exit == 0 {
		return nil
	}
	return &proc.ExitError{Name: path.Base(c.command.Path), Command: c.command.String(), State: s.State, Log: c.tail.Lines(tailLines), Stopped: s.Stopped}
}

// orCause is the cause of ctx's end if it has ended, else err.
func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// copyFiles copies the command's files into dir. A name that leads out of dir is an error.
func (c *remoteCommand) copyFiles(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("copy the load generator's files: %w", err)
	}
	defer root.Close()
	return c.run.Files(c.ctx, func(name string, content io.Reader) error {
		if err := root.MkdirAll(filepath.Dir(filepath.FromSlash(name)), 0o755); err != nil {
			return err
		}
		f, err := root.OpenFile(filepath.FromSlash(name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	})
}

func (c *remoteCommand) Wait() error {
	<-c.done
	return c.err
}

func (c *remoteCommand) Stop(ctx context.Context, grace time.Duration) error {
	select {
	case <-c.done:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, grace+stopMargin)
	defer cancel()
	stopped := make(chan error, 1)
	go routine.Guarded(func() { stopped <- c.run.Stop(ctx, grace) })()
	for {
		select {
		case <-c.done:
			return nil
		case err := <-stopped:
			if err != nil {
				c.cancel(err)
				<-c.done
				return err
			}
			stopped = nil
		case <-ctx.Done():
			c.cancel(context.Cause(ctx))
			<-c.done
			return fmt.Errorf("stop the load generator: %w", context.Cause(ctx))
		}
	}
}

//go:embed generators.yaml
var generatorImages []byte

// GeneratorImage is the image of a load generator that is not part of tare.
type GeneratorImage struct {
	Image  string `json:"image"`
	Digest string `json:"digest,omitempty"` // sha256:…, "" if unknown
	Path   string `json:"path"`             // of the program in the image, "" for its own name in /
	User   int64  `json:"user,omitempty"`   // user ID it runs as, 0 for the default
}

// Reference is the image reference for the kubelet, with the digest if it is known.
func (g GeneratorImage) Reference() string {
	if g.Digest == "" {
		return g.Image
	}
	return g.Image + "@" + g.Digest
}

// GeneratorImages are the images shipped with tare, by generator.
func GeneratorImages() (map[string]GeneratorImage, error) {
	var known map[string]GeneratorImage
	return known, hint.Prefix(yaml.UnmarshalStrict(generatorImages, &known), "read the images of load generators")
}

// In a load worker that runs a generator's image, tare-agent is copied to agentDir by the init container copyContainer.
const (
	agentDir      = "/opt/tare"
	copyContainer = "agent"
)

// generatorImage is the image that the load workers of a trial run.
type generatorImage struct{ *trial }

// command is cmd in the image. tare-agent starts it at cmd.At, if that is set.
func (g generatorImage) command(cmd proc.Command) (program string, args []string) {
	program = g.path(cmd.Path)
	if cmd.At.IsZero() {
		return program, cmd.Args
	}
	return g.path(agentProgram), append([]string{"at", cmd.At.UTC().Format(time.RFC3339Nano), "--", program}, cmd.Args...)
}

// path is the path in the load workers' image of a program of this machine.
func (g generatorImage) path(program string) string {
	name := filepath.Base(program)
	image, separate := g.separate()
	switch {
	case !separate:
		return path.Join("/", name)
	case name == agentProgram:
		return path.Join(agentDir, name)
	case image.Path != "":
		return image.Path
	}
	return path.Join("/", name)
}

// addTo changes a load worker's pod to the image of the trial's generator. The init container first copies tare-agent
// to a volume of both.
func (g generatorImage) addTo(pod *corev1.PodSpec, first corev1.Container) {
	image, ok := g.separate()
	if !ok {
		return
	}
	mount := corev1.VolumeMount{Name: "agent", MountPath: agentDir}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: mount.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	first.Args = []string{"copy", path.Join(agentDir, agentProgram)}
	first.VolumeMounts = append(first.VolumeMounts, mount)
	pod.InitContainers = append(pod.InitContainers, first)
	load := &pod.Containers[0]
	load.Image, load.ImagePullPolicy = image.Reference(), pullPolicy(image.Image)
	load.Command = []string{path.Join(agentDir, agentProgram)}
	mount.ReadOnly = true
	load.VolumeMounts = append(load.VolumeMounts, mount)
	if image.User != 0 {
		load.SecurityContext.RunAsUser = &image.User
	}
}

// separate is the image of the trial's generator, or false if the generator is in tare-agent's image.
func (g generatorImage) separate() (GeneratorImage, bool) {
	image, ok := g.options.Generators[g.spec.Treatment.Levels.Generator]
	return image, ok && image.Image != ""
}
