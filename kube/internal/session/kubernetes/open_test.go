package kubernetes

import (
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
)

// TARE_SERVICE_CIDR overrides the service CIDR, for `tare mesh` and for runs.
func TestServiceNetworkOfTheEnvironment(t *testing.T) {
	t.Setenv("TARE_SERVICE_CIDR", "34.118.224.0/20")
	if got := MeshOptions(experiment.MeshOptions{}, "", nil).ServiceCIDR; got != "34.118.224.0/20" {
		t.Errorf("it is %q", got)
	}
}
