package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
)

const (
	// listWithin bounds the list of clusters.
	listWithin = 2 * time.Minute
	// endWithin is the time that a program has to end after an interrupt.
	endWithin = 30 * time.Second
	// maxOutput bounds the output of a program that is kept, in bytes.
	maxOutput = 64 << 10
)

// Clusters creates and deletes clusters.
type Clusters struct {
	Records Records
	Out     io.Writer // receives what the programs print, and each command before it runs
	Now     func() time.Time
}

// Create runs the provider's programs. The record is saved before the first of them, and returned complete but for
// the UID.
func (c Clusters) Create(ctx context.Context, p Provider, s Settings) (Record, error) {
	record := Record{Provider: p.Name, Settings: s, Created: c.Now().UTC().Truncate(time.Second)}
	if err := p.installed(); err != nil {
		return record, err
	}
	if err := os.MkdirAll(filepath.Dir(s.Kubeconfig), 0o700); err != nil {
		return record, fmt.Errorf("create the directory of the kubeconfig: %w", err)
	}
	list, err := c.list(ctx, p, s)
	if err != nil {
		return record, err
	}
	exists := p.exists(list, s)
	known, err := c.Records.Of(p.Name, s.Name)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return record, err
	case exists && err == nil:
		return record, hint.New("delete it first: tare cluster delete "+s.Name, "%s exists", known)
	case exists:
		return record, hint.New("choose another --name", "a %s cluster %s exists, and tare did not create it", p.Name, s.Name)
	case p.other(list) != "":
		return record, hint.New("stop it, or use k3d", "%s runs on this machine, which can hold one %s cluster", p.other(list), p.Name)
	}
	stale, err := hasContext(s.Kubeconfig, expand(p.Context, s))
	if err != nil {
		return record, err
	}
	if stale {
		return record, hint.New("choose another --name or --kubeconfig, or delete the context", "context %s exists in %s, and %s lists no such cluster", expand(p.Context, s), s.Kubeconfig, p.Name)
	}
	if err := c.Records.Save(record); err != nil {
		return record, err
	}
	if err := c.create(ctx, p, &record); err != nil {
		return record, c.failed(ctx, p, record, err)
	}
	return record, c.Records.Save(record)
}

// create runs the programs and finds the new context.
func (c Clusters) create(ctx context.Context, p Provider, record *Record) error {
	s := record.Settings
	for _, call := range p.Create {
		if _, err := c.run(ctx, p, call, s, true); err != nil {
			return err
		}
	}
	file := expand(p.Separate, s)
	if p.SeparateFrom != nil {
		out, err := c.run(ctx, p, *p.SeparateFrom, s, false)
		if err != nil {
			return err
		}
		file = strings.TrimSpace(out)
	}
	if file != "" {
		if err := addContext(s.Kubeconfig, file, expand(p.Context, s)); err != nil {
			return err
		}
	}
	found, err := hasContext(s.Kubeconfig, expand(p.Context, s))
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%s left no context of the cluster in %s", p.Name, s.Kubeconfig)
	}
	record.Context = expand(p.Context, s)
	return nil
}

// failed keeps the record if a part of the cluster exists, and otherwise removes it.
func (c Clusters) failed(ctx context.Context, p Provider, record Record, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listWithin)
	defer cancel()
	if list, listErr := c.list(ctx, p, record.Settings); listErr == nil && !p.exists(list, record.Settings) {
		return errors.Join(err, p.removeState(record.Settings), c.Records.Remove(record))
	}
	text := "delete what was created: tare cluster delete " + record.Settings.Name + " --unreachable"
	if h := hint.Of(err); h != "" {
		text = h + "; " + text
	}
	return hint.Wrap(err, text)
}

// Delete runs the provider's programs, and removes the context and the record. The record is proof that tare created
// the cluster. Whether it is still the same is for the caller to check: reached means that it has answered. A program
// that does not list such a cluster uses another place or container runtime.
func (c Clusters) Delete(ctx context.Context, p Provider, record Record, reached bool) error {
	if p.Cloud {
		return hint.New("delete it with "+p.Programs[0]+", and remove "+c.Records.path(p.Name, record.Settings.Name), "tare does not delete clusters of %s", p.Name)
	}
	if err := p.installed(); err != nil {
		return err
	}
	s := record.Settings
	list, err := c.list(ctx, p, s)
	if err != nil {
		return err
	}
	exists := p.exists(list, s)
	if !exists && reached {
		return hint.New("set what the program had when it created the cluster, such as DOCKER_HOST or KIND_EXPERIMENTAL_PROVIDER",
			"%s, answers, and %s does not list it", record, p.List.Program)
	}
	if exists || p.Outlives && p.other(list) == "" {
		for _, call := range p.Delete {
			if _, err := c.run(ctx, p, call, s, true); err != nil {
				return err
			}
		}
	}
	if err := p.removeState(s); err != nil {
		return err
	}
	if record.Context != "" {
		if err := removeContext(s.Kubeconfig, record.Context); err != nil {
			return err
		}
	}
	return c.Records.Remove(record)
}

func (p Provider) removeState(s Settings) error {
	if p.State == "" {
		return nil
	}
	if err := os.RemoveAll(expand(p.State, s)); err != nil {
		return fmt.Errorf("remove the cluster's state: %w", err)
	}
	return nil
}

func (c Clusters) list(ctx context.Context, p Provider, s Settings) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	return c.run(ctx, p, p.List, s, false)
}

// run runs a command and returns its standard output. Loud ones are printed with their output.
func (c Clusters) run(ctx context.Context, p Provider, call Call, s Settings, loud bool) (string, error) {
	command, err := call.command(s)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, command.Path, command.Args...)
	cmd.Env = append(os.Environ(), command.Env...)
	cmd.Stdin = command.Stdin
	// Not killed: a program that is interrupted removes what it has begun.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGINT) }
	cmd.WaitDelay = endWithin
	command.Env = nil // the same for all, and not worth reading
	o := &output{}
	if loud {
		fmt.Fprintf(c.Out, "+ %s\n", command)
		o.shown = c.Out
	}
	cmd.Stdout, cmd.Stderr = stream{o, true}, stream{o, false}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if call.Absent != "" && regexp.MustCompile(`(?i)`+call.Absent).Match(o.all) {
			return string(o.stdout), nil
		}
		return string(o.stdout), p.failure(command.String(), string(o.all), err)
	}
	return string(o.stdout), nil
}

// failure is the error of a command, explained where its output is known.
func (p Provider) failure(command, output string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: interrupted: %w", command, err)
	}
	if known, ok := p.explain(output); ok {
		return hint.New(known.Hint, "%s\n  %s: %w\n  %s", known.Text, command, err, indented(output))
	}
	return fmt.Errorf("%s: %w\n  %s", command, err, indented(output))
}

// shownLines is the number of last lines of a program in an error.
const shownLines = 8

func indented(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	lines = lines[max(0, len(lines)-shownLines):]
	return strings.Join(lines, "\n  ")
}

// output keeps the end of what a program prints, of both streams and of standard output alone.
type output struct {
	mu          sync.Mutex
	all, stdout []byte
	shown       io.Writer // may be nil
}

// stream is one of the two streams.
type stream struct {
	*output
	isStdout bool
}

func (s stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = last(append(s.all, p...))
	if s.isStdout {
		s.stdout = last(append(s.stdout, p...))
	}
	if s.shown != nil {
		_, _ = io.WriteString(s.shown, printable.Text(strings.ReplaceAll(string(p), "\r", "\n")))
	}
	return len(p), nil
}

func last(b []byte) []byte { return b[max(0, len(b)-maxOutput):] }
