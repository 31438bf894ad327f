package load

// Protocols the engine speaks, HTTP/1.1 also under other names that experiments give it.
const (
	ProtocolHTTP1 = "http1"
	ProtocolHTTP2 = "http2"
	ProtocolGRPC  = "grpc"
	ProtocolTCP   = "tcp"
	ProtocolAuto  = "auto"

	ProtocolWebSocket = "websocket"
)

// protocols by every name a profile may give them.
var protocols = map[string]string{
	"": ProtocolHTTP1, ProtocolHTTP1: ProtocolHTTP1, "http/1.1": ProtocolHTTP1, "http": ProtocolHTTP1,
	ProtocolHTTP2: ProtocolHTTP2, ProtocolGRPC: ProtocolGRPC, ProtocolTCP: ProtocolTCP, ProtocolAuto: ProtocolAuto,
	ProtocolWebSocket: ProtocolWebSocket,
}

// mayHTTP2 reports whether the load may use HTTP/2.
func (p *Profile) mayHTTP2() bool {
	return p.Protocol == ProtocolHTTP2 || p.Protocol == ProtocolGRPC || p.Protocol == ProtocolAuto
}
