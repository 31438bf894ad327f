// Package local runs trials as processes on this machine, without root, cluster or
// containers. Each replica of a service is a "pod": an address in 127.0.0.0/8, an
// application process and, with a mesh, its sidecar. The load generator is a pod too.
//
// The kernel chooses the ports. Applications inherit sockets bound here. A
// sidecar binds port 0 and reports its port on its admin interface. So callees start
// before callers, and in a pod the sidecar starts before the application.
package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/cgroup"
	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// loadService is the name of the load generator's pod and of its service.
const loadService = platform.LoadService

// agentProgram is the name in mesh definitions of the program that plays the
// services. Its version is the version of tare, in the environment.
const agentProgram = "tare-agent"

// Options of the local platform.
type Options struct {
	// AgentPath is the tare-agent program. It plays the services.
	AgentPath string
	// FetchProgram returns path and version of a data plane's program, by its name in
	// the mesh definition. It downloads a missing program.
	FetchProgram func(ctx context.Context, name string) (path, version string, err error)
	// ProgramAt does the same for a program at a path, without a download. version has what
	// distinguishes two builds.
	ProgramAt func(ctx context.Context, name, path string) (found, version string, err error)
	// ProgramOf does the same for a version, with a download.
	ProgramOf func(ctx context.Context, name, version string) (path, found string, err error)
	// Report receives progress of long waits, and nil discards it.
	Report func(string)

	edit   func(*app.Instance) // changes the configuration of an application, for tests
	answer time.Duration       // maximum time of a probe, 0 for probeTimeout
	settle time.Duration       // maximum delay of counters, 0 for settleTimeout
	start  time.Duration       // maximum start of a program of the user, 0 for startTimeout
	astray time.Duration       // the same while it listens elsewhere, 0 for elsewhereTimeout
}

// Platform is the local platform.
type Platform struct {
	options Options

	mu       sync.Mutex
	programs map[string]program // by name
}

type program struct{ path, version string }

// New makes the local platform.
func New(o Options) *Platform {
	return &Platform{options: o, programs: map[string]program{agentProgram: {path: o.AgentPath}}}
}

// Sweep kills leftover processes of killed runs and removes their directories of keys. A run calls it
// first, before it reads its file: what ends a run early then leaves no keys behind. Keys need one free
// descriptor, and processes two. On a system that cannot identify leftovers (see [proc.Sweep]) no process is killed.
// warn receives what failed, a line each. A run continues then, as leftovers do not affect it.
func Sweep(warn func(line string)) {
	_, err := proc.Sweep()
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	cgroup.Sweep()
	for _, err := range []error{err, sweepRuntimeDirs()} {
		if err == nil {
			continue
		}
		line := "warning: " + err.Error()
		if h := hint.Of(err); h != "" {
			line += "; " + h
		}
		warn(line)
	}
}

// Prepare finds the programs of the meshes.
func (p *Platform) Prepare(ctx context.Context, meshes []mesh.Definition) (map[string]string, error) {
	if info, err := os.Stat(p.options.AgentPath); err != nil {
		return nil, hint.Wrap(fmt.Errorf("find tare-agent: %w", err), "build it with `make build`, or install it with tare by `go install` of cmd/...; it must be beside tare")
	} else if info.IsDir() || info.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("find tare-agent: %s is not executable", p.options.AgentPath)
	}
	versions := map[string]string{}
	for _, m := range meshes {
		if m.Local == nil {
			continue
		}
		for _, name := range m.Local.Programs() {
			prog, own, err := p.programIn(ctx, m, name)
			if err != nil {
				return nil, fmt.Errorf("prepare mesh %s: %w", m.Name, err)
			}
			if own || strings.Contains(name, "/") {
				name = m.Name
			}
			// A variant's program that nobody knows has a digest and no number.
			if s := m.Local.Sidecar; len(s.VersionArgs) > 0 && prog.path != "" && (prog.version == "" || strings.HasPrefix(prog.version, "(")) {
				prog.version = strings.TrimSpace(printedVersion(ctx, prog.path, s) + " " + prog.version)
			}
			if prog.version != "" {
				versions[name] = prog.version
			}
		}
	}
	return versions, nil
}

// Deploy starts the application and the data plane of one trial.
func (p *Platform) Deploy(ctx context.Context, spec platform.Spec) (_ *platform.Deployment, err error) {
	defer func() { err = hint.Prefix(err, "deploy %s", spec.Title()) }()
	if err := supported(spec); err != nil {
		return nil, err
	}
	if spec.Provenance, err = filepath.Abs(spec.Provenance); err != nil {
		return nil, err
	}
	// The context ends with its cause when any process of the deployment does.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d, err := p.newDeployment(ctx, spec, cancel)
	if err != nil {
		return nil, err
	}
	if err = d.startAll(ctx); err == nil && context.Cause(ctx) == nil {
		return d.declare(), nil
	}
	return nil, errors.Join(cmp.Or(context.Cause(ctx), err), d.Remove(context.WithoutCancel(ctx)))
}

