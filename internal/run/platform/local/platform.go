// Package local runs trials as processes on this machine: no root, no cluster,
// no container. Each replica of a service is a "pod": an address of its own in
// 127.0.0.0/8, an application process and, where the mesh has one, its sidecar.
// The load generator is a pod too.
//
// Ports come from the kernel. The applications' sockets are bound here and
// inherited; a sidecar binds port 0 and says through its admin interface what it
// got. Hence the order of starting: callees before callers, and in a pod the
// sidecar before the application that calls through it.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// loadService is the name of the load generator's pod and of its service.
const loadService = platform.LoadService

// agentProgram is what a mesh definition calls the program that plays the
// services; its version is tare's own, which the environment names.
const agentProgram = "tare-agent"

// Options of the local platform.
type Options struct {
	// AgentPath is the tare-agent program, which plays the services.
	AgentPath string
	// FetchProgram finds a data plane's program by the name the mesh definition
	// gives it, downloading it where need be, and says its version.
	FetchProgram func(ctx context.Context, name string) (path, version string, err error)
	// Report receives warnings of Prepare, a line each. May be nil.
	Report func(line string)

	edit   func(*app.Instance) // changes what an application is told; for tests
	settle time.Duration       // how long counters may lag; 0: settleTimeout
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

// Prepare kills what earlier runs left, removes their secrets, and finds the
// programs of the meshes' data planes. Where a system cannot tell a leftover
// process from another with its number (see [proc.Sweep]), none is killed.
func (p *Platform) Prepare(ctx context.Context, meshes []mesh.Definition) (map[string]string, error) {
	if _, err := proc.Sweep(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		p.warn(err)
	}
	if err := sweepRuntimeDirs(); err != nil {
		p.warn(err)
	}
	if info, err := os.Stat(p.options.AgentPath); err != nil {
		return nil, hint.Wrap(fmt.Errorf("find the program that plays the services: %w", err), "build it with `make build`; it lies beside tare")
	} else if info.IsDir() || info.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("find the program that plays the services: %s is not a program", p.options.AgentPath)
	}
	versions := map[string]string{}
	for _, m := range meshes {
		if m.Local == nil {
			continue
		}
		for _, name := range m.Local.Programs() {
			prog, err := p.program(ctx, name)
			if err != nil {
				return nil, fmt.Errorf("prepare mesh %s: %w", m.Name, err)
			}
			if prog.version != "" {
				versions[name] = prog.version
			}
		}
	}
	return versions, nil
}

// warn reports a sweep that failed. The run goes on: what is left does not take part in it.
func (p *Platform) warn(err error) {
	if p.options.Report == nil {
		return
	}
	line := "warning: " + err.Error()
	if h := hint.Of(err); h != "" {
		line += "; " + h
	}
	p.options.Report(line)
}

func (p *Platform) program(ctx context.Context, name string) (program, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if prog, ok := p.programs[name]; ok {
		return prog, nil
	}
	if p.options.FetchProgram == nil {
		return program{}, fmt.Errorf("find %s: %w", name, errors.ErrUnsupported)
	}
	path, version, err := p.options.FetchProgram(ctx, name)
	if err != nil {
		return program{}, fmt.Errorf("find %s: %w", name, err)
	}
	p.programs[name] = program{path, version}
	return p.programs[name], nil
}

// Deploy starts the application and the data plane of one trial.
func (p *Platform) Deploy(ctx context.Context, spec platform.Spec) (*platform.Deployment, error) {
	d, err := p.deploy(ctx, spec)
	if err != nil {
		return nil, err
	}
	return d.declare(), nil
}

func (p *Platform) deploy(ctx context.Context, spec platform.Spec) (_ *deployment, err error) {
	if err := supported(spec); err != nil {
		return nil, fmt.Errorf("deploy %s: %w", spec.Mesh.Name, err)
	}
	if spec.Provenance, err = filepath.Abs(spec.Provenance); err != nil {
		return nil, fmt.Errorf("deploy %s: %w", spec.Mesh.Name, err)
	}
	// The context ends with its cause when any process of the deployment does.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d, err := p.newDeployment(ctx, spec, cancel)
	if err != nil {
		return nil, fmt.Errorf("deploy %s: %w", spec.Mesh.Name, err)
	}
	if err = d.startAll(ctx); err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, errors.Join(fmt.Errorf("deploy %s: %w", spec.Mesh.Name, err), d.Remove(ctx))
	}
	return d, nil
}

// newDeployment makes the parts of a deployment and starts none of them.
func (p *Platform) newDeployment(ctx context.Context, spec platform.Spec, abandon context.CancelCauseFunc) (*deployment, error) {
	trial := &layout{spec: spec, programs: map[string]program{}, addresses: newAddresses(), pods: map[string][]*pod{}}
	if trial.proxied() {
		for _, name := range spec.Mesh.Local.Programs() {
			var err error
			if trial.programs[name], err = p.program(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	files, err := newWorkspace(spec.Provenance)
	if err != nil {
		return nil, err
	}
	ps := &processes{mesh: spec.Mesh, cpus: spec.CPUs, workspace: files, abandon: abandon}
	control := &controlPlane{layout: trial, workspace: files, processes: ps}
	data := &proxies{layout: trial, workspace: files, processes: ps, control: control}
	if trial.proxied() {
		data.program = trial.programs[spec.Mesh.Local.Sidecar.Program].path
	}
	return &deployment{
		layout: trial, workspace: files, processes: ps, control: control, proxies: data,
		apps:     &applications{layout: trial, workspace: files, processes: ps, agent: p.options.AgentPath, edit: p.options.edit},
		verifier: &verifier{layout: trial, processes: ps, control: control, proxies: data, settle: cmp.Or(p.options.settle, settleTimeout)},
		faults:   &taskFaults{layout: trial, processes: ps, control: control},
		network:  &networkFaults{layout: trial, processes: ps},
		times:    &stageTimes{layout: trial, workspace: files},
	}, nil
}

// supported refuses what this platform cannot do, and what would confuse it.
func supported(spec platform.Spec) error {
	if p := spec.Treatment.Levels.Protocol; p != "" && !slices.Contains(app.Protocols(), p) {
		return fmt.Errorf("protocol %s: %w on the local platform", p, errors.ErrUnsupported)
	}
	if len(spec.Topology.Services) == 0 {
		return errors.New("the topology has no services")
	}
	if _, ok := spec.Topology.Service(loadService); ok {
		return hint.Wrap(fmt.Errorf("a service is called %q, as the load generator is", loadService), "give the service another name")
	}
	if err := spec.Mesh.On(mesh.OnLocal); err != nil {
		return err
	}
	for _, s := range spec.Topology.Services {
		if p := cmp.Or(s.Protocol, spec.Treatment.Levels.Protocol); spec.Mesh.Provides.L7 && p == app.TCP && !spec.Mesh.Local.TCP {
			return hint.Wrap(fmt.Errorf("service %s speaks tcp: %w by mesh %s, which understands HTTP", s.Name, errors.ErrUnsupported, spec.Mesh.Name),
				"take a mesh that forwards connections, such as envoy-tcp")
		}
	}
	return nil
}
