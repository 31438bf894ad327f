package kube

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/load/worker"
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

// LoadWorkers implements [platform.LoadWorkers].
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
	if err != nil {
		return 0, 0, fmt.Errorf("clock of load worker %d (pod %s/%s): %w", i, p.namespace, p.workers[i].pod, err)
	}
	return ahead, unsure, nil
}

// StartLoad implements [platform.Running]. The command runs in the next load worker's pod, with the program of the same
// name in its image. Its files are copied to cmd.Dir when it has ended.
func (p *workerPool) StartLoad(ctx context.Context, cmd proc.Command) (platform.Process, error) {
	if p.cluster.DryRun() {
		program := generatorImage{p.trial}.path(cmd.Path)
		p.cluster.Recorder().Kubectl(append([]string{"exec", "-i", "-n", p.namespace, "job/" + loadService, "--", program}, cmd.Args...)...)
		return endedCommand(), nil
	}
	i, err := p.reserveNext()
	if err != nil {
		return nil, fmt.Errorf("start the load generator: %w", err)
	}
	return p.start(ctx, i, cmd)
}

// starters implements loadSource: one for each worker.
func (p *workerPool) starters() (all []starter) {
	for i := range p.workers {
		all = append(all, func(ctx context.Context, cmd proc.Command) (platform.Process, error) {
			if err := p.reserve(i); err != nil {
				return nil, err
			}
			return p.start(ctx, i, cmd)
		})
	}
	return all
}

// tasks implements loadSource: load workers are tasks of the cluster.
func (p *workerPool) tasks() []platform.Task { return nil }

// reserveNext reserves the next load worker, the first again after all commands have ended.
func (p *workerPool) reserveNext() (i int, err error) {
	lost := p.lost()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed != nil:
		return 0, p.closed
	case lost != nil:
		return 0, lost
	case p.active == 0:
		p.next = 0
	}
	if p.next >= len(p.workers) {
		return 0, errors.New("every load worker is busy")
	}
	i = p.next
	p.next++
	p.active++
	return i, nil
}

func (p *workerPool) reserve(i int) error {
	lost := p.lost()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmp.Or(p.closed, lost); err != nil {
		return err
	}
	p.active++
	p.next = max(p.next, i+1)
	return nil
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
	c := newRemoteCommand(ctx, run, proc.Command{Path: program, Args: args, Env: cmd.Env})
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

// index is the number of the load worker in a pod, or -1.
func (p *workerPool) index(pod *corev1.Pod) int {
	return slices.IndexFunc(p.workers, func(w *loadWorker) bool { return w.pod == pod.Name })
}

// probe runs the calibration probe in a load worker.
func (p *workerPool) probe(ctx context.Context, i int) (probe.Reading, error) {
	run, out, errOut, err := p.workers[i].output(ctx, worker.Command{Path: generatorImage{p.trial}.path(agentProgram), Args: []string{"probe"}})
	if err != nil {
		return probe.Reading{}, err
	}
	s, err := run.Status(ctx)
	if err != nil {
		return probe.Reading{}, err
	}
	if s.Exit != 0 {
		return probe.Reading{}, fmt.Errorf("%s probe: %s: %.300s", agentProgram, s.State, bytes.TrimSpace(errOut))
	}
	return parseReading(out)
}

// output runs a command to its end, and returns its output.
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