// newDeployment makes the parts of a deployment and starts none of them.
func (p *Platform) newDeployment(ctx context.Context, spec platform.Spec, abandon context.CancelCauseFunc) (*deployment, error) {
	trial := &layout{spec: spec, programs: map[string]program{}, pods: map[string][]*pod{}}
	if trial.proxied() {
		for _, name := range spec.Mesh.Local.Programs() {
			var err error
			if trial.programs[name], _, err = p.programIn(ctx, spec.Mesh, name); err != nil {
				return nil, err
			}
		}
	}
	files, err := newWorkspace(platform.Provenance(spec.Provenance))
	if err != nil {
		return nil, err
	}
	ps := &processes{attribute: spec.Attribute, cpus: spec.CPUs, workspace: files, abandon: abandon}
	if trial.proxied() {
		ps.limits.of = spec.Mesh.Local.Sidecar.Limits
	}
	if trial.addresses, err = newAddresses(); err != nil {
		return nil, errors.Join(err, files.runtime.remove())
	}
	deployed.enter(ps)
	control := &controlPlane{layout: trial, workspace: files, processes: ps}
	data := &proxies{layout: trial, workspace: files, processes: ps, control: control}
	if trial.proxied() {
		data.program = trial.programs[spec.Mesh.Local.Sidecar.Program].path
	}
	sockets := &socketCounts{layout: trial}
	return &deployment{
		layout: trial, workspace: files, processes: ps, control: control, proxies: data, sockets: sockets,
		simulated: &simulatedProxies{controlPlane: control, agent: p.options.AgentPath, report: p.options.Report},
		apps:      &applications{layout: trial, workspace: files, processes: ps, agent: p.options.AgentPath, edit: p.options.edit},
		own:       &ownPrograms{layout: trial, workspace: files, processes: ps, limit: cmp.Or(p.options.start, startTimeout), elsewhere: cmp.Or(p.options.astray, elsewhereTimeout)},
		verifier: &verifier{layout: trial, processes: ps, control: control, proxies: data, sockets: sockets,
			answer: cmp.Or(p.options.answer, probeTimeout), settle: cmp.Or(p.options.settle, settleTimeout)},
		faults:  &taskFaults{layout: trial, processes: ps, control: control},
		network: &networkFaults{layout: trial, processes: ps},
	}, nil
}

// programIn finds one of a mesh's programs. It is its own if a variant has another than the mesh it comes from.
func (p *Platform) programIn(ctx context.Context, m mesh.Definition, name string) (prog program, own bool, err error) {
	var path, version string
	if s := m.Local.Sidecar; name == s.Program {
		path, version = s.Path, s.Version
	}
	prog, err = p.program(ctx, name, path, version)
	return prog, path != "" || version != "", err
}

// program finds a program by its name in definitions, or at the path or in the version of a variant.
func (p *Platform) program(ctx context.Context, name, at, version string) (program, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := name
	switch {
	case at != "":
		key = name + " at " + at
	case version != "":
		key = name + " " + version
	}
	if prog, ok := p.programs[key]; ok {
		return prog, nil
	}
	find := func() (path, version string, err error) { return "", "", errors.ErrUnsupported }
	switch {
	case at != "" && p.options.ProgramAt != nil:
		find = func() (path, version string, err error) { return p.options.ProgramAt(ctx, name, at) }
	case at == "" && version != "" && p.options.ProgramOf != nil:
		find = func() (path, found string, err error) { return p.options.ProgramOf(ctx, name, version) }
	case at == "" && version == "" && p.options.FetchProgram != nil:
		find = func() (path, version string, err error) { return p.options.FetchProgram(ctx, name) }
	}
	path, found, err := find()
	if err != nil {
		return program{}, fmt.Errorf("find %s: %w", key, err)
	}
	p.programs[key] = program{path, found}
	return p.programs[key], nil
}

// supported refuses specifications that this platform does not support.
func supported(spec platform.Spec) error {
	if p := spec.Treatment.Levels.Protocol; p != "" && !slices.Contains(app.Protocols(), p) {
		return fmt.Errorf("protocol %s: %w on the local platform", p, errors.ErrUnsupported)
	}
	if err := errors.Join(spec.Check(), spec.Mesh.On(mesh.OnLocal)); err != nil {
		return err
	}
	for _, s := range spec.Topology.Services {
		if p := s.Carried(spec.Protocol(s)); spec.Mesh.Forwards(p) != nil {
			return fmt.Errorf("service %s uses %s: %w: %w", s.Name, p, errors.ErrUnsupported, spec.Mesh.Forwards(p))
		}
	}
	return nil
}

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
