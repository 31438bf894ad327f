package local

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// controlContainer is the container name of a control plane's process, in attribution and faults.
const controlContainer = "control"

// control is a process of the control plane. It is a separate pod, with an address and a name.
// Faults can end it.
type control struct {
	*pod
	definition mesh.Control
	context    mesh.ControlContext
}

// controlPlane is the mesh's control plane on this machine.
type controlPlane struct {
	layout    *layout
	workspace *workspace
	processes *processes
	running   []*control
}

// start starts the control plane, one process after another: each may need the ones before it.
func (cp *controlPlane) start(ctx context.Context) error {
	if cp.layout.spec.Mesh.Local == nil {
		return nil
	}
	for _, definition := range cp.layout.spec.Mesh.Local.Controls() {
		c, err := cp.newControl(definition)
		if err == nil {
			err = cp.run(ctx, c)
		}
		if err != nil {
			return err
		}
		cp.running = append(cp.running, c)
	}
	return nil
}

func (cp *controlPlane) newControl(definition mesh.Control) (*control, error) {
	p, err := cp.layout.newPod(definition.Name, "")
	if err != nil {
		return nil, err
	}
	c := &control{pod: p, definition: definition, context: mesh.ControlContext{
		Name: definition.Name, IP: p.ip.String(), Ports: map[string]int{}, DataDir: cp.workspace.runtime.file(definition.Name + "-data"),
		Services: cp.services(), Options: cp.layout.spec.Mesh.Local.Sidecar.Chosen(), Changing: cp.layout.spec.Changing, Control: cp.contexts(), Secrets: cp.workspace.secrets.get,
	}}
	for _, name := range definition.Ports {
		if c.context.Ports[name], err = cp.layout.addresses.choose(p.ip); err != nil {
			return nil, fmt.Errorf("start %s: %w", definition.Name, err)
		}
	}
	if err := os.Mkdir(c.context.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", definition.Name, err)
	}
	return c, cp.configure(c)
}

// configure writes the configuration: to the provenance, and to the path that the process reads.
func (cp *controlPlane) configure(c *control) error {
	file := c.name + "-control.conf"
	c.context.ConfigPath = cp.workspace.provenance.Path(file)
	_, config, err := c.definition.Render(c.context)
	if err == nil {
		c.context.ConfigPath, err = cp.workspace.keep(file, config)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	return nil
}

// run starts or restarts the process and waits until it is ready.
func (cp *controlPlane) run(ctx context.Context, c *control) error {
	args, _, err := c.definition.Render(c.context)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	cmd := proc.Command{Path: cp.layout.programs[c.definition.Program].path, Args: args, Log: cp.workspace.provenance.Path(c.name + "-control.log")}
	for _, name := range slices.Sorted(maps.Keys(c.definition.Environment)) {
		cmd.Env = append(cmd.Env, name+"="+c.definition.Environment[name])
	}
	process, err := cp.processes.runIn(ctx, c.pod, controlContainer, cmd, cmd, func(ctx context.Context) error { return cp.run(ctx, c) })
	if err != nil {
		return err
	}
	for _, r := range c.definition.Ready {
		err := awaitReady(ctx, c.name+"/"+controlContainer, process, func(ctx context.Context) error {
			_, err := cp.request(ctx, r, c.context)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// services are the services of the topology with their callers, the load generator last.
func (cp *controlPlane) services() []mesh.ServiceContext {
	var all []mesh.ServiceContext
	for _, s := range cp.layout.spec.Topology.Services {
		all = append(all, mesh.ServiceContext{Name: s.Name, Protocol: cp.layout.spec.Protocol(s), Callers: callers(cp.layout.spec.Topology, s.Name)})
	}
	return append(all, mesh.ServiceContext{Name: loadService, Protocol: app.HTTP1})
}

// contexts are the running processes of the control plane, by name.
func (cp *controlPlane) contexts() map[string]mesh.ControlContext {
	all := map[string]mesh.ControlContext{}
	for _, c := range cp.running {
		all[c.name] = c.context
	}
	return all
}

// maxAnswer is the maximum size of a control plane's answer, bytes.
const maxAnswer = 16 << 20

// request sends a request to the control plane and returns the body of a 2xx answer.
func (cp *controlPlane) request(ctx context.Context, r mesh.Request, templates any) ([]byte, error) {
	return cp.requestWithin(ctx, adminTimeout, r, templates)
}

func (cp *controlPlane) requestWithin(ctx context.Context, limit time.Duration, r mesh.Request, templates any) ([]byte, error) {
	r, err := r.Render(templates)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, r.Method, r.URL, strings.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	for name, value := range r.Header {
		request.Header.Set(name, value)
	}
	response, answer, err := platform.Send(request, &http.Transport{}, maxAnswer)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL, err)
	}
	if response.StatusCode/100 != 2 {
		text := cp.workspace.secrets.redact(bytes.TrimSpace(answer[:min(len(answer), maxRefusal)]))
		return nil, fmt.Errorf("%s %s: %s: %s", r.Method, r.URL, response.Status, text)
	}
	return answer, nil
}
