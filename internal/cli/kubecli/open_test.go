package kubecli

import (
	"io"
	"testing"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment"
)

// TARE_SERVICE_CIDR overrides the service CIDR, for `tare mesh` and for runs.
func TestServiceNetworkOfTheEnvironment(t *testing.T) {
	t.Setenv("TARE_SERVICE_CIDR", "34.118.224.0/20")
	c := cli.New(console.Console{Err: io.Discard}, Kubernetes())
	if got := meshOptions(c, experiment.MeshOptions{}, nil).ServiceCIDR; got != "34.118.224.0/20" {
		t.Errorf("it is %q", got)
	}
}
