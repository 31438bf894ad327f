package result

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
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
	Within     time.Duration `json:"within,omitempty"`   // time after which no block begins, of a run that ends with a decision, ns
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

// settling is the time from an event's own time until it is in its file. Events of several trials
// are merged by time, so that later ones wait for it.
const settling = 100 * time.Millisecond

// Follower reads the events of a results directory while a run writes it. It never writes.
type Follower struct {
	dir     *Dir
	trials  []*followed
	waiting []Event // read, and newer than the last cut
	now     func() time.Time
}

// followed is a trial's file of events as far as it was read.
type followed struct {
	of     plan.Trial
	offset int64
	lines  int
	done   bool // its last event was read
}

// Follow returns a follower of all trials from their first event on.
func Follow(d *Dir) *Follower {
	f := &Follower{dir: d, now: time.Now}
	for _, t := range d.plan.Trials {
		f.trials = append(f.trials, &followed{of: t})
	}
	return f
}

// Opening is the event that begins a run. It is in no file.
func (d *Dir) Opening(measure time.Duration) Event {
	return Event{Time: d.environment.Time, Kind: KindRun, Run: &Run{
		Experiment: d.plan.Experiment, Dir: d.path, Trials: len(d.plan.Trials), TrialTime: d.plan.TrialTime, Measure: measure,
	}}
}

// Next returns the events since the last call, in order of time. It does not wait.
func (f *Follower) Next() ([]Event, error) {
	cut := f.now().Add(-settling)
	names, err := f.begun()
	if err != nil {
		return nil, err
	}
	for _, t := range f.trials {
		if t.done || !names[t.of.ID] {
			continue
		}
		if err := f.read(t); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(f.waiting, func(a, b Event) int { return a.Time.Compare(b.Time) })
	i := slices.IndexFunc(f.waiting, func(e Event) bool { return e.Time.After(cut) })
	if i < 0 {
		i = len(f.waiting)
	}
	due := slices.Clone(f.waiting[:i])
	f.waiting = slices.Delete(f.waiting, 0, i)
	return due, nil
}

// begun are the trials with a directory.
func (f *Follower) begun() (map[string]bool, error) {
	entries, err := regular.ReadDir(f.dir.file(TrialsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, storage("read", f.dir.file(TrialsDir), err)
	}
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.Name()] = e.IsDir()
	}
	return names, nil
}

// read reads the complete lines of a trial beyond those read before. A trial that began again has a
// shorter file, and is read from its beginning.
func (f *Follower) read(t *followed) error {
	path := f.dir.TrialFile(t.of.ID, EventsFile)
	file, err := regular.Open(path, maxEvents)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the trial begins
	}
	if err != nil {
		return storage("read", path, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return storage("read", path, err)
	}
	if info.Size() < t.offset {
		t.offset, t.lines = 0, 0
	}
	if info.Size() == t.offset {
		return nil
	}
	if _, err := file.Seek(t.offset, io.SeekStart); err != nil {
		return storage("read", path, err)
	}
	in := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var e Event
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil {
			return &Error{Op: "read", Path: path, Line: t.lines + 1, Hinted: hint.Hinted{Err: err}}
		}
		t.offset, t.lines = t.offset+int64(len(line)), t.lines+1
		e.Trial = t.of.ID // the directory's, whatever the file contains
		t.done = e.Kind == KindDone
		f.waiting = append(f.waiting, e)
	}
}

// Ended reports whether no run is writing: the files of the directory are listed, until a run begins a trial, or
// every trial has a record.
func (d *Dir) Ended() (bool, error) {
	for _, list := range []string{SumsFile, ManifestFile} {
		if _, err := regular.Lstat(d.file(list)); err == nil {
			return true, nil
		}
	}
	pending, err := d.Pending()
	return len(pending) == 0 && err == nil, err
}
