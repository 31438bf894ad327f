package experiment_test

import (
	"fmt"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// Answers of every protocol but TCP show which configuration served them.
func TestProtocolsOfChanges(t *testing.T) {
	for protocol, refused := range map[string]bool{app.HTTP1: false, app.HTTP2: false, app.GRPC: false, app.WebSocket: false, app.TCP: true} {
		text := fmt.Sprintf("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\nfactors: {protocol: [%s]}\nphases: {measure: 20s}\nchanges: {every: 500ms}\n", protocol)
		names := known
		names.Protocols = []string{protocol}
		_, err := experiment.Parse("changes.yaml", []byte(text), names)
		if !refused {
			must.OK(t, err)
			continue
		}
		must.Fail(t, err, "shows which version served each answer")
	}
}
