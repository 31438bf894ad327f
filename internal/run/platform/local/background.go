package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
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
	_, err := cp.request(ctx, requests.Services, cp.behind(0))
	return err
}

// ChangeBackground implements [platform.Background].
func (cp *controlPlane) ChangeBackground(ctx context.Context, number int) error {
	_, err := cp.request(ctx, cp.layout.spec.Mesh.Local.Background.Change, cp.behind(number))
	return err
}

func (cp *controlPlane) behind(number int) mesh.BackgroundContext {
	return mesh.BackgroundContext{Services: cp.layout.spec.Treatment.Levels.BackgroundServices, Number: number, Control: cp.contexts(), Secrets: cp.workspace.secrets.get}
}

// background checks that each sidecar knows the background services.
func (v *verifier) background(ctx context.Context) (checks []check.Check) {
	n := int64(v.layout.spec.Treatment.Levels.BackgroundServices)
	if n == 0 || !v.layout.proxied() {
		return nil
	}
	gauge := v.layout.spec.Mesh.Local.Background.Gauge
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
