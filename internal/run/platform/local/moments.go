package local

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// ControlMoments implements [platform.Moments].
func (cp *controlPlane) ControlMoments(ctx context.Context) (all []mesh.ControlMoment, err error) {
	if !cp.layout.proxied() || cp.layout.spec.Mesh.Local.Moments == nil {
		return nil, nil
	}
	answer, err := cp.request(ctx, *cp.layout.spec.Mesh.Local.Moments, mesh.ChangeContext{Control: cp.contexts(), Secrets: cp.workspace.secrets.get})
	if err == nil {
		err = json.Unmarshal(answer, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("read the instants of changes in the control plane: %w", err)
	}
	return all, nil
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
