package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
)

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

// ChangeBackground implements [platform.Background].
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

// Received implements [platform.Background].
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
