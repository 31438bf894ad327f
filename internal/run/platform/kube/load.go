package kube

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load/worker"
	"github.com/tare-mesh/tare/internal/run/platform"
)

const (
	// stopSlack is what stopping a command takes beyond its grace: the way there and back.
	stopSlack = 30 * time.Second
	// tailBytes and tailLines bound what an error shows of a command's last words.
	tailBytes = 16 << 10
	tailLines = 20
)

// remote is a command that a load worker runs.
type remote struct {
	run     *worker.Run
	command proc.Command
	tail    tail
	ctx     context.Context // under which it is followed
	cancel  context.CancelCauseFunc
	done    chan struct{}
	err     error // set before done is closed
}

// StartLoad implements [platform.Running]: the command runs in the next load worker's pod, the program of the
// same name in its image, and what it leaves in its directory is brought back into cmd.Dir. Where the load is sent from
// here it is a process of this machine.
func (d *deployment) StartLoad(ctx context.Context, cmd proc.Command) (platform.Process, error) {
	if d.cluster.DryRun() {
		return d.recorded(cmd), nil
	}
	if d.platform.options.Outside {
		p, err := d.startOutside(ctx, cmd)
		if err != nil {
			return nil, fmt.Errorf("start the load generator: %w", err)
		}
		return p, nil
	}
	i, w, err := d.take()
	if err != nil {
		return nil, fmt.Errorf("start the load generator: %w", err)
	}
	p, err := d.startIn(ctx, i, w, cmd)
	if err != nil {
		return nil, fmt.Errorf("start the load generator in load worker %d (pod %s/%s): %w", i, d.namespace, w.pod, err)
	}
	return p, nil
}

// startIn starts the command in a load worker that was taken for it, and gives the worker back when it has ended.
func (d *deployment) startIn(ctx context.Context, i int, w *loadWorker, cmd proc.Command) (platform.Process, error) {
	r, err := d.start(ctx, w, cmd)
	if err != nil {
		d.give()
		if filepath.Base(cmd.Path) != agentProgram {
			err = &Error{err, "platform.images says in which image it is; `tare image build --with NAME=PATH` puts a static program beside tare-agent"}
		}
		return nil, err
	}
	if err := d.note(i, r.command); err != nil {
		r.cancel(err)
		d.give()
		return nil, err
	}
	log := filepath.Join(d.spec.Provenance, fmt.Sprintf("load-%d-command.log", i))
	go func() {
		defer d.give()
		defer close(r.done)
		r.err = r.follow(cmd, log)
	}()
	return r, nil
}

// recorded is the command of a dry run, which does nothing.
func (d *deployment) recorded(cmd proc.Command) *remote {
	if d.platform.options.Outside {
		return finished() // the command is one of this machine, not kubectl's
	}
	d.cluster.Record(append([]string{"exec", "-i", "-n", d.namespace, "job/" + loadService, "--", d.inImage(cmd.Path)}, cmd.Args...)...)
	return finished()
}

func finished() *remote {
	r := &remote{done: make(chan struct{})}
	close(r.done)
	return r
}

// start sends the command. It is the worker's from then on.
func (d *deployment) start(ctx context.Context, w *loadWorker, cmd proc.Command) (*remote, error) {
	var stdin []byte
	if cmd.Stdin != nil {
		var err error
		if stdin, err = io.ReadAll(cmd.Stdin); err != nil {
			return nil, fmt.Errorf("read its standard input: %w", err)
		}
	}
	program, args := d.at(cmd)
	there := worker.Command{ID: strings.ToLower(rand.Text()), Path: program, Args: args, Env: cmd.Env, Stdin: stdin}
	run, err := w.client.Start(ctx, there)
	if err != nil {
		return nil, err
	}
	r := &remote{run: run, command: proc.Command{Path: there.Path, Args: there.Args, Env: there.Env}, done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loads = append(d.loads, r)
	return r, nil
}

// abandonLoad gives up the commands at work; the lock is held.
func (d *deployment) abandonLoad(why error) {
	for _, r := range d.loads {
		r.cancel(why)
	}
}

// note adds the command to provenance/commands.sh.
func (d *deployment) note(i int, cmd proc.Command) error {
	return d.noteLine(fmt.Sprintf("in load worker %d, pod %s/%s", i, d.namespace, d.workers[i].pod), cmd)
}

// noteLine adds a command, and where it runs.
func (d *deployment) noteLine(where string, cmd proc.Command) error {
	if d.spec.Provenance == "" {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(d.spec.Provenance, "commands.sh"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "# %s\n%s\n\n", where, cmd)
		if closed := f.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		return fmt.Errorf("record a command line: %w", err)
	}
	return nil
}

// follow reads what the command writes to its end, and then fetches what it left.
func (r *remote) follow(cmd proc.Command, logPath string) (err error) {
	ctx := r.ctx
	log, err := os.OpenFile(logPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep the load generator's log: %w", err)
	}
	defer func() {
		if closed := log.Close(); err == nil && closed != nil {
			err = fmt.Errorf("keep the load generator's log: %w", closed)
		}
	}()
	errOut := io.MultiWriter(log, &r.tail)
	out := cmd.Stdout
	if out == nil {
		out = errOut
	}
	var reading errgroup.Group
	reading.Go(func() error { return r.run.Copy(ctx, worker.Stdout, out) })
	reading.Go(func() error { return r.run.Copy(ctx, worker.Stderr, errOut) })
	if err := reading.Wait(); err != nil {
		return orCause(ctx, err)
	}
	if cmd.Dir != "" {
		if err := r.fetch(ctx, cmd.Dir); err != nil {
			return orCause(ctx, err)
		}
	}
	s, err := r.run.Status(ctx)
	if err != nil {
		return orCause(ctx, err)
	}
	if s.Exit == 0 {
		return nil
	}
	return &proc.ExitError{Name: path.Base(r.command.Path), Command: r.command.String(), State: s.State, Log: r.tail.lines(), Stopped: s.Stopped}
}

// orCause is why the command is followed no more, where that is so.
func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// fetch writes the files that the command left into dir, and nowhere else.
func (r *remote) fetch(ctx context.Context, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("fetch what the load generator left: %w", err)
	}
	defer root.Close()
	return r.run.Files(ctx, func(name string, content io.Reader) error {
		if err := root.MkdirAll(filepath.Dir(filepath.FromSlash(name)), 0o755); err != nil {
			return err
		}
		f, err := root.OpenFile(filepath.FromSlash(name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		if closed := f.Close(); err == nil {
			err = closed
		}
		return err
	})
}

// Wait implements [platform.Process].
func (r *remote) Wait() error {
	<-r.done
	return r.err
}

// Stop implements [platform.Process].
func (r *remote) Stop(ctx context.Context, grace time.Duration) error {
	select {
	case <-r.done:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, grace+stopSlack)
	defer cancel()
	asked := make(chan error, 1)
	go func() { asked <- r.run.Stop(ctx, grace) }()
	for {
		select {
		case <-r.done:
			return nil
		case err := <-asked:
			if err != nil {
				r.cancel(err)
				<-r.done
				return err
			}
			asked = nil
		case <-ctx.Done():
			r.cancel(context.Cause(ctx))
			<-r.done
			return fmt.Errorf("stop the load generator: %w", context.Cause(ctx))
		}
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	last []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if over := len(t.last) - tailBytes; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return len(b), nil
}

func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimRight(string(bytes.ToValidUTF8(t.last, nil)), "\n")
	if text == "" {
		return nil
	}
	all := strings.Split(text, "\n")
	return all[max(0, len(all)-tailLines):]
}
