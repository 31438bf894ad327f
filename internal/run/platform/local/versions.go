package local

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// controlVersions checks that each process of the control plane has the version of the program
// that was found.
func (v *verifier) controlVersions(ctx context.Context) []check.Check {
	var checks []check.Check
	for _, c := range v.control.running {
		answered := c.definition.Version
		if answered == nil {
			continue
		}
		answer, err := v.control.request(ctx, answered.Request, c.context)
		version := ""
		if err == nil {
			version, err = field(answer, answered.Field)
		}
		checks = append(checks, versionCheck(c.name, v.layout.programs[c.definition.Program].version, version, err))
	}
	return checks
}

// proxyVersions checks that each sidecar has the version of the program that was found.
func (v *verifier) proxyVersions(ctx context.Context) []check.Check {
	local := v.layout.spec.Mesh.Local
	if local == nil || local.Verify.Version == "" {
		return nil
	}
	want, _, _ := strings.Cut(v.layout.programs[local.Sidecar.Program].version, " ") // without the digest of a build
	var checks []check.Check
	for _, p := range v.layout.proxiedPods() {
		answer, err := p.admin.get(ctx, "/server_info")
		version := ""
		if err == nil {
			version, err = field(answer, local.Verify.Version)
		}
		checks = append(checks, versionCheck(p.proxyText(), want, version, err))
	}
	return checks
}

// Bounds of the printing of a version, and of its output, bytes.
const (
	versionTimeout = 10 * time.Second
	maxVersion     = 4 << 10
	notStarted     = 127 // exit status of a program whose libraries are missing: what it prints has versions of libraries
)

var versionText = regexp.MustCompile(`\d+(\.\d+)+[\w.+~-]*`)

// printedVersion runs the program of a sidecar, which prints its version, empty if it prints none.
func printedVersion(ctx context.Context, path string, s mesh.Sidecar) string {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	var out strings.Builder
	cmd := exec.CommandContext(ctx, path, s.VersionArgs...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.Dir, cmd.Environ(), time.Second
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		cmd.Env = append(cmd.Env, name+"="+s.Environment[name])
	}
	cmd.Stdout = &limitWriter{&out, maxVersion}
	cmd.Stderr = cmd.Stdout
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() == notStarted { // other programs print their version and fail
		return ""
	}
	return versionText.FindString(out.String())
}

// versionCheck compares a reported version with the expected one. The reported version may contain more.
func versionCheck(who, want, got string, err error) check.Check {
	c := check.Check{Name: "version of " + who, OK: err == nil && strings.Contains(got, want),
		Detail: fmt.Sprintf("it reports %q, %s expected", got, want)}
	if err != nil {
		c.Detail = err.Error()
	}
	if !c.OK {
		c.Hint = "another program answers at its address"
	}
	return c
}

// field returns a string in JSON, by names with dots between them.
func field(answer []byte, path string) (string, error) {
	var v any
	if err := json.Unmarshal(answer, &v); err != nil {
		return "", fmt.Errorf("read %s of the answer: %w", path, err)
	}
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	text, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("the answer has no text %s", path)
	}
	return text, nil
}
