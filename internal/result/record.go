// Package result is the record of an experiment: events while it runs, one
// record a trial, and the directory that keeps them. The directory is a public
// contract (schema tare.results/v1): any figure of a report can be recomputed
// from it.
package result

import (
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// Schema of the results directory.
const Schema = "tare.results/v1"

// Record is all that is known of one finished trial, raw: counters and counts,
// no analysis. Latencies are beside it in latency.hdr.
type Record struct {
	Schema    string       `json:"schema"`
	ID        string       `json:"id"`
	Ordinal   int          `json:"ordinal"`
	Block     int          `json:"block"`
	Treatment string       `json:"treatment"`
	Factors   plan.Factors `json:"factors"`
	Control   bool         `json:"control,omitempty"`
	Started   time.Time    `json:"started"`
	Ended     time.Time    `json:"ended"`

	Valid    bool      `json:"valid"`
	Error    string    `json:"error,omitempty"` // the trial failed: nothing below need be present
	Warnings []Warning `json:"warnings,omitempty"`

	Phases []Phase     `json:"phases"`
	Checks []Check     `json:"checks,omitempty"`
	Load   *Load       `json:"load,omitempty"`
	Tasks  []TaskUsage `json:"tasks,omitempty"`
	Node   *NodeUsage  `json:"node,omitempty"`
	Edges  int         `json:"edges,omitempty"` // calls between services per request

	// Faults that were injected, in that order, and the expectations of the trial.
	Faults       []Fault          `json:"faults,omitempty"`
	Expectations []expect.Outcome `json:"expectations,omitempty"`

	// MeshCounters are counts of the data plane from the warm-up to the end, by
	// name: "retries", "timeouts". A proxy that a fault ended has taken its count along.
	MeshCounters map[string]int64 `json:"meshCounters,omitempty"`

	// Stages are the times that services kept of their own requests, between the
	// edges of the measure phase: those they ended in it.
	Stages []Stage `json:"stages,omitempty"`

	// Probe is how slow the processors were before and after the load.
	Probe *Probe `json:"probe,omitempty"`

	// Sampled stands in for Tasks and Node where an import has rates instead of counters.
	Sampled *Sampled `json:"sampled,omitempty"`
}

// Probe is the time of a fixed piece of work on the trial's processors, before its
// load began and after it had ended; nil: it was not taken then.
type Probe struct {
	Before *probe.Reading `json:"before,omitempty"`
	After  *probe.Reading `json:"after,omitempty"`
}

// Warning is kept with the figures it concerns, and has a hint.
type Warning struct {
	Code    string `json:"code"` // stable, e.g. "generator-late", "rate-missed"
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Invalidates marks a trial that cannot be used.
	Invalidates bool `json:"invalidates,omitempty"`
	// Withholds marks metrics that must not be used of this trial; the others may.
	Withholds bool `json:"withholds,omitempty"`
	// Metrics it concerns, as metric base names ("latency_ms"); empty: all.
	Metrics []string `json:"metrics,omitempty"`
}

// Phase is one phase of a trial as it really was.
type Phase struct {
	Name  string    `json:"name"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Fault is one fault that was injected.
type Fault struct {
	Index   int       `json:"index"` // of the experiment's faults, from 0
	Kind    string    `json:"kind"`
	Targets []string  `json:"targets"`       // tasks, or pods
	Start   time.Time `json:"start"`         // when it was injected
	Done    time.Time `json:"done,omitzero"` // when the injecting was done: a task that drains takes its time
	Healed  time.Time `json:"healed,omitzero"`
}

// Check is a property verified before measuring.
type Check = check.Check

// Load is the result of the load generator in the measure phase. A field its
// generator does not know is absent.
type Load struct {
	Generator string `json:"generator"`
	Version   string `json:"version,omitempty"`
	// Loop is "open", "closed", or "paced": closed connections that wait between
	// requests to keep a rate, so that a slow server slows the load.
	Loop     string `json:"loop"`
	Arrivals string `json:"arrivals,omitempty"`

	Start time.Time `json:"start"` // of the measure window
	End   time.Time `json:"end"`

	// Workers shared the load, started SkewUS apart; absent: one process sent all of it.
	Workers int      `json:"workers,omitempty"`
	SkewUS  *float64 `json:"skewUS,omitempty"`

	AskedRate   float64 `json:"askedRate,omitempty"` // 1/s; absent in a closed loop
	Connections int     `json:"connections"`
	Intended    int64   `json:"intended"`
	Sent        int64   `json:"sent"`
	Completed   int64   `json:"completed"` // answers within the window: the denominator of cost per request
	// BacklogStart and BacklogEnd count requests due before the start and the end of the
	// window that had not ended by then; absent if the generator does not count them.
	BacklogStart *int64 `json:"backlogStart,omitempty"`
	BacklogEnd   *int64 `json:"backlogEnd,omitempty"`

	Classes  map[string]int64 `json:"classes"`
	Statuses map[string]int64 `json:"statuses,omitempty"`
	Errors   map[string]int64 `json:"errors,omitempty"`
	// Routes are the service times by path, where several are asked for.
	Routes   map[string]RouteTimes `json:"routes,omitempty"`
	BytesIn  int64                 `json:"bytesIn"`
	BytesOut int64                 `json:"bytesOut"`

	// WarmupSeconds is the begin of the measure window in latency.hdr, and
	// MeasureSeconds its length there; both counted from the log's start time.
	WarmupSeconds  float64 `json:"warmupSeconds"`
	MeasureSeconds float64 `json:"measureSeconds"`

	LatenessP50US  *float64 `json:"latenessP50US,omitempty"`
	LatenessP99US  *float64 `json:"latenessP99US,omitempty"`
	LatenessMaxUS  *float64 `json:"latenessMaxUS,omitempty"`
	CPUSeconds     *float64 `json:"cpuSeconds,omitempty"`
	ThreadCPURatio *float64 `json:"threadCPURatio,omitempty"`
	// OwnLatenessP99US is the lateness that is the generator's own doing: without
	// the wait for a free connection, which is the server's. Judge the generator by it.
	OwnLatenessP99US *float64 `json:"ownLatenessP99US,omitempty"`
	// Verdict is the generator's own: "ok" or "invalid: …"; absent if it has none.
	Verdict  string   `json:"verdict,omitempty"`
	Warnings []string `json:"warnings,omitempty"`

	// Recorded is the number of requests of latency.hdr in the measure window, where
	// the generator keeps fewer than it counts (wrk2 leaves out its calibration); 0: every one of class 2xx.
	Recorded int64 `json:"recorded,omitempty"`
	// Published are the distributions a source gave in its own words, one for each generator.
	Published []Latency `json:"published,omitempty"`
}

// RouteTimes are the service times of one path, 2xx answers alone.
type RouteTimes struct {
	Requests int64   `json:"requests"`
	MeanMS   float64 `json:"meanMS"` // from the actual send to the last byte
}

// Stage is the duration of requests as measured by a service.
type Stage struct {
	Route   string  `json:"route"`
	Stage   string  `json:"stage"` // "total", "calc"
	Count   int64   `json:"count"`
	Seconds float64 `json:"seconds"` // their sum
}

// Reading is one reading of one task. Counters are cumulative and carry the time
// at which they were read, not the time at which they were asked for.
type Reading struct {
	At          time.Time `json:"at"`
	CPU         int64     `json:"cpu"`                   // ns, all threads, exited ones included
	RSS         int64     `json:"rss,omitempty"`         // bytes
	Peak        int64     `json:"peak,omitempty"`        // bytes, since the task started
	PSS         *int64    `json:"pss,omitempty"`         // bytes; absent if it cannot be read
	Voluntary   int64     `json:"voluntary,omitempty"`   // context switches
	Involuntary int64     `json:"involuntary,omitempty"` // context switches

	// Of a container: how long its CPU limit held it back, ns, absent if it is
	// unknown; how often it was started again; how often it was OOMKilled.
	Throttled *int64 `json:"throttled,omitempty"`
	Restarts  int    `json:"restarts,omitempty"`
	OOMKills  int    `json:"oomKills,omitempty"`
}

// TaskUsage is one task at the two edges of the measure phase.
type TaskUsage struct {
	mesh.Task
	Start Reading `json:"start"`
	End   Reading `json:"end"`
	// Ended: a fault ended the task within the measure phase. Its counters
	// at the end are then those it ended with, and it holds no memory.
	Ended bool `json:"ended,omitempty"`
	// Missing is the reason why the task could not be read at an edge; then its figures are unknown.
	Missing string `json:"missing,omitempty"`
}

// NodeReading is one reading of the whole machine, ns of CPU time since boot.
type NodeReading struct {
	At    time.Time `json:"at"`
	Busy  int64     `json:"busy"`  // ns, all but idle and iowait
	Steal int64     `json:"steal"` // ns the hypervisor gave to others
	// Memory is the working set, bytes; absent if it is not known.
	Memory int64 `json:"memory,omitempty"`
}

// NodeUsage is the whole machine at the two edges, or all the nodes together.
type NodeUsage struct {
	CPUs  int         `json:"cpus"`
	Start NodeReading `json:"start"`
	End   NodeReading `json:"end"`
	// Nodes are the nodes of a cluster one by one.
	Nodes []MachineUsage `json:"nodes,omitempty"`
}

// MachineUsage is one node of a cluster at the two edges.
type MachineUsage struct {
	Name              string      `json:"name"`
	CPUs              int         `json:"cpus"`
	AllocatableCPU    float64     `json:"allocatableCPU"`    // cores that pods may have
	AllocatableMemory int64       `json:"allocatableMemory"` // bytes that pods may have
	Start             NodeReading `json:"start"`
	End               NodeReading `json:"end"`
}

// Environment is the environment of the results, beyond the experiment file.
type Environment struct {
	Schema   string            `json:"schema"`
	Time     time.Time         `json:"time"`
	Tare     string            `json:"tare"` // version
	Command  []string          `json:"command"`
	Platform string            `json:"platform"`
	OS       string            `json:"os"`
	Arch     string            `json:"arch"`
	Kernel   string            `json:"kernel,omitempty"`
	CPUModel string            `json:"cpuModel,omitempty"`
	CPUs     int               `json:"cpus"`
	MemoryMB int64             `json:"memoryMB,omitempty"`
	Governor string            `json:"governor,omitempty"`
	Versions map[string]string `json:"versions,omitempty"` // of data planes and generators
	// Meshes are the SHA-256, hex, of the definition of every mesh used, by name: the same name can mean another mesh.
	Meshes map[string]string `json:"meshes,omitempty"`
	// Provides are the features of each of them, by name.
	Provides map[string]mesh.Provides `json:"provides,omitempty"`
	// ExperimentSHA256 is of experiment.yaml, hex: a resumed run must be given the same bytes.
	ExperimentSHA256 string `json:"experimentSHA256,omitempty"`
}
