// Package platform says where a trial runs. A [Platform] deploys the
// application and the mesh's data plane of one trial; the [Deployment] is that
// which then stands. Variants are in local/ and kube/, and platformtest/ holds
// the suite every variant passes.
package platform

import (
	"context"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
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
	// StartLoad runs one load worker in the load plane. cmd's CPUs and Log are filled
	// in by the deployment. What the command writes into cmd.Dir is there when the
	// process has ended, wherever it ran; other files of this machine it may not have.
	StartLoad(ctx context.Context, cmd proc.Command) (Process, error)
	// Remove stops everything and leaves nothing behind. It may be called more than once.
	Remove(ctx context.Context) error
}

// Process is a load worker under way, wherever it runs. [*proc.Process] is one.
type Process interface {
	// Wait returns when it has ended and all it wrote has arrived. The error is
	// a [*proc.ExitError] where it ended in another way than with status 0.
	Wait() error
	// Stop asks it to end, kills it after grace, and returns when it has ended. One
	// that had ended already is no error.
	Stop(ctx context.Context, grace time.Duration) error
}

// LoadWorkers is a Deployment that has so many load workers of its own, each for
// one command with one thread. The load is then shared among them exactly: the
// n-th call of StartLoad since the last load has ended is for worker n.
type LoadWorkers interface {
	LoadWorkers() int
}

// LoadClocks is a Deployment whose load workers have clocks of their own.
type LoadClocks interface {
	// LoadClock says how far the clock of a worker is ahead of tare's, and how far
	// off that may be.
	LoadClock(ctx context.Context, worker int) (ahead, unsure time.Duration, err error)
}

// Paced is a Deployment whose counters are refreshed only so often, whoever
// asks. Each carries the time of its own reading. An edge of the measure phase
// then falls between two of them, and a reading under the same load stands in for it.
type Paced interface {
	// Refresh is the longest time between two refreshes of one counter.
	Refresh() time.Duration
}

// Verifier is a Deployment that can prove its data plane is in the path.
type Verifier interface {
	// Verify sends probes and compares counters. A check that does not hold is
	// in the answer, not in the error; the error says that checking itself failed.
	Verify(ctx context.Context) ([]Check, error)
}

// Cautious is a Deployment that knows of itself what a reader of its figures must be told.
type Cautious interface {
	Cautions() []Caution
}

// Caution is one such thing; it becomes a warning of the trial about its latencies.
type Caution struct {
	Code    string
	Message string
	Hint    string
}

// Check is a verified property of a deployment.
type Check = check.Check

// Task is a running task that a meter can read.
type Task struct {
	mesh.Task
	PID int `json:"pid,omitempty"` // local platform
	// Restarted says that a fault's end started it: it had used nothing before.
	Restarted bool `json:"restarted,omitempty"`
}

// Watcher is a Deployment that watches its tasks. Err returns the reason it can
// no longer be measured (a task that exited), or nil.
type Watcher interface {
	Err() error
}

// Faulty is a Deployment whose tasks can be made to fail, and mended again. What
// is ended so is no longer what [Watcher] watches.
type Faulty interface {
	// Victims lists what can be hit, in the order of services and replicas; those that have been ended are among them.
	Victims() []Victim
	// End ends a task: SIGTERM, and SIGKILL after grace; without grace SIGKILL at
	// once. It returns when the task has ended. One that had ended already is no error.
	End(ctx context.Context, id string, grace time.Duration) error
	// Freeze stops a task where it is (SIGSTOP), or lets it go on (SIGCONT).
	Freeze(ctx context.Context, id string, frozen bool) error
	// Restart starts a task that was ended, as it was and at its address, and returns when it is ready.
	Restart(ctx context.Context, id string) error
}

// Scaled is a Deployment that takes whole replicas away and brings them back in a
// way of its own, in place of ending and starting their tasks.
type Scaled interface {
	// Shrink takes a pod of [Victim] away and returns when it has gone. One that had gone already is no error.
	Shrink(ctx context.Context, pod string, grace time.Duration) error
	// Grow brings one back and returns when it is ready.
	Grow(ctx context.Context, pod string) error
}

// Configurable is a Deployment whose services can be changed while they run.
type Configurable interface {
	// Configure changes what a service does. patch is a JSON merge patch (RFC
	// 7396) of its configuration, undo the one that takes it back.
	Configure(ctx context.Context, id string, patch []byte) (undo []byte, err error)
}

// Timed is a Deployment whose services say how long their requests took.
type Timed interface {
	// StageTimes reads the services' own counters, which begin with the deployment.
	StageTimes(ctx context.Context) ([]StageTime, error)
}

// Probed is a Deployment that can say how slow its processors are at the moment:
// those of the application and the data plane, wherever they are.
type Probed interface {
	// Probe runs the fixed work of package probe there, which takes no longer than
	// half a second. It is never called while the load runs.
	Probe(ctx context.Context) (probe.Reading, error)
}

// StageTime is one counter of times: how many, and their sum.
type StageTime struct {
	Route   string // the path
	Stage   string // "total": all of the request; "calc": the way to the function and back
	Count   int64
	Seconds float64
}

// Networked is a Deployment whose pods' network can be made to fail.
type Networked interface {
	// Impair makes what passes between a pod and the others fail as said, in both
	// directions; what passes inside of the pod does not. It holds when it
	// returns, until Mend or the end of the deployment. A pod has one at a time.
	Impair(ctx context.Context, pod string, how Impairment) error
	// Mend takes it back. A pod that is not impaired is no error.
	Mend(ctx context.Context, pod string) error
}

// Impairer is a Platform that can say beforehand whether a network can be impaired.
type Impairer interface {
	// CanImpair returns an error that wraps [errors.ErrUnsupported] and says why not.
	CanImpair(how Impairment) error
}

// Impairment is what is wrong with a network. One of its fields is set.
type Impairment struct {
	Loss      float64       // share of the packets that are lost; 1: all
	Delay     time.Duration // of every packet
	Bandwidth float64       // bytes per second in each direction; what is over is lost
}

// Accountant is a Deployment that knows what tasks used that have been ended on purpose.
type Accountant interface {
	Ended() []Ended
}

// Counting is a Deployment whose data plane counts what it did for its callers.
type Counting interface {
	// MeshCounters sums over the proxies that run, by name: "retries", "timeouts"; empty where there is nothing to count.
	MeshCounters(ctx context.Context) (map[string]int64, error)
}

// Victim is a task that a fault can hit.
type Victim struct {
	ID      string // e.g. "echo-0/app"; it stays the same when the task is restarted
	Pod     string
	Service string
	Replica int // from 0
	Plane   metric.Plane
	Up      bool
}

// Ended is a task that was ended, and all it used from its start.
type Ended struct {
	Task
	CPU         time.Duration
	Peak        int64 // resident memory, bytes
	Voluntary   int64 // context switches
	Involuntary int64 // context switches
}
