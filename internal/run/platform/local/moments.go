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

// moments implements [platform.Moments].
type moments struct {
	layout    *layout
	control   *controlPlane
	processes *processes
}

// ControlMoments implements [platform.Moments].
func (m *moments) ControlMoments(ctx context.Context) (all []mesh.ControlMoment, err error) {
	if !m.layout.proxied() || m.layout.spec.Mesh.Local.Moments == nil {
		return nil, nil
	}
	answer, err := m.control.request(ctx, *m.layout.spec.Mesh.Local.Moments, mesh.ChangeContext{Control: m.control.contexts(), Secrets: m.control.workspace.secrets.get})
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
func (m *moments) ProxyUpdates(ctx context.Context) (map[string][]time.Time, error) {
	all := map[string][]time.Time{}
	if !m.layout.proxied() {
		return all, nil
	}
	for _, p := range m.layout.proxiedPods() {
		_, running, _ := m.processes.alive(p.proxyID())
		if p.admin == nil || running == nil {
			continue
		}
		gauges, err := (&admin{socket: p.admin.socket, base: p.admin.base, statistics: updateTime + "$"}).gauges(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		for name, ms := range gauges {
			changing := m.layout.spec.Treatment.Levels.BackgroundChanges > 0 && ofBackground.MatchString(name)
			if strings.HasSuffix(name, updateTime) && ms > 0 && !changing {
				all[p.name] = append(all[p.name], time.UnixMilli(ms))
			}
		}
	}
	return all, nil
}
