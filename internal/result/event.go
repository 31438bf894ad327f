package result

import (
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
)

// Event is one event of a run. All sinks receive the same stream: the store, the
// live view, the log. A stored run can be replayed from its events.
type Event struct {
	Time     time.Time `json:"t"`                  // when
	Kind     string    `json:"kind"`               // see above
	Trial    string    `json:"trial,omitempty"`    // the trial's `id`
	Phase    string    `json:"phase,omitempty"`    // the phase that begins
	Message  string    `json:"message,omitempty"`  // message
	Hint     string    `json:"hint,omitempty"`     // remedy
	Progress *Progress `json:"progress,omitempty"` // KindProgress
	Sample   *Sample   `json:"sample,omitempty"`   // KindSample
	Run      *Run      `json:"run,omitempty"`      // KindRun, KindTimes
	Fault    *Fault    `json:"fault,omitempty"`    // as in the record, in its current state; `message` has the action
	Search   *Search   `json:"search,omitempty"`   // KindSearch
	Change   *Change   `json:"change,omitempty"`   // as in the record, without its effects
	Total    *Total    `json:"total,omitempty"`    // KindDone: the load of the measure phase
}

const (
	KindRun      = "run"      // the experiment begins
	KindTimes    = "times"    // the expected duration of trials is corrected
	KindTrial    = "trial"    // a trial begins
	KindPhase    = "phase"    // a phase begins
	KindProgress = "progress" // one second of load
	KindSample   = "sample"   // one reading of every task
	KindSearch   = "search"   // a probe of the search for the highest rate begins
	KindFault    = "fault"    // a fault was injected, healed, or hit nothing
	KindChange   = "change"   // a change of a route or of endpoints was made
	KindByHand   = "by-hand"  // a service was changed by `tare services`
	KindError    = "error"    // the trial failed
	KindInvalid  = "invalid"  // the trial cannot be used
	KindLog      = "log"      // a message
	KindDone     = "done"     // the trial is recorded
	KindEnd      = "end"      // the experiment is over
)

// Run opens a stream and contains the totals for a view.
type Run struct {
	Experiment string        `json:"experiment"`         // name
	Dir        string        `json:"dir,omitempty"`      // the directory
	Trials     int           `json:"trials"`             // trials of the plan
	Recorded   int           `json:"recorded,omitempty"` // trials recorded before this run
	TrialTime  time.Duration `json:"trialTime"`          // expected duration of a trial, ns
	Measure    time.Duration `json:"measure"`            // duration of the measure phase, ns
}

// Progress is one second of load.
type Progress struct {
	Second    int      `json:"second"`              // seconds from the beginning of the load, warm-up included
	AskedRate float64  `json:"askedRate,omitempty"` // requests per second asked for
	Rate      float64  `json:"rate"`                // answers in this second
	Loaded    *float64 `json:"loaded,omitempty"`    // part of this second in own slices, guards excluded, absent without slices
	Errors    int64    `json:"errors"`              // requests that failed in this second
	P50MS     float64  `json:"p50_ms"`              // median response time of this second, ms
	P99MS     float64  `json:"p99_ms"`              // 99th percentile, ms
}

// HasLoad reports whether the trial had the load in a part of the second.
func (p *Progress) HasLoad() bool { return p.Loaded == nil || *p.Loaded > 0 }

// LoadedSeconds is the part of the second in which the trial had the load.
func (p *Progress) LoadedSeconds() float64 {
	if p.Loaded == nil {
		return 1
	}
	return *p.Loaded
}

// WhileLoaded is the rate of answers in the part of the second in which the trial had the load.
func (p *Progress) WhileLoaded() float64 {
	if p.Loaded == nil || !p.HasLoad() {
		return p.Rate
	}
	return p.Rate / *p.Loaded
}

// Total is the load of a measure phase. Its seconds do not begin with those of [Progress].
type Total struct {
	Rate   float64 `json:"rate"`   // answers per second of load
	Errors int64   `json:"errors"` // requests that failed
}

// Total is nil without a load.
func (r *Record) Total() *Total {
	if r.Load == nil || !(r.Load.LoadedSeconds() > 0) {
		return nil
	}
	t := &Total{Rate: float64(r.Load.Completed) / r.Load.LoadedSeconds()}
	for class, n := range r.Load.Classes {
		if class != string(load.OK) {
			t.Errors += n
		}
	}
	return t
}

// Sample is one reading of every task, by task ID.
type Sample struct {
	Tasks map[string]Reading     `json:"tasks"`           // readings by task `id`
	Node  NodeReading            `json:"node,omitzero"`   // a node reading
	Nodes map[string]NodeReading `json:"nodes,omitempty"` // node readings by name, if refreshed
	// Cores is CPU by plane since the previous sample, for the live view.
	Cores map[string]float64 `json:"cores,omitempty"` // CPU by plane since the last sample, cores
	// Memory is resident memory by plane, for the live view.
	Memory map[string]float64 `json:"memory,omitempty"` // resident memory by plane, MiB
	// Listed are tasks of a cluster, with their planes, that no earlier sample of the trial listed.
	Listed []mesh.Task `json:"listed,omitempty"` // tasks of a cluster, as in the record, that no earlier sample of the trial listed
	// Machines are the nodes of a cluster, in the first sample of a trial with readings of nodes.
	Machines []SampledNode `json:"machines,omitempty"` // nodes of a cluster, in the first sample with their readings
}

// Search is one probe of the search for the highest rate.
type Search struct {
	Probe  int     `json:"probe"`          // its number from 1; 0: a closed loop, for the upper limit
	Probes int     `json:"probes"`         // probes of the search
	Rate   float64 `json:"rate,omitempty"` // requests per second of the probe
}

// Sink receives events. Event must not block for long: the runner waits for it.
type Sink interface {
	Event(Event) error
}
