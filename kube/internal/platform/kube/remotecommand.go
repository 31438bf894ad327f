package kube

import (
	"bytes"
	"context"
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
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/load/worker"
)

const (
	// stopMargin is the time to stop a command beyond its grace period: request and response.
	stopMargin = 30 * time.Second
	// tailBytes and tailLines bound the command output in an error.
	tailBytes = 16 << 10
	tailLines = 20
)

// remoteCommand is a command that a load worker runs. It implements [platform.Process].
type remoteCommand struct {
	run     *worker.Run
	command proc.Command // as it runs in the pod
	tail    tail
	ctx     context.Context // ends when the command is abandoned
	cancel  context.CancelCauseFunc
	done    chan struct{}
	err     error // set before done is closed
}

func newRemoteCommand(ctx context.Context, run *worker.Run, command proc.Command) *remoteCommand {
	c := &remoteCommand{run: run, command: command, done: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return c
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
	defer func() {
		if closed := log.Close(); err == nil && closed != nil {
			err = fmt.Errorf("keep the load generator's log: %w", closed)
		}
	}()
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
	return &proc.ExitError{Name: path.Base(c.command.Path), Command: c.command.String(), State: s.State, Log: c.tail.lines(), Stopped: s.Stopped}
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
		if closed := f.Close(); err == nil {
			err = closed
		}
		return err
	})
}

// Wait implements [platform.Process].
func (c *remoteCommand) Wait() error {
	<-c.done
	return c.err
}

// Stop implements [platform.Process].
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

// tail keeps the last tailBytes written to it.
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

// lines are the last tailLines lines.
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
