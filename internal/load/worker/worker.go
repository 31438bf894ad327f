// Package worker runs a command for tare where tare itself cannot reach: the
// [Server] runs in a pod of load workers and listens on its loopback address
// alone, and the [Client] calls it through a forwarded connection.
//
// Connections may break at any time. What a command writes is therefore kept by
// the server and read by offset, and asking twice starts nothing twice: a broken
// connection costs time and no byte.
package worker

import "time"

// Command is a command for a worker. Path is a path on the worker's system.
type Command struct {
	// ID is the caller's name for this run: asked for again, it is not started again.
	ID    string   `json:"id"`
	Path  string   `json:"path"`
	Args  []string `json:"args,omitempty"`
	Env   []string `json:"env,omitempty"` // added to the worker's own, "K=V"
	Stdin []byte   `json:"stdin,omitempty"`
}

// Status is how a run is getting on.
type Status struct {
	ID      string `json:"id"`
	Ended   bool   `json:"ended"`
	Exit    int    `json:"exit"`            // status; -1: a signal ended it, or it still runs
	State   string `json:"state,omitempty"` // how it ended, "signal: killed"
	Stopped bool   `json:"stopped,omitempty"`
	Stdout  int64  `json:"stdout"` // bytes written so far
	Stderr  int64  `json:"stderr"`
}

// Streams of a run that can be read.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// stopRequest ends a run.
type stopRequest struct {
	Grace time.Duration `json:"grace"` // ns until it is killed
}

// refusal is the body of an answer that is not 2xx.
type refusal struct {
	Error string `json:"error"`
}
