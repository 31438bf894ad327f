package app

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// Speaks returns why the services cannot serve a load of a protocol. The topology alone is valid.
func (t Topology) Speaks(protocol string) error {
	if t.Foreign() {
		return nil
	}
	services := slices.Clone(t.Services)
	for i, s := range services {
		services[i].Protocol = t.ProtocolOf(s, protocol)
	}
	t.Services = services
	first := firstMistake{t: t}
	t.Validate(&first, "")
	return first.err
}

// ProtocolOf is the protocol of a service under a load of a protocol. Only the entry has WebSocket.
func (t Topology) ProtocolOf(s Service, load string) string {
	if load == WebSocket && s.Name != t.EntryName() {
		load = HTTP1
	}
	return cmp.Or(s.Protocol, load, HTTP1)
}

// firstMistake is a [Reporter] that names the service instead of its index.
type firstMistake struct {
	t   Topology
	err error
}

func (f *firstMistake) Sound(string) bool { return f.err == nil }

func (f *firstMistake) Report(path, message, advice string) {
	if f.err != nil {
		return
	}
	var i int
	if n, _ := fmt.Sscanf(path, "services[%d]", &i); n == 1 {
		message = "service " + f.t.Services[i].Name + ": " + message
	}
	f.err = hint.New(advice, "%s", message)
}
