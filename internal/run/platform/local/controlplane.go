package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
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
	return hint.Prefix(err, "start %s", c.name)
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
	spec := cp.layout.spec
	all := lists.Map(spec.Topology.Services, func(s app.Service) mesh.ServiceContext {
		return mesh.ServiceContext{Name: s.Name, Protocol: spec.Protocol(s), Callers: callers(spec.Topology, s.Name)}
	})
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

func (cp *controlPlane) ControlMoments(ctx context.Context) (all []mesh.ControlMoment, err error) {
	if !cp.layout.proxied() || cp.layout.spec.Mesh.Local.Moments == nil {
		return nil, nil
	}
	answer, err := cp.request(ctx, *cp.layout.spec.Mesh.Local.Moments, mesh.ChangeContext{Control: cp.contexts(), Secrets: cp.workspace.secrets.get})
	if err == nil {
		err = json.Unmarshal(answer, &all)
	}
	return all, hint.Prefix(err, "read the instants of changes in the control plane")
}

// updateTime ends the names of Envoy's gauges with the instant of the latest configuration, in ms since 1970.
const updateTime = "update_time"

// ofBackground are gauges that changes of background services move too.
var ofBackground = regexp.MustCompile(`^cluster_manager\.|background-`)

// ProxyUpdates implements [platform.Moments]. Proxies that do not count it are absent.
func (cp *controlPlane) ProxyUpdates(ctx context.Context) (map[string][]time.Time, error) {
	all := map[string][]time.Time{}
	if !cp.layout.proxied() {
		return all, nil
	}
	for _, p := range cp.layout.proxiedPods() {
		_, running, _ := cp.processes.alive(p.proxyID())
		if p.admin == nil || running == nil {
			continue
		}
		gauges, err := (&admin{socket: p.admin.socket, base: p.admin.base, statistics: updateTime + "$"}).gauges(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		for name, ms := range gauges {
			changing := cp.layout.spec.Treatment.Levels.BackgroundChanges > 0 && ofBackground.MatchString(name)
			if strings.HasSuffix(name, updateTime) && ms > 0 && !changing {
				all[p.name] = append(all[p.name], time.UnixMilli(ms))
			}
		}
	}
	return all, nil
}

// know adds the background services of the treatment to the control plane. Without a mesh there is none.
func (cp *controlPlane) know(ctx context.Context) error {
	n := cp.layout.spec.Treatment.Levels.BackgroundServices
	if n == 0 || !cp.layout.proxied() {
		return nil
	}
	requests := cp.layout.spec.Mesh.Local.Background
	if requests == nil {
		return fmt.Errorf("background services: %w by mesh %s", errors.ErrUnsupported, cp.layout.spec.Mesh.Name)
	}
	_, err := cp.requestWithin(ctx, servicesTimeout, requests.Services, cp.behind(0))
	return err
}

// servicesTimeout bounds the request for all background services: an API server writes thousands.
const servicesTimeout = time.Minute

func (cp *controlPlane) ChangeBackground(ctx context.Context, number int) error {
	_, err := cp.request(ctx, cp.layout.spec.Mesh.Local.Background.Change, cp.behind(number))
	return err
}

func (cp *controlPlane) behind(number int) mesh.BackgroundContext {
	return mesh.BackgroundContext{Services: cp.layout.spec.Treatment.Levels.BackgroundServices, Number: number, Control: cp.contexts(), Secrets: cp.workspace.secrets.get}
}

type simulatedProxies struct {
	*controlPlane
	agent  string                    // tare-agent
	report func(string)              // receives progress of a long wait, may be nil
	api    platform.SimulatedProxies // without URL if there are none
}

// start starts the simulated proxies of the treatment, and waits until each has a configuration.
func (sp *simulatedProxies) start(ctx context.Context) error {
	count := sp.layout.spec.Treatment.Levels.BackgroundProxies
	if count == 0 || !sp.layout.proxied() {
		return nil
	}
	if err := sp.layout.spec.Mesh.CanSimulate(mesh.OnLocal); err != nil {
		return fmt.Errorf("simulated proxies: %w", err)
	}
	to, err := sp.layout.spec.Mesh.Local.Background.Render(sp.behind(0))
	if err != nil {
		return err
	}
	p, err := sp.layout.newPod("proxies", "")
	if err != nil {
		return err
	}
	port, err := sp.layout.addresses.choose(p.ip)
	if err != nil {
		return fmt.Errorf("start proxies: %w", err)
	}
	listen := fmt.Sprintf("%s:%d", p.ip, port)
	cmd := proc.Command{Path: sp.agent, Log: sp.workspace.provenance.Path("proxies.log"),
		Args: platform.SimulatedArgs(listen, sp.workspace.tokenFile(), count, to)}
	process, err := sp.processes.runIn(ctx, p, "tare", cmd, cmd, nil)
	if err != nil {
		return err
	}
	sp.api = platform.SimulatedProxies{URL: "http://" + listen, Token: sp.workspace.token, Log: cmd.Log}
	return sp.api.Await(ctx, count, sp.layout.spec.Treatment.Levels.BackgroundServices, func() error {
		if exited(process) {
			return ended("proxies/tare", process)
		}
		return nil
	}, sp.report)
}

func (sp *simulatedProxies) Received(ctx context.Context) (*platform.Received, error) {
	if sp.api.URL == "" {
		return nil, nil
	}
	return sp.api.Received(ctx)
}

// background checks that each sidecar knows the background services.
func (v *verifier) background(ctx context.Context) (checks []check.Check) {
	n := int64(v.layout.spec.Treatment.Levels.BackgroundServices)
	if n == 0 || !v.layout.proxied() {
		return nil
	}
	gauge := v.layout.spec.Mesh.Local.Background.Gauge
	if gauge == "" {
		return nil // the start of the simulated proxies checks it
	}
	for _, p := range v.layout.proxiedPods() {
		gauges, err := p.admin.gauges(ctx)
		c := check.Check{Name: "background services in the sidecar of " + p.name, OK: err == nil && gauges[gauge] >= n,
			Detail: fmt.Sprintf("%s is %d, at least %d expected", gauge, gauges[gauge], n)}
		if err != nil {
			c.Detail = err.Error()
		}
		if !c.OK {
			c.Hint = "the control plane does not send them, or the sidecar refuses them; see their logs in the trial's provenance directory"
		}
		checks = append(checks, c)
	}
	return checks
}
