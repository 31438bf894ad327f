package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// untilWhen is a platform whose deployments fail. It keeps the time that each has.
type untilWhen struct {
	platform.Deployer
	left *[]time.Duration
}

func (p untilWhen) Deploy(ctx context.Context, _ platform.Spec) (*platform.Deployment, error) {
	deadline, _ := ctx.Deadline()
	*p.left = append(*p.left, time.Until(deadline))
	return nil, errors.New("kept")
}

// The limit of a deployment contains the limit of its simulated proxies, of which a control plane accepts some tens a second.
func TestDeployWaitsForSimulatedProxies(t *testing.T) {
	t.Parallel()
	var left []time.Duration
	for _, background := range []string{"", "background: {services: 1, proxies: 5000}\n"} {
		cfg, _ := real(t, strings.NewReplacer("[none, envoy]", "[envoy-xds]").Replace(realText)+background)
		cfg.Platform.Deployer = untilWhen{cfg.Platform.Deployer, &left}
		ran(t, cfg, -1, -1)
	}
	if more := left[len(left)-1] - left[0]; more < mesh.SimulatedLimit(5000)-time.Minute || more < 5*time.Minute {
		t.Errorf("%v, and with simulated proxies %v", left[0], left[len(left)-1])
	}
}
