// Package result stores an experiment: events while it runs, one record per
// trial, and the directory that contains them. The directory is a public
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
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/run/balance"
)

// Schema of the results directory.
const Schema = "tare.results/v1"

// Record contains the raw data of one finished trial: counters and counts, no
// analysis. Latencies are beside it in latency.hdr.
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
	Error    string    `json:"error,omitempty"` // the trial failed: all fields below may be absent
	Warnings []Warning `json:"warnings,omitempty"`

	Phases []Phase       `json:"phases"`
	Checks []check.Check `json:"checks,omitempty"`
	Load   *Load         `json:"load,omitempty"`
	Tasks  []TaskUsage   `json:"tasks,omitempty"`
	Node   *NodeUsage    `json:"node,omitempty"`
	Edges  int           `json:"edges,omitempty"` // calls between services per request

	// Faults that were injected, in that order, and the expectations of the trial.
	Faults       []Fault          `json:"faults,omitempty"`
	Expectations []expect.Outcome `json:"expectations,omitempty"`

	// MeshCounters are counts of the data plane from the warm-up to the end, by
	// name: "retries", "timeouts". The counts of a proxy ended by a fault are lost.
	MeshCounters map[string]int64 `json:"meshCounters,omitempty"`

	// Balance compares the requests that were sent, proxied and served.
	Balance *balance.Balance `json:"balance,omitempty"`

	// Stages are the request durations measured by services, for requests that ended
	// in the measure phase.
	Stages []Stage `json:"stages,omitempty"`

	// Probe is the calibration probe before and after the load.
	Probe *Probe `json:"probe,omitempty"`

	// Sampled replaces Tasks and Node where an import has rates instead of counters.
	Sampled *Sampled `json:"sampled,omitempty"`

	// Manifested: the trial has a manifest.json; older trials have none.
	Manifested bool `json:"manifested,omitempty"`
}

// Probe is the time of a fixed piece of work on the trial's CPUs, before and
// after the load; nil: not measured.
type Probe struct {
	Before *probe.Reading `json:"before,omitempty"`
	After  *probe.Reading `json:"after,omitempty"`
}

// Warning is stored with the figures it concerns, and has a hint.
type Warning struct {
	Code    string `json:"code"` // stable, e.g. "generator-late", "rate-missed"
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Invalidates marks a trial that cannot be used.
	Invalidates bool `json:"invalidates,omitempty"`
	// Withholds marks metrics of this trial that must not be used; others may.
	Withholds bool `json:"withholds,omitempty"`
	// Metrics are the base names of the metrics it concerns ("latency_ms"); empty:
	// all.
	Metrics []string `json:"metrics,omitempty"`
}

