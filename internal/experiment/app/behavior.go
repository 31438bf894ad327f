package app

// Protocols of services. An HTTP service supports HTTP/1.1 and, with prior
// knowledge, HTTP/2 on one port. The protocol is the one of its clients.
const (
	HTTP1 = "http1"
	HTTP2 = "http2"
	GRPC  = "grpc"
	TCP   = "tcp"
	// WebSocket is a protocol of the entry alone: the load sends messages on upgraded connections. Its
	// calls and other services use HTTP/1.1.
	WebSocket = "websocket"
)

// Protocols lists them all.
func Protocols() []string { return []string{HTTP1, HTTP2, GRPC, TCP, WebSocket} }

// GRPCMethod is the gRPC method of a service. Request and response are messages
// with bytes as field 1.
const GRPCMethod = "/tare.v1.Service/Call"

// GRPCPayload is the number of the only field of these messages, of type bytes.
const GRPCPayload = 1

// AloneHeader makes a service send the calls of a request on new connections, as
// the request itself was. "Connection: close" means the same in HTTP/1.1, but
// proxies do not forward it, and HTTP/2 does not have it.
const AloneHeader = "tare-alone"

// AnswersHeader in a WebSocket handshake has the number of messages, each of the response size,
// that answer a message. 0 is none. Without it the answer is the message itself.
const AnswersHeader = "tare-answers"

// Behavior is the work of a service for each request, besides its calls. All of
// it can be changed while the service runs.
type Behavior struct {
	// ResponseSize is the length of the response's body. Without one, it is the treatment's.
	ResponseSize Sizes `yaml:"responseSize,omitempty" json:"responseSize,omitzero"`
	// Status of every response. 0 means 200. A gRPC service uses the nearest code.
	Status int `yaml:"status,omitempty" json:"status,omitempty"`
	// Time is waited before any other work.
	Time Times `yaml:"time,omitempty" json:"time,omitzero"`
	// Delay is waited in addition to Time, and faults set it.
	Delay Times `yaml:"delay,omitempty" json:"delay,omitzero"`
	// CPU time burnt for each request.
	CPU Duration `yaml:"cpu,omitempty" json:"cpu,omitzero"`
	// Memory is allocated while it is configured, with every page touched.
	Memory Size `yaml:"memory,omitempty" json:"memory,omitempty"`
	// Errors are injected failures. They make no calls.
	Errors *Errors `yaml:"errors,omitempty" json:"errors,omitempty"`
	// RateLimit bounds the requests served per second. The response to others is
	// 429. 0 means no limit.
	RateLimit float64 `yaml:"rateLimit,omitempty" json:"rateLimit,omitempty"`
	// FailedCallStatus is the status of the response after a failed call. 0 means 502.
	FailedCallStatus int `yaml:"failedCallStatus,omitempty" json:"failedCallStatus,omitempty"`
	// Redirects respond to requests for a path with 301 and another path.
	Redirects map[string]string `yaml:"redirects,omitempty" json:"redirects,omitempty"`
}

// Errors is a share of responses that fail.
type Errors struct {
	Ratio  float64 `yaml:"ratio" json:"ratio"`                       // 0..1
	Status int     `yaml:"status,omitempty" json:"status,omitempty"` // 0 is 500
}

// CallOptions are options of a call. Calls are made one after another, except
// calls with Alongside.
type CallOptions struct {
	// Protocol of the call. Empty means the callee's.
	Protocol string `yaml:"protocol,omitempty" json:"protocol,omitempty"`
	// Path of the HTTP request. Empty means "/".
	Path string `yaml:"path,omitempty" json:"path,omitempty"`
	// Alongside makes the call at the same time as the one before it.
	Alongside bool `yaml:"alongside,omitempty" json:"alongside,omitempty"`
	// Wait is waited before the call.
	Wait Times `yaml:"wait,omitempty" json:"wait,omitzero"`
	// Probability of the call, 0..1. Absent means always.
	Probability *float64 `yaml:"probability,omitempty" json:"probability,omitempty"`
	// RequestSize is the length of the request's body. Without one, it is 0.
	RequestSize Sizes `yaml:"requestSize,omitempty" json:"requestSize,omitzero"`
	// Headers are added to the request. Trace headers are passed on besides.
	Headers map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	// Timeout of one attempt. 0 means none.
	Timeout Duration `yaml:"timeout,omitempty" json:"timeout,omitzero"`
	// Retries bounds the retries of a failed call.
	Retries int `yaml:"retries,omitempty" json:"retries,omitempty"`
	// NewConnection opens a connection for every call and closes it after.
	NewConnection bool `yaml:"newConnection,omitempty" json:"newConnection,omitempty"`
	// FollowRedirects follows redirects. Otherwise a redirect is a failed call.
	FollowRedirects bool `yaml:"followRedirects,omitempty" json:"followRedirects,omitempty"`
}
