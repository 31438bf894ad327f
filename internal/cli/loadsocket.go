package cli

import (
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/load"
)

// speakWebSocket sets the protocol of URLs that begin with ws:// or wss://.
func speakWebSocket(p *load.Profile) error {
	if p.Protocol == "" && slices.ContainsFunc(p.Targets, func(u string) bool { return strings.HasPrefix(u, "ws://") || strings.HasPrefix(u, "wss://") }) {
		p.Protocol = load.ProtocolWebSocket
	}
	return nil
}
