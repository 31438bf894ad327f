// Package worker runs a command for tare in a load worker pod. The [Server] runs
// in the pod and listens on the loopback address only. The [Client] calls it
// through a forwarded connection.
//
// Connections may break at any time. The server therefore keeps the command's
// output, clients read it by offset, and starts are idempotent. A broken
// connection costs time and loses no byte.
package worker

import "time"

// Command is a command for a worker. Path is a path on the worker's system.
type Command struct {
	// ID is the caller's name for this run. A second start with the same ID has no effect.
	ID    string   `json:"id"`
	Path  string   `json:"path"`
	Args  []string `json:"args,omitempty"`
	Env   []string `json:"env,omitempty"` // added to the worker's own, "K=V"
	Stdin []byte   `json:"stdin,omitempty"`
}

// Status is the state of a run.
type Status struct {
	ID      string `json:"id"`
	Ended   bool   `json:"ended"`
	Exit    int    `json:"exit"`            // exit code, -1 if ended by a signal, or still running
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
