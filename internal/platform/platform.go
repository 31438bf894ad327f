// Package platform says where a trial runs. A [Platform] deploys the
// application and the mesh's data plane of one trial; the [Deployment] is that
// which then stands. Variants are in local/ and kube/, and platformtest/ holds
// the suite every variant passes.
package platform

import (
	"context"

	"github.com/tare-mesh/tare/internal/app"
	"github.com/tare-mesh/tare/internal/mesh"
	"github.com/tare-mesh/tare/internal/plan"
	"github.com/tare-mesh/tare/internal/proc"
)

// Platform deploys trials, one at a time.
type Platform interface {
	// Prepare makes ready what every trial of the run needs (sweeps what an
	// earlier run left, fetches data planes) and names the versions found.
	Prepare(ctx context.Context, meshes []mesh.Definition) (versions map[string]string, err error)
	// Deploy returns once everything of the trial is up. When it fails it has removed what it made.
	Deploy(ctx context.Context, spec Spec) (Deployment, error)
}

// Spec is one deployment, complete. What was asked is here; what runs is made from it.
type Spec struct {
	Trial      plan.Trial
	Treatment  plan.Treatment
	Topology   app.Topology
	Mesh       mesh.Definition
	CPUs       map[string]string // processors by plane: "app", "data", "load"
	Provenance string            // existing directory for rendered configs, command lines and logs
}

// Deployment is the running application of one trial.
type Deployment interface {
	// Entry are the URLs the load is sent to: the load generator's own sidecar
	// where the mesh has one, the replicas of the entry service where it has not.
	Entry() []string
	// Tasks lists every task that now runs, attributed to planes, the harness included.
	Tasks(ctx context.Context) ([]Task, error)
	// StartLoad runs one load worker in the load plane. cmd's CPUs and Log are filled in by the deployment.
	StartLoad(ctx context.Context, cmd proc.Command) (*proc.Process, error)
	// Remove stops everything and leaves nothing behind. It may be called more than once.
	Remove(ctx context.Context) error
}

// Verifier is a Deployment that can prove its data plane is in the path.
type Verifier interface {
	// Verify sends probes and compares counters. A check that does not hold is
	// in the answer, not in the error; the error says that checking itself failed.
	Verify(ctx context.Context) ([]Check, error)
}

// Check is one thing that was verified, with the evidence.
type Check struct {
	Name   string `json:"name"` // e.g. "inbound counter"
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // what was seen, e.g. "http.inbound.downstream_rq_total moved by 20, 20 probes"
	Hint   string `json:"hint,omitempty"`
}

// Task is a running task that a meter can read.
type Task struct {
	mesh.Task
	PID int `json:"pid,omitempty"` // local platform
}

// Watcher is a Deployment that watches its tasks. Err returns the reason it can
// no longer be measured (a task that exited), or nil.
type Watcher interface {
	Err() error
}
