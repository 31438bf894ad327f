package kube

import (
	"errors"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// Services of every protocol but WebSocket run on clusters.
func TestProtocols(t *testing.T) {
	for _, protocol := range append(app.Protocols(), "http3") {
		spec := platform.Spec{Topology: app.Topology{Services: []app.Service{{Name: "echo", Protocol: protocol}}}}
		err := checkSupported(spec)
		if refused := errors.Is(err, errors.ErrUnsupported); refused != (protocol == app.WebSocket || protocol == "http3") {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}