// Phase is the actual time of one phase of a trial.
type Phase struct {
	Name  string    `json:"name"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Fault is one injected fault.
type Fault struct {
	Index   int       `json:"index"` // in the experiment's faults, from 0
	Kind    string    `json:"kind"`
	Targets []string  `json:"targets"`       // tasks, or pods
	Start   time.Time `json:"start"`         // of the injection
	Done    time.Time `json:"done,omitzero"` // end of the injection: draining a task takes time
	Healed  time.Time `json:"healed,omitzero"`
}

// Load is the result of the load generator in the measure phase. Fields unknown
// to the generator are absent.
type Load struct {
	Generator string `json:"generator"`
	Version   string `json:"version,omitempty"`
	// Loop is "open", "closed", or "paced": closed connections that wait between
	// requests to keep a rate, so that a slow server slows the load.
	Loop     string `json:"loop"`
	Arrivals string `json:"arrivals,omitempty"`

	Start time.Time `json:"start"` // of the measure window
	End   time.Time `json:"end"`

	// Workers shared the load and started SkewUS apart; absent: one process sent all
	// of it.
	Workers int      `json:"workers,omitempty"`
	SkewUS  *float64 `json:"skewUS,omitempty"`

	AskedRate   float64 `json:"askedRate,omitempty"` // 1/s; absent in a closed loop
	Connections int     `json:"connections"`
	Intended    int64   `json:"intended"`
	Sent        int64   `json:"sent"`
	Completed   int64   `json:"completed"` // responses within the window: the denominator of cost per request
	// Retried counts retried requests, after a GOAWAY or a refused stream.
	Retried int64 `json:"retried,omitempty"`
	// BacklogStart and BacklogEnd count requests due before the start and the end of the
	// window that had not ended by then; absent if the generator does not count them.
	BacklogStart *int64 `json:"backlogStart,omitempty"`
	BacklogEnd   *int64 `json:"backlogEnd,omitempty"`

	// Whole are the requests of the whole load; absent if the generator does not count them.
	Whole *Whole `json:"whole,omitempty"`

	Classes  map[string]int64 `json:"classes"`
	Statuses map[string]int64 `json:"statuses,omitempty"`
	Errors   map[string]int64 `json:"errors,omitempty"`
	// Routes are figures by path or name of the request, if the load has several.
	Routes   map[string]RouteTimes `json:"routes,omitempty"`
	BytesIn  int64                 `json:"bytesIn"`
	BytesOut int64                 `json:"bytesOut"`

	// WarmupSeconds is the start of the measure window in latency.hdr, and
	// MeasureSeconds its length; both count from the log's start time.
	WarmupSeconds  float64 `json:"warmupSeconds"`
	MeasureSeconds float64 `json:"measureSeconds"`
	// Slices are those of the measure window in which this trial had the load; absent: it had the
	// whole window. Counts are of these slices, and so is the CPU of tasks.
	Slices      *OwnSlices        `json:"slices,omitempty"`
	SliceCounts []load.SliceCount `json:"-"` // slices.csv has them

	LatenessP50US  *float64 `json:"latenessP50US,omitempty"`
	LatenessP99US  *float64 `json:"latenessP99US,omitempty"`
	LatenessMaxUS  *float64 `json:"latenessMaxUS,omitempty"`
	CPUSeconds     *float64 `json:"cpuSeconds,omitempty"`
	ThreadCPURatio *float64 `json:"threadCPURatio,omitempty"`
	// OwnLatenessP99US is the lateness caused by the generator itself. It excludes
	// the wait for a free connection, which the server causes. Judge the generator
	// by it.
	OwnLatenessP99US *float64 `json:"ownLatenessP99US,omitempty"`
	// Verdict is the generator's own: "ok" or "invalid: …"; absent if it has none.
	Verdict  string   `json:"verdict,omitempty"`
	Warnings []string `json:"warnings,omitempty"`

	// Recorded is the number of requests of latency.hdr in the measure window, if
	// the generator records fewer than it counts (wrk2 omits its calibration); 0:
	// all of class 2xx.
	Recorded int64 `json:"recorded,omitempty"`
	// Published are the distributions printed by the source, one per generator.
	Published []Latency `json:"published,omitempty"`
}

// Whole counts the requests of the whole load, warm-up and tail included: those that the
// application can have received.
type Whole struct {
	Sent        int64 `json:"sent"`                 // followed redirects included
	Unanswered  int64 `json:"unanswered,omitempty"` // of these, those without an answer
	Failed      int64 `json:"failed,omitempty"`     // of these, those answered with status 400 or above, or a grpc-status other than 0
	Connections int64 `json:"connections,omitempty"`
	// Unsure requests may have been sent beyond Sent.
	Unsure int64 `json:"unsure,omitempty"`
}

// Plus adds the counts of another part of the load; nil if one of them is unknown.
func (w *Whole) Plus(o *Whole) *Whole {
	if w == nil || o == nil {
		return nil
	}
	return &Whole{w.Sent + o.Sent, w.Unanswered + o.Unanswered, w.Failed + o.Failed, w.Connections + o.Connections, w.Unsure + o.Unsure}
}

// OwnSlices are the time slices of one trial of a round.
type OwnSlices struct {
	Count         int     `json:"count"`
	LengthSeconds float64 `json:"lengthSeconds"`
	GuardSeconds  float64 `json:"guardSeconds"` // end of each slice without load
}

// LoadedSeconds is the part of the measure window in which the trial had the load, guards excluded.
func (l *Load) LoadedSeconds() float64 {
	if l.Slices == nil {
		return l.MeasureSeconds
	}
	return float64(l.Slices.Count) * (l.Slices.LengthSeconds - l.Slices.GuardSeconds)
}

// RouteTimes are the figures of one path or kind of request. Requests and times are of 2xx
// responses only.
type RouteTimes struct {
	Requests int64   `json:"requests"`
	MeanMS   float64 `json:"meanMS"` // from the actual send to the last byte
	// Failed counts all other outcomes, and P50MS to P99MS are quantiles of the response
	// time; absent in records of other generators.
	Failed int64   `json:"failed,omitempty"`
	P50MS  float64 `json:"p50MS,omitempty"`
	P90MS  float64 `json:"p90MS,omitempty"`
	P99MS  float64 `json:"p99MS,omitempty"`
}

// Stage is the duration of requests as measured by a service.
type Stage struct {
	Route   string  `json:"route"`
	Stage   string  `json:"stage"` // "total", "calc"
	Count   int64   `json:"count"`
	Seconds float64 `json:"seconds"` // sum
}

// Reading is one reading of one task. Counters are cumulative. The time is that
// of the reading, not of the request for it.
type Reading struct {
	At          time.Time `json:"at"`
	CPU         int64     `json:"cpu"`                   // ns, all threads, exited ones included
	RSS         int64     `json:"rss,omitempty"`         // bytes
	Peak        int64     `json:"peak,omitempty"`        // bytes, since the task started
	PSS         *int64    `json:"pss,omitempty"`         // bytes; absent if it cannot be read
	Voluntary   int64     `json:"voluntary,omitempty"`   // context switches
	Involuntary int64     `json:"involuntary,omitempty"` // context switches

	// For a container: CPU throttling in ns (absent if unknown), restarts, OOMKills.
	Throttled *int64 `json:"throttled,omitempty"`
	Restarts  int    `json:"restarts,omitempty"`
	OOMKills  int    `json:"oomKills,omitempty"`
}

// TaskUsage is one task at the start and the end of the measure phase.
type TaskUsage struct {
	mesh.Task
	Start Reading `json:"start"`
	End   Reading `json:"end"`
	// Ended: a fault ended the task within the measure phase. Its end counters are
	// then the final ones, and it holds no memory.
	Ended bool `json:"ended,omitempty"`
	// IdleCPU is the CPU outside the trial's slices, ns; absent without slices. End.CPU is then
	// Start.CPU plus the CPU in its slices.
	IdleCPU *int64 `json:"idleCPU,omitempty"`
	// Missing is the reason for a missing reading at an edge; the figures are then
	// unknown.
	Missing string `json:"missing,omitempty"`
}

// NodeReading is one reading of the whole machine, ns of CPU time since boot.
type NodeReading struct {
	At    time.Time `json:"at"`
	Busy  int64     `json:"busy"`  // ns, all but idle and iowait
	Steal int64     `json:"steal"` // ns of steal time
	// Memory is the working set, bytes; absent if unknown.
	Memory int64 `json:"memory,omitempty"`
}

// NodeUsage is the whole machine, or the sum of all nodes, at the start and the
// end of the measure phase.
type NodeUsage struct {
	CPUs  int         `json:"cpus"`
	Start NodeReading `json:"start"`
	End   NodeReading `json:"end"`
	// Nodes are the individual nodes of a cluster.
	Nodes []MachineUsage `json:"nodes,omitempty"`
}

// MachineUsage is one node of a cluster at the start and the end of the measure
// phase.
type MachineUsage struct {
	Name              string      `json:"name"`
	CPUs              int         `json:"cpus"`
	AllocatableCPU    float64     `json:"allocatableCPU"`    // cores available to pods
	AllocatableMemory int64       `json:"allocatableMemory"` // bytes available to pods
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
	// Meshes are the SHA-256 (hex) of the definitions of all meshes used, by name:
	// one name can have different definitions.
	Meshes map[string]string `json:"meshes,omitempty"`
	// Provides are the features of the meshes, by name.
	Provides map[string]mesh.Provides `json:"provides,omitempty"`
	// Variants of meshes, by name: what each comes from, and its changes in words.
	Variants map[string]string `json:"variants,omitempty"`
	// ExperimentSHA256 is the hash of experiment.yaml, hex: a resumed run needs the
	// same bytes.
	ExperimentSHA256 string `json:"experimentSHA256,omitempty"`
}
