// Package platform is the contract of the places where trials run. A [Platform]
// deploys the application and the mesh's data plane of one trial. A [Deployment]
// is the running result. Both are values that declare every ability in a field of
// its own. The platforms are local/ and kube/, and platformtest/ is the suite
// that each of them passes.
package platform

import (
	"cmp"
	"context"
	"net/http/httptrace"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/inside/simulated"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// Platform is a place where trials run, and its abilities. A nil field is an
// ability that it lacks. To decorate a platform, copy the value and replace fields.
type Platform struct {
	Deployer
	// Faults are the faults that it can inject.
	Faults Faults
	// CounterRefresh applies to the counters of every deployment. nil: each reading is current.
	CounterRefresh CounterRefresh
	// DeploysAtOnce: Deploy may be called for the trials of a round at the same time. It is better where a deployment mostly
	// waits for others, and worse where it needs the processors that the next one needs too.
	DeploysAtOnce bool
}

// Deployer deploys trials.
type Deployer interface {
	// Prepare does once what all trials of the run need: it removes leftovers of
	// earlier runs and fetches data planes. It returns versions by program.
	Prepare(ctx context.Context, meshes []mesh.Definition) (versions map[string]string, err error)
	// Deploy returns when everything of the trial is ready. After an error nothing is left behind.
	Deploy(ctx context.Context, spec Spec) (*Deployment, error)
}

// Faults declares which faults a platform can inject. The zero value is none.
type Faults struct {
	Abilities []experiment.Ability
	// Lacks has the reasons for abilities that the platform lacks.
	Lacks map[experiment.Ability]string
	// AppOnly is the reason why faults hit only tasks of the application plane. "": they hit each plane.
	AppOnly string
	// CanImpair tries an impairment of a network before the run. nil: there is nothing to try. The error wraps
	// [errors.ErrUnsupported] with the reason.
	CanImpair func(how Impairment) error
}

// Spec describes one deployment completely.
type Spec struct {
	Trial     plan.Trial
	Treatment plan.Treatment
	Topology  app.Topology
	Mesh      mesh.Definition
	// Changing: changes are made during the trial, so that answers must show their route or replica.
	Changing bool
	// LoadHost is the header Host that the file sets for the load. Empty: none.
	LoadHost   string
	CPUs       map[string]string // processors by plane: "app", "data", "load"
	Provenance string            // existing directory for rendered configs, command lines and logs
}

// Title names the trial in messages: its treatment, or the mesh if it has none. The second of an A/A pair is named as the first.
func (s Spec) Title() string {
	if s.Treatment.Control {
		return s.Treatment.Baseline
	}
	return cmp.Or(s.Treatment.ID, s.Mesh.Name)
}

// Deployment is the running application of one trial, and its abilities. A nil
// field is an ability that the platform lacks, and its comment gives the
// consequence. Fields without such a comment are on every platform. To decorate a
// deployment, copy the struct and replace fields: the others remain.
type Deployment struct {
	Running
	// Host is the header Host of the load's requests, or :authority. Empty: the host of each URL.
	Host string
	// Verify sends probes and compares counters, to prove that the data plane is in the path. A check that fails is in the
	// result, and the error is for checks that could not be made.
	Verify func(ctx context.Context, probe Probe) (Verification, error)
	// Broken returns why the deployment can no longer be measured, such as a task that exited by itself, or nil if it can. Tasks
	// that [TaskFaults] ends are not watched any more.
	Broken func() error
	// Visitors returns the tasks of others, on the machines of the deployment, that were started and ended between two moments, so
	// that no list of tasks contains them. nil: they are not noticed.
	Visitors func(from, to time.Time) []Visitor
	// Warnings are warnings that every trial of the deployment carries. nil: there are none.
	Warnings func() []Warning
	// LoadWorkers are pods that send the load. nil: one process sends it, on this machine's clock.
	LoadWorkers LoadWorkers
	// MeshCounters reads the data plane's counters of requests, of each running proxy by name: "retries", "timeouts". A restarted
	// proxy has another key, since it counts from 0. It is empty without proxies. nil: retries and timeouts are unknown.
	MeshCounters func(ctx context.Context) (map[string]map[string]int64, error)
	// RequestCounts reads each counter of requests of services and proxies once, in a reading of its own. A counter that cannot be
	// read has the reason. The error is for the end of ctx. nil: their conservation is not checked.
	RequestCounts func(ctx context.Context) ([]balance.Count, error)
	// CheckConnections returns checks for each service behind proxies: every connection that is open now belongs to a proxy
	// before it, and none to the load. tasks are the current ones. nil: it is not checked.
	CheckConnections func(ctx context.Context, tasks []Task) ([]check.Check, error)
	// TaskFaults ends, freezes and restarts tasks.
	TaskFaults TaskFaults
	// Ended accounts for tasks that [TaskFaults] ended. nil: their last reading counts.
	Ended func() []Ended
	// Scaler removes and returns whole replicas. nil: their tasks are ended and restarted one by one.
	Scaler Scaler
	// Configurer changes running services.
	Configurer Configurer
	// Changer changes routes and endpoints.
	Changer Changer
	// Moments reads when the parts of a mesh had a change. nil: unknown.
	Moments Moments
	// ControlTimes reads how long stages of the control plane took, as it counts since each process of it started. nil: unknown.
	ControlTimes func(ctx context.Context) ([]mesh.CountedTime, error)
	// Restarter restarts proxies and control planes. nil: TaskFaults does.
	Restarter Restarter
	// Background changes services that no request calls. nil: there are none.
	Background Background
	// StopAndStart ends the processes of the entry's pods (SIGTERM) and starts them again at once. Requests at a fixed rate
	// show what answers.
	StopAndStart func(ctx context.Context) ([]PodStart, error)
	// Serial makes a TLS handshake with an endpoint of the entry, as one of its callers, and returns the serial number of its
	// certificate. nil: no certificate can be renewed.
	Serial func(ctx context.Context, endpoint string) (string, error)
	// NetworkFaults impairs the network of a pod. nil: [Faults] lack them.
	NetworkFaults NetworkFaults
}

// Running is the part that every deployment has.
type Running interface {
	// Entry returns the URLs that the load is sent to: the load generator's own
	// sidecar with a mesh, otherwise the replicas of the entry service.
	Entry() []string
	// Tasks lists every running task with its plane, tare itself included.
	Tasks(ctx context.Context) ([]Task, error)
	// StartLoad runs one load worker in the load plane. The deployment sets cmd's
	// CPUs and Log. Files written to cmd.Dir are on this machine when the process
	// has ended, wherever it ran. It cannot read other files of this machine.
	StartLoad(ctx context.Context, cmd proc.Command) (Process, error)
	// Remove stops everything and leaves nothing behind. It can be called again.
	Remove(ctx context.Context) error
}

// Process is a running load worker, wherever it runs. [*proc.Process] is one.
type Process interface {
	// Wait returns when it has ended and all its output has arrived. After a status
	// other than 0 the error is a [*proc.ExitError].
	Wait() error
	// Stop sends SIGTERM, kills after grace, and returns when it has ended.
	// Stopping an ended process is not an error.
	Stop(ctx context.Context, grace time.Duration) error
}

// LoadWorkers is a fixed number of load workers, each for one command with one
// thread. They share the load exactly: the n-th StartLoad since the last load
// ended runs on worker n.
type LoadWorkers interface {
	// LoadWorkers is their number. 0: the load is sent from this machine.
	LoadWorkers() int
	// LoadClock returns how far a worker's clock is ahead of tare's, and the uncertainty of that.
	LoadClock(ctx context.Context, worker int) (ahead, unsure time.Duration, err error)
}

// CounterRefresh is for counters that are refreshed at an interval and carry the
// time of their own reading. An edge of the measure phase then falls between two
// refreshes, and a reading under the same load replaces it.
type CounterRefresh interface {
	// Refresh is the longest interval between two refreshes of one counter.
	// 0: every reading is a refresh.
	Refresh() time.Duration
	// NodeRefresh is the same for the counters of nodes outside their pods. 0: there are none.
	NodeRefresh() time.Duration
}

// Verification is the result of [Deployment.Verify].
type Verification struct {
	Checks []check.Check
	// Answers describe the answers of each request, where they were read.
	Answers []check.Answer
}

// Warning becomes a warning of the trial, about its latencies.
type Warning struct {
	Code    string
	Message string
	Hint    string
}

// Task is a running task that a meter can read.
type Task struct {
	mesh.Task
	PID  int    `json:"pid,omitempty"` // local platform
	Node string `json:"-"`             // of a cluster
	// Restarted: it was started when a fault healed, so its counters began at 0.
	Restarted bool `json:"restarted,omitempty"`
	// Parent: CPU of its ended children is its own. tare's programs start none.
	Parent bool `json:"-"`
}

// Lost is an error of [Deployment.Broken] with a warning code of its own.
type Lost struct {
	hint.Hinted
	Code string
}

// Visitor is a task of others that came and went. Its CPU is in no sum.
type Visitor struct {
	Name   string // of the container, with its pod and namespace
	Began  time.Time
	Ended  time.Time
	System bool // one of the cluster's own components, or a workload of others: not a part of a mesh
}

// TaskFaults makes tasks fail, and undoes it. As in the other faults, errors do not repeat the name of the task or pod.
type TaskFaults interface {
	// Victims lists the tasks that faults can hit, by service and replica, ended ones included.
	Victims() []Victim
	// End ends a task with SIGTERM, and SIGKILL after grace. Without grace it sends
	// SIGKILL at once. It returns when the task has ended, and an ended task is not
	// an error.
	End(ctx context.Context, id string, grace time.Duration) error
	// Freeze suspends a task with its descendants (SIGSTOP), or resumes it (SIGCONT). It returns when all are stopped.
	Freeze(ctx context.Context, id string, frozen bool) error
	// Restart starts an ended task with the same configuration and address, and returns when it is ready.
	Restart(ctx context.Context, id string) error
}

// Scaler changes the number of replicas, as a Kubernetes Deployment does.
type Scaler interface {
	// Shrink removes the pod of a [Victim] and returns when it is gone. A removed pod is not an error.
	Shrink(ctx context.Context, pod string, grace time.Duration) error
	// Grow returns a removed pod, and returns when it is ready.
	Grow(ctx context.Context, pod string) error
}

// Configurer changes services while they run.
type Configurer interface {
	// Configure applies a JSON merge patch (RFC 7396) to the configuration of a
	// service. undo is the patch that reverts it.
	Configure(ctx context.Context, id string, patch []byte) (undo []byte, err error)
	// Configuration returns the current configuration of a service, as JSON.
	Configuration(ctx context.Context, id string) ([]byte, error)
}

// Changer changes the route to the entry, and its endpoints.
type Changer interface {
	// Endpoints are the replicas of the entry, as answers name them ([load.VersionHeader]).
	Endpoints() []string
	// Change returns when the change was accepted, which may be before it takes effect.
	Change(ctx context.Context, c Change) error
}

// Moments reads what control plane and proxies count of changes themselves, by the clock of this machine.
type Moments interface {
	// ControlMoments returns the changes since the control plane started, none if it does not count them.
	ControlMoments(ctx context.Context) ([]mesh.ControlMoment, error)
	// ProxyUpdates returns when each proxy took over its latest configurations, by its name. An instant is known to the ms.
	ProxyUpdates(ctx context.Context) (map[string][]time.Time, error)
}

// Restarter ends and starts processes that faults do not hit alone.
type Restarter interface {
	// Restartable lists what can be restarted in a plane: of the data plane, with the entry.
	Restartable(plane metric.Plane) []string
	// Restart ends one of them and starts it again, or another in its place. It returns when that is ready. A control plane
	// stays stopped for a time, 0 for none.
	Restart(ctx context.Context, plane metric.Plane, id string, stopped time.Duration) error
}

// Change is one change of the entry.
type Change struct {
	Kind      string   // of [metric.ChangeKinds]
	Version   int      // of the new route
	Endpoint  string   // that is removed, added, or gets a new certificate
	Endpoints []string // all that remain
	// Prepare: only the control plane of a version change is installed.
	Prepare bool
	// Moved receives what ran before and after a version change. It stays empty without a mesh.
	Moved *mesh.Moved
	// Sending is called before the first byte of the change is sent, after all that is prepared for it. nil: nobody listens.
	Sending func()
}

// Send reports that the change is sent now.
func (c Change) Send() {
	if c.Sending != nil {
		c.Sending()
	}
}

// OnRequest makes requests with the context report that the change is sent: each once it has its connection.
func (c Change) OnRequest(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { c.Send() }})
}

