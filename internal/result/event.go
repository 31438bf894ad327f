package result

import "time"

// Event is one event of a run. All sinks receive the same stream: the store, the
// live view, the log. A stored run can be replayed from its events.
type Event struct {
	Time     time.Time `json:"t"`
	Kind     string    `json:"kind"` // see the constants
	Trial    string    `json:"trial,omitempty"`
	Phase    string    `json:"phase,omitempty"`    // KindPhase: the phase that begins
	Message  string    `json:"message,omitempty"`  // KindLog, KindError, KindInvalid
	Hint     string    `json:"hint,omitempty"`     // KindError, KindInvalid: the fix
	Progress *Progress `json:"progress,omitempty"` // KindProgress
	Sample   *Sample   `json:"sample,omitempty"`   // KindSample
	Run      *Run      `json:"run,omitempty"`      // KindRun
	Fault    *Fault    `json:"fault,omitempty"`    // KindFault: its current state; Message is the action
}

const (
	KindRun      = "run"      // the experiment begins
	KindTrial    = "trial"    // a trial begins
	KindPhase    = "phase"    // a phase begins
	KindProgress = "progress" // one second of load
	KindSample   = "sample"   // one reading of every task
	KindFault    = "fault"    // a fault was injected, healed, or hit nothing
	KindError    = "error"    // the trial failed
	KindInvalid  = "invalid"  // the trial cannot be used
	KindLog      = "log"      // a message
	KindDone     = "done"     // the trial is recorded
	KindEnd      = "end"      // the experiment is over
)

// Run opens a stream and contains the totals for a view.
type Run struct {
	Experiment string        `json:"experiment"`
	Dir        string        `json:"dir,omitempty"`
	Trials     int           `json:"trials"`
	Recorded   int           `json:"recorded,omitempty"` // trials already recorded by an interrupted run
	TrialTime  time.Duration `json:"trialTime"`          // expected, ns
	Measure    time.Duration `json:"measure"`            // ns
}

// Progress is one second of load.
type Progress struct {
	Second    int     `json:"second"`
	AskedRate float64 `json:"askedRate,omitempty"` // 1/s
	Rate      float64 `json:"rate"`                // responses in this second
	// Loaded is the part of the second in which the trial had the load, guards excluded; nil: all of it.
	Loaded *float64 `json:"loaded,omitempty"`
	Errors int64    `json:"errors"`
	P50MS  float64  `json:"p50_ms"`
	P99MS  float64  `json:"p99_ms"`
}

// Sample is one reading of every task, by task ID.
type Sample struct {
	Tasks map[string]Reading `json:"tasks"`
	Node  NodeReading        `json:"node,omitzero"` // absent if unreadable
	// Nodes are the refreshed nodes of a cluster, by name.
	Nodes map[string]NodeReading `json:"nodes,omitempty"`
	// Cores is CPU by plane since the previous sample, for the live view.
	Cores map[string]float64 `json:"cores,omitempty"`
}

// Sink receives events. Event must not block for long: the runner waits for it.
type Sink interface {
	Event(Event) error
}
