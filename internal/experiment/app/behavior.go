package app

// Protocols a service speaks. An HTTP service answers HTTP/1.1 and, with prior
// knowledge, HTTP/2 on one port; the name says which of them it is called by.
const (
	HTTP1 = "http1"
	HTTP2 = "http2"
	GRPC  = "grpc"
	TCP   = "tcp"
)

// Protocols lists them all.
func Protocols() []string { return []string{HTTP1, HTTP2, GRPC, TCP} }

// GRPCMethod is what a service is called by over gRPC: a message with bytes as
// its field 1 is answered by another.
const GRPCMethod = "/tare.v1.Service/Call"

// AloneHeader asks that the calls a request sets off are made on connections of
// their own, as the request itself was. "Connection: close" says the same in
// HTTP/1.1, but does not pass proxies and is not there in HTTP/2.
const AloneHeader = "tare-alone"

// Behavior is what a service does with each request, besides its calls. All of
// it can be changed while the service runs.
type Behavior struct {
	// ResponseSize is the length of the answer's body; none: the treatment's.
	ResponseSize Sizes `yaml:"responseSize,omitempty" json:"responseSize,omitzero"`
	// Status of every answer; 0 is 200. Of a gRPC service it is translated to the nearest code.
	Status int `yaml:"status,omitempty" json:"status,omitempty"`
	// Time is waited before anything else is done.
	Time Times `yaml:"time,omitempty" json:"time,omitzero"`
	// Delay is waited on top of Time: what a fault adds.
	Delay Times `yaml:"delay,omitempty" json:"delay,omitzero"`
	// CPU is the processor time to burn for each request.
	CPU Duration `yaml:"cpu,omitempty" json:"cpu,omitzero"`
	// Memory is held as long as it is configured, every page of it touched.
	Memory Size `yaml:"memory,omitempty" json:"memory,omitempty"`
	// Errors are answers that fail on purpose; they make no calls.
	Errors *Errors `yaml:"errors,omitempty" json:"errors,omitempty"`
	// RateLimit is how many requests a second are served; the others are
	// answered with 429 at once. 0 is no limit.
	RateLimit float64 `yaml:"rateLimit,omitempty" json:"rateLimit,omitempty"`
	// FailedCallStatus is the status of the answer when a call has failed; 0 is 502.
	FailedCallStatus int `yaml:"failedCallStatus,omitempty" json:"failedCallStatus,omitempty"`
	// Redirects answer requests for a path with 301 and another path.
	Redirects map[string]string `yaml:"redirects,omitempty" json:"redirects,omitempty"`
}

// Errors is a share of the answers that fail.
type Errors struct {
	Ratio  float64 `yaml:"ratio" json:"ratio"`                       // 0..1
	Status int     `yaml:"status,omitempty" json:"status,omitempty"` // 0 is 500
}

// CallOptions are how a call is made. Calls are made one after another, but for
// those that are made alongside the one before them.
type CallOptions struct {
	// Protocol of the call; empty: the callee's.
	Protocol string `yaml:"protocol,omitempty" json:"protocol,omitempty"`
	// Path asked for over HTTP; empty: "/".
	Path string `yaml:"path,omitempty" json:"path,omitempty"`
	// Alongside makes the call at the same time as the one before it.
	Alongside bool `yaml:"alongside,omitempty" json:"alongside,omitempty"`
	// Wait is waited before the call.
	Wait Times `yaml:"wait,omitempty" json:"wait,omitzero"`
	// Probability that the call is made, 0..1; absent: always.
	Probability *float64 `yaml:"probability,omitempty" json:"probability,omitempty"`
	// RequestSize is the length of the request's body; none: 0.
	RequestSize Sizes `yaml:"requestSize,omitempty" json:"requestSize,omitzero"`
	// Headers are added to the request. Trace headers are passed on besides.
	Headers map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	// Timeout of one attempt; 0: none.
	Timeout Duration `yaml:"timeout,omitempty" json:"timeout,omitzero"`
	// Retries is how often a call that failed is made again.
	Retries int `yaml:"retries,omitempty" json:"retries,omitempty"`
	// NewConnection opens a connection for every call and closes it after.
	NewConnection bool `yaml:"newConnection,omitempty" json:"newConnection,omitempty"`
	// FollowRedirects follows them as clients do; otherwise a redirect is a failed call.
	FollowRedirects bool `yaml:"followRedirects,omitempty" json:"followRedirects,omitempty"`
}
