package app

// Instance is one running instance of a service, complete: what the program
// that plays it reads (JSON), written by the platform that starts it.
type Instance struct {
	Name string `json:"name"`
	// ResponseSize is the length of the answer's body in bytes.
	ResponseSize int64 `json:"responseSize"`
	// Status of every answer; 0 is 200.
	Status int `json:"status,omitempty"`
	// Calls are made one after another for every request, before it is answered.
	Calls []Upstream `json:"calls,omitempty"`
}

// Upstream is a service an instance calls, by the URLs that lead to it, taken in turn.
type Upstream struct {
	Service string   `json:"service"`
	URLs    []string `json:"urls"`
}