// Background changes services that no request calls, and has the simulated proxies.
type Background interface {
	// ChangeBackground gives one of them, in turn, the address of a change ([mesh.BackgroundAddress]). number is of the change, from 1.
	ChangeBackground(ctx context.Context, number int) error
	// Received returns what the simulated proxies have received, and the arrivals since the last call. nil: there are none.
	Received(ctx context.Context) (*Received, error)
}

// Received has the messages and changes that simulated proxies received.
type Received struct {
	simulated.Report
	Arrivals []simulated.Arrival
	Ahead    time.Duration // of their clock before tare's
}

// PodStart is what requests, and on a cluster the watch of pods, showed of a pod that was stopped and started. Parts are
// [metric.StartParts].
type PodStart struct {
	Gone  map[string]time.Duration // from SIGTERM until the process had ended; on a cluster from the request until the pod was gone
	Lost  int                      // requests that failed meanwhile
	First map[string]time.Duration // from exec, on a cluster from the request to its API server
	// Least is when the last request was sent that was not answered before First. It is empty where a watch shows a part.
	Least map[string]time.Duration
}

// NetworkFaults impairs the network of pods.
type NetworkFaults interface {
	// Impair applies to packets between the pod and others, in both directions, and
	// not to those inside the pod. It is in force when it returns, until Mend or
	// Remove. A pod has one impairment at a time.
	Impair(ctx context.Context, pod string, how Impairment) error
	// Mend removes the impairment of a pod. A pod without one is not an error.
	Mend(ctx context.Context, pod string) error
}

// Impairment is a network fault. One of its fields is set.
type Impairment struct {
	Loss      float64       // share of packets dropped, 1 for all
	Delay     time.Duration // of every packet
	Bandwidth float64       // bytes per second in each direction, above which packets are dropped
}

// Victim is a task that a fault can hit.
type Victim struct {
	ID      string // e.g. "echo-0/app", unchanged by a restart
	Pod     string
	Service string
	Replica int // from 0
	Plane   metric.Plane
	Up      bool
}

// Ended is a task that a fault ended, with its usage from its start.
type Ended struct {
	Task
	CPU         time.Duration
	Voluntary   int64 // context switches
	Involuntary int64 // context switches
}
