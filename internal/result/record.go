// Package result stores an experiment: events while it runs, one record per
// trial, and the directory that contains them. The directory is a public
// contract (schema tare.results/v1): any figure of a report can be recomputed
// from it.
package result

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/stats"
)

// Schema of the results directory.
const Schema = "tare.results/v1"

// Record contains the raw data of one finished trial: counters and counts, no
// analysis. Latencies are beside it in latency.hdr.
type Record struct {
	Schema    string       `json:"schema"`            // `tare.results/v1`
	ID        string       `json:"id"`                // the trial, as in the plan
	Ordinal   int          `json:"ordinal"`           // as in the plan
	Block     int          `json:"block"`             // as in the plan
	Treatment string       `json:"treatment"`         // as in the plan
	Factors   plan.Factors `json:"factors"`           // levels of the factors the experiment names
	Control   bool         `json:"control,omitempty"` // a baseline that is measured again
	Started   time.Time    `json:"started"`           // when the trial began
	Ended     time.Time    `json:"ended"`             // when it was recorded

	Valid    bool      `json:"valid"`           // the trial did not fail and no warning invalidates it
	Error    string    `json:"error,omitempty"` // why the trial failed, and later fields may be absent
	Warnings []Warning `json:"warnings,omitempty"`

	Phases []Phase       `json:"phases"`
	Checks []check.Check `json:"checks,omitempty"`
	// Answers to the probes of the verification, by request, on this machine.
	Answers      []check.Answer `json:"answers,omitempty"`
	Load         *Load          `json:"load,omitempty"`
	Tasks        []TaskUsage    `json:"tasks,omitempty"`
	Node         *NodeUsage     `json:"node,omitempty"`
	Outside      *int64         `json:"outsideCPU,omitempty"`   // CPU of this machine that no process of the run used while the trial had the load, ns, absent on clusters
	Prewarm      *Prewarm       `json:"prewarm,omitempty"`      // load before the warm-up, absent without one
	Placing      *Placing       `json:"placing,omitempty"`      // of the measure phase, absent if the time before it is fixed
	Quiet        *Quiet         `json:"quiet,omitempty"`        // readings of a trial of a round while no request is anywhere
	BurstSeconds float64        `json:"burstSeconds,omitempty"` // time between bursts of CPU of which one changes the cost (warning `cpu-bursts`)
	Edges        int            `json:"edges,omitempty"`        // calls per request between services, the entry included

	// Faults that were injected, in that order, and the expectations of the trial.
	Faults       []Fault          `json:"faults,omitempty"`
	Expectations []expect.Outcome `json:"expectations,omitempty"`

	ByHand []ByHand `json:"byHand,omitempty"` // changes of services by `tare services`, which invalidate the trial

	Starts  []Start  `json:"starts,omitempty"`  // stops and starts of the entry's pod after the load
	Changes []Change `json:"changes,omitempty"` // changes of routes and endpoints, in the order of sending
	// ChangeClockMS is measured before and after the load.
	ChangeClockMS *float64 `json:"changeClockMs,omitempty"` // maximum error of the load worker's clock against the clock of the changes, by which their effects are wider

	// ChangeProbe are the requests whose answers showed the changes, absent if the load itself did.
	ChangeProbe *ChangeProbe `json:"changeProbe,omitempty"`

	Background *Background `json:"background,omitempty"` // services that no request calls, absent without any

	ControlTimes []ControlTime `json:"controlTimes,omitempty"` // stages of the control plane as it counts them, in trials with changes

	MeshCounters map[string]int64 `json:"meshCounters,omitempty"` // `retries` and `timeouts` of running proxies, from warm-up to end, with faults

	// Balance compares the requests that were sent, proxied and served.
	Balance *balance.Balance `json:"balance,omitempty"`

	Executions []execution.Reading `json:"executions,omitempty"` // of a program that ends, in their order, absent for a server
	Empty      []execution.Reading `json:"empty,omitempty"`      // of the empty program among them, the same in all trials of a round

	Sampled *Sampled `json:"sampled,omitempty"` // resource figures of an import, instead of counters

	Manifested bool `json:"manifested,omitempty"` // the trial has a `manifest.json`, absent in records of older versions
}

// Prewarm is the load before the warm-up, until the CPU of a request no longer falls.
type Prewarm struct {
	Seconds  float64       `json:"seconds"`  // its time, s
	Requests int64         `json:"requests"` // answers
	Steady   bool          `json:"steady"`   // the CPU of a request no longer fell; else the limit was reached
	Loads    []PrewarmLoad `json:"loads"`    // one after another, each with as many requests as all before
}

// PrewarmLoad is one load before the warm-up.
type PrewarmLoad struct {
	Requests  int64   `json:"requests"`       // answers
	Rate      float64 `json:"rate,omitempty"` // requests/s, absent in a closed loop
	CPUMicros float64 `json:"cpuUS"`          // CPU of application and data plane by request, µs
}

// Placing is the random time before a measure phase: a wait without load, and the warm-up.
type Placing struct {
	PlannedSeconds float64 `json:"plannedSeconds"` // warm-up of the plan, s
	LeastSeconds   float64 `json:"leastSeconds"`   // the shortest time, s
	RangeSeconds   float64 `json:"rangeSeconds"`   // the time is uniform over this range, s
	Seconds        float64 `json:"seconds"`        // the time, drawn from the seed, s
}

// QuietParts is the number of rows of a window without requests.
const QuietParts = 6

// Quiet are the readings of the tasks of a trial of a round while no member of the round has a request.
type Quiet struct {
	Before []QuietRow `json:"before,omitempty"` // before the load of the round
	After  []QuietRow `json:"after,omitempty"`  // after the last slice, until deferred work has ended; the first 0.1 s have the last answers
}

// QuietRow is the use of every task between two readings that follow each other.
type QuietRow struct {
	AtSeconds float64             `json:"at"`    // the first reading, s from the first one before the load, or from the end of the last slice
	Tasks     map[string]QuietUse `json:"tasks"` // uses of tasks, by ID
}

// QuietUse is the use of one task in a [QuietRow].
type QuietUse struct {
	NS          int64 `json:"ns"`                    // time between the task's own two readings, ns
	CPU         int64 `json:"cpu"`                   // CPU time in it, ns
	Voluntary   int64 `json:"voluntary,omitempty"`   // voluntary context switches
	Involuntary int64 `json:"involuntary,omitempty"` // involuntary context switches
	Switching   int64 `json:"switching,omitempty"`   // time in which context switches were counted, ns, 0 if they were not
}

// Plus adds the use of another time.
func (u QuietUse) Plus(v QuietUse) QuietUse {
	return QuietUse{u.NS + v.NS, u.CPU + v.CPU, u.Voluntary + v.Voluntary, u.Involuntary + v.Involuntary, u.Switching + v.Switching}
}

// Warning is stored with the figures it concerns, and has a hint.
type Warning struct {
	Code        string   `json:"code"`                  // stable code
	Message     string   `json:"message"`               // finding
	Hint        string   `json:"hint,omitempty"`        // remedy
	Invalidates bool     `json:"invalidates,omitempty"` // the trial cannot be used
	Withholds   bool     `json:"withholds,omitempty"`   // the metrics in `warnings[].metrics` are not used
	Metrics     []string `json:"metrics,omitempty"`     // metrics without their part (`latency_ms`), absent for all
}

// Phase is the actual time of one phase of a trial.
type Phase struct {
	Name  string    `json:"name"`  // `deploy`, `verify`, `settle`, `search`, `warm-up`, `measure`, `drain`
	Start time.Time `json:"start"` // when it began
	End   time.Time `json:"end"`   // when it ended
}

// Fault is one injected fault.
type Fault struct {
	Index   int       `json:"index"`           // which of the experiment's `faults`, from 0
	Kind    string    `json:"kind"`            // kind of fault
	Targets []string  `json:"targets"`         // affected tasks or pods
	Start   time.Time `json:"start"`           // when it was injected
	Done    time.Time `json:"done,omitzero"`   // when the injection was complete
	Healed  time.Time `json:"healed,omitzero"` // when it was healed, absent if at the end
}

// ByHand is a change of a running service by hand.
type ByHand struct {
	Target string    `json:"target"` // the replica
	At     time.Time `json:"at"`     // when it was made
	Patch  string    `json:"patch"`  // JSON merge patch of its configuration
}

// Start is one stop and start of a pod. Parts are app, sidecar, through (both) and outbound (a call of another service).
type Start struct {
	GoneMS  map[string]float64 `json:"goneMs"`            // from SIGTERM until the process had ended, by part
	Lost    int                `json:"lost"`              // requests that failed from SIGTERM until the pod had ended
	FirstMS map[string]float64 `json:"firstMs"`           // from exec to the first answer, by part
	LeastMS map[string]float64 `json:"leastMs,omitempty"` // from exec until the last request before it was sent that failed, by part
}

// Change is a change of a route or of endpoints, and what the answers of the load showed of it. Instants are seconds from
// the start of the load.
type Change struct {
	Kind            string   `json:"kind"`                      // kind of change
	Version         int      `json:"version,omitempty"`         // of the route after it
	Endpoint        string   `json:"endpoint,omitempty"`        // that was removed or added, or got a new certificate
	Task            string   `json:"task,omitempty"`            // that ended and was started again, absent if nothing did without a mesh
	DueSeconds      float64  `json:"dueSeconds"`                // when it was due
	SentSeconds     float64  `json:"sentSeconds"`               // when its request was sent
	PreparedSeconds float64  `json:"preparedSeconds,omitempty"` // when the control plane of a version change was ready
	AcceptedSeconds float64  `json:"acceptedSeconds"`           // when its request was answered
	FirstNew        *Span    `json:"firstNew,omitempty"`        // first effect: the first answer by the new configuration, absent for a removed endpoint
	LastOld         *Span    `json:"lastOld,omitempty"`         // convergence: the last answer by the old configuration on any connection, absent for an added endpoint
	Connections     int      `json:"connections,omitempty"`     // connections with successful answers after it
	Unchanged       int      `json:"unchanged,omitempty"`       // connections of these whose last answer was by the old configuration
	Replicas        int      `json:"replicas,omitempty"`        // replicas that answered after a new route or policy
	UnchangedAt     []string `json:"unchangedAt,omitempty"`     // replicas of these that gave no answer by it
	Tied            int      `json:"tied,omitempty"`            // connections of the worker with the fewest of them, which take over a change together; 1 if workers are unknown
	Probes          int      `json:"probes"`                    // successful answers after it, until it was undone or the load ended
	Failed          int      `json:"failed"`                    // requests that failed until the last old answer
	Flaps           int      `json:"flaps"`                     // old answers on connections that had had a new one
	Dropped         *int     `json:"dropped,omitempty"`         // connections that the server ended until the next change, closed or told to end
	Cut             *int     `json:"cut,omitempty"`             // requests under way until the next change whose connection or stream the server ended

	Moved    *mesh.Moved  `json:"moved,omitempty"`    // versions of the mesh before and after a version change, absent without a mesh
	Parts    *ChangeParts `json:"parts,omitempty"`    // what control plane and proxies count of it, of every fifth change
	CPU      *ChangeCPU   `json:"cpu,omitempty"`      // CPU time around it, absent if it was not read in time
	FailedMS []float64    `json:"failedMs,omitempty"` // when failed requests were sent, ms after it; each failure is of one change, 200 at most
}

// NothingRestarted reports whether a restart was due and no process ended, because there is no mesh.
func (c *Change) NothingRestarted() bool {
	kind, _ := metric.ChangeKindOf(c.Kind)
	return kind.Plane != "" && c.Task == ""
}

// Time is the time by which a kind of change is judged: its convergence, or its first effect if no answer shows the former.
func (c *Change) Time() *Span {
	if c.LastOld != nil {
		return c.LastOld
	}
	return c.FirstNew
}

// ChangeParts are the instants of a change as the parts of the mesh count them, in ms after it was sent. Unknown ones are absent.
type ChangeParts struct {
	ReceivedMS *float64 `json:"receivedMs,omitempty"` // the control plane received it
	PushedMS   *float64 `json:"pushedMs,omitempty"`   // the control plane had sent the new configuration
	TakenMS    *float64 `json:"takenMs,omitempty"`    // the last of the proxies had taken it over, known to the ms
	Proxies    int      `json:"proxies,omitempty"`    // proxies that took a configuration over
}

// ControlTime is how long a stage of the control plane took in the measure phase, by its own histogram.
type ControlTime struct {
	Stage   string       `json:"stage"`             // its name in the mesh's definition
	Count   int64        `json:"count"`             // times that were counted
	Seconds float64      `json:"seconds"`           // their sum, s
	Buckets []TimeBucket `json:"buckets,omitempty"` // by their bounds; longer times than the last bound are in none
}

// TimeBucket has the times between the bound before it, for the first one 0, and its own bound.
type TimeBucket struct {
	UpTo  float64 `json:"upTo"`  // its bound, s
	Count int64   `json:"count"` // times in it
}

// ChangeProbe are requests beside the load that showed the effect of changes. No figure of the load contains them.
type ChangeProbe struct {
	Rate        float64 `json:"rate"`            // requests per second
	Connections int     `json:"connections"`     // number of connections
	Completed   int64   `json:"completed"`       // answers received in the measure phase, part of the divisor of costs
	Whole       *Whole  `json:"whole,omitempty"` // its requests, warm-up and tail included
}

// Answered is the divisor of costs: the answers to load and probe that were received in the measure phase.
func (r *Record) Answered() (n int64) {
	if r.Load != nil {
		n = r.Load.Completed
	}
	if r.ChangeProbe != nil {
		n += r.ChangeProbe.Completed
	}
	return n
}

// FailedExecutions are the executions with another exit code than 0.
func (r *Record) FailedExecutions() (failed []execution.Reading) {
	return lists.Where(r.Executions, func(x execution.Reading) bool { return x.Exit != 0 })
}

// ExecutionFailures describes the failed executions in a line, by the last one.
func (r *Record) ExecutionFailures() string {
	failed := r.FailedExecutions()
	return fmt.Sprintf("%d of %d executions failed: %s", len(failed), len(r.Executions), failed[len(failed)-1].Failure())
}

// Whole counts the requests of the whole load, and of a probe beside it. It is nil if the generator does not count them.
func (r *Record) Whole() *Whole {
	if r.ChangeProbe == nil {
		return r.Load.Whole
	}
	return r.Load.Whole.Plus(r.ChangeProbe.Whole)
}

// Background are services that no request calls, known to the control plane and each proxy.
type Background struct {
	Services int     `json:"services"`         // number of services
	Pods     int     `json:"pods,omitempty"`   // of all services together, on simulated nodes
	Asked    float64 `json:"asked,omitempty"`  // changes of their endpoints per second, as the experiment has them
	Changes  int     `json:"changes"`          // changes that the control plane accepted in the measure phase
	Pushes   *Pushes `json:"pushes,omitempty"` // to simulated proxies, absent without any
}

// Pushes are the messages of a control plane to simulated proxies: clients of xDS without a proxy.
type Pushes struct {
	Proxies     int        `json:"proxies"`               // number of simulated proxies
	SyncMS      float64    `json:"syncMs"`                // from the start of all of them until the last had a whole configuration, ms
	Messages    int64      `json:"messages"`              // messages that they received, all together
	Bytes       int64      `json:"bytes"`                 // bytes of these messages
	Broken      int64      `json:"broken,omitempty"`      // streams that ended and were opened again
	Pairs       int        `json:"pairs,omitempty"`       // changes times proxies
	Missed      int        `json:"missed,omitempty"`      // pairs in which the change had not reached the proxy after the drain phase
	Reached     int        `json:"reached,omitempty"`     // changes that reached every proxy
	Unreached   int        `json:"unreached,omitempty"`   // proxies that no change reached
	UnreachedAt []int      `json:"unreachedAt,omitempty"` // numbers of these, 20 at most
	EachMS      *PushTimes `json:"eachMs,omitempty"`      // from the request of a change until a proxy received it, over all pairs
	LastMS      *PushTimes `json:"lastMs,omitempty"`      // until the last proxy received it, over the changes that reached all
}

// PushTimes are quantiles in milliseconds, absent if the change had not arrived.
type PushTimes struct {
	P50 *float64 `json:"p50,omitempty"` // median
	P99 *float64 `json:"p99,omitempty"` // 99 % quantile
}

// ChangeCPU is the CPU time in both halves of the time from a change to the next. The work for a change is in the first
// one, and the second one has the level without it: the rate of requests is the same.
type ChangeCPU struct {
	Seconds [2]float64                `json:"seconds"` // length of each half
	NS      map[metric.Plane][2]int64 `json:"ns"`      // CPU time of each plane in them, ns
}

// Span contains an instant, in milliseconds after the request of a change was sent.
type Span struct {
	AfterMS  float64   `json:"afterMs"`            // it is later than this
	BeforeMS *float64  `json:"beforeMs,omitempty"` // it is not later than this, absent if it had not come at the end
	WaitsMS  []float64 `json:"waitsMs,omitempty"`  // sample of how long tied connections did not show the configuration at random instants: since their last request, or until their next answer
}

// Bounded returns the span as an observation, in milliseconds.
func (s *Span) Bounded() stats.Bounded {
	b := stats.Bounded{After: s.AfterMS, Before: math.Inf(1), Waits: s.WaitsMS}
	if s.BeforeMS != nil {
		b.Before = *s.BeforeMS
	}
	return b
}

// Load is the result of the load generator in the measure phase. Fields unknown
// to the generator are absent.
type Load struct {
	Generator string `json:"generator"`          // name of the load generator
	Version   string `json:"version,omitempty"`  // its version
	Loop      string `json:"loop"`               // `open`, `closed`, or `paced`: connections that wait between requests to keep a rate
	Arrivals  string `json:"arrivals,omitempty"` // `constant`, `poisson`, or `replay` of recorded instants

	Start time.Time `json:"start"` // beginning of the measure window
	End   time.Time `json:"end"`   // its end

	Workers int `json:"workers,omitempty"` // load workers, absent for one process

	AskedRate    float64 `json:"askedRate,omitempty"`    // requests per second asked for, absent in a closed loop
	Connections  int     `json:"connections"`            // connections used
	Opened       int64   `json:"opened,omitempty"`       // connections opened in the window
	Intended     int64   `json:"intended"`               // requests scheduled in the window
	Sent         int64   `json:"sent"`                   // requests sent of these
	Completed    int64   `json:"completed"`              // answers received in the window, the divisor of costs
	Retried      int64   `json:"retried,omitempty"`      // [retried requests](load.md#retries)
	BacklogStart *int64  `json:"backlogStart,omitempty"` // requests due before the window and not ended at its start, absent if not counted
	BacklogEnd   *int64  `json:"backlogEnd,omitempty"`   // requests due before the end of the window and not ended by then, absent if not counted

	// Whole are the requests of the whole load. They are absent if the generator does not count them.
	Whole *Whole `json:"whole,omitempty"`

	Classes  map[string]int64 `json:"classes"`            // finished requests by class: `2xx`, `status`, `timeout`, `conn`
	Statuses map[string]int64 `json:"statuses,omitempty"` // answers by status code
	Errors   map[string]int64 `json:"errors,omitempty"`   // failures by kind
	// Routes are figures by path or name of the request, if the load has several.
	Routes map[string]RouteTimes `json:"routes,omitempty"`
	// Stream are the messages of answers, absent if no answer had two.
	Stream   *Stream `json:"stream,omitempty"`
	BytesIn  int64   `json:"bytesIn"`  // bytes received in the window, headers included
	BytesOut int64   `json:"bytesOut"` // bytes sent in the window

	WarmupSeconds  float64 `json:"warmupSeconds"`  // start of the window in `latency.hdr`, s from the log's start
	MeasureSeconds float64 `json:"measureSeconds"` // length of the window, s
	// Slices are the slices of the measure window in which this trial had the load. Absent means that
	// it had the whole window. Counts are of these slices, and so is the CPU of tasks.
	Slices      *OwnSlices        `json:"slices,omitempty"`
	SliceCounts []load.SliceCount `json:"-"` // slices.csv has them

	LatenessP50US  *float64 `json:"latenessP50US,omitempty"`  // median lateness, µs
	LatenessP99US  *float64 `json:"latenessP99US,omitempty"`  // 99th percentile of lateness, µs
	LatenessMaxUS  *float64 `json:"latenessMaxUS,omitempty"`  // maximum lateness, µs
	CPUSeconds     *float64 `json:"cpuSeconds,omitempty"`     // CPU time of the generator in the window
	ThreadCPURatio *float64 `json:"threadCPURatio,omitempty"` // CPU of its busiest thread over wall time, 0..1
	CPUPressure    *float64 `json:"cpuPressure,omitempty"`    // share of the window in which some task of its machine waited for a CPU (pressure stall information)
	// OwnLatenessP99US is the lateness caused by the generator itself. It excludes
	// the wait for a free connection, which the server causes. Judge the generator
	// by it.
	OwnLatenessP99US *float64 `json:"ownLatenessP99US,omitempty"` // 99th percentile of lateness without waiting for a free connection, µs
	Verdict          string   `json:"verdict,omitempty"`          // the generator's own verdict: `ok` or `invalid: …`
	Warnings         []string `json:"warnings,omitempty"`         // reasons for the verdict

	Capacity *capacity.Found  `json:"capacity,omitempty"` // search for the rate, before the warm-up, absent if the rate was given
	Figures  capacity.Figures `json:"-"`                  // that bounds are compared with, of tare's generator

	Recorded  int64     `json:"recorded,omitempty"`  // `2xx` of the window in `latency.hdr`; absent: unknown, or as in `classes`
	Published []Latency `json:"published,omitempty"` // distributions as an import's source published them
}

// Whole counts the requests of the whole load, warm-up and tail included: requests that the
// application can have received.
type Whole struct {
	Sent        int64 `json:"sent"`                  // requests sent in the whole load, warm-up and tail included, absent if not counted
	Unanswered  int64 `json:"unanswered,omitempty"`  // of these, without an answer
	Failed      int64 `json:"failed,omitempty"`      // of these, answered with status 400 or above, or a grpc-status other than 0
	Connections int64 `json:"connections,omitempty"` // connections opened
	Unsure      int64 `json:"unsure,omitempty"`      // requests that may have been sent beyond `sent`
}

// Plus adds the counts of another part of the load, or nil if one of them is unknown.
func (w *Whole) Plus(o *Whole) *Whole {
	if w == nil || o == nil {
		return nil
	}
	return &Whole{w.Sent + o.Sent, w.Unanswered + o.Unanswered, w.Failed + o.Failed, w.Connections + o.Connections, w.Unsure + o.Unsure}
}

// OwnSlices are the time slices of one trial of a round.
type OwnSlices struct {
	Count         int     `json:"count"`         // time slices of this trial in the window; `slices` is absent if it had the whole window
	LengthSeconds float64 `json:"lengthSeconds"` // length of a slice, s
	GuardSeconds  float64 `json:"guardSeconds"`  // end of each slice without load, s
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
	Requests int64   `json:"requests"`         // 2xx answers by path or name of the request, with several
	MeanMS   float64 `json:"meanMS"`           // their mean service time, ms
	Failed   int64   `json:"failed,omitempty"` // requests of any other outcome
	P50MS    float64 `json:"p50MS,omitempty"`  // median of their response time, ms
	P90MS    float64 `json:"p90MS,omitempty"`  // 90 % quantile of it, ms
	P99MS    float64 `json:"p99MS,omitempty"`  // 99 % quantile of it, ms
}

// Stream are the messages of answers that stream: events, lines, chunks, or messages of gRPC.
type Stream struct {
	Messages       int64        `json:"messages"`       // messages of the answers to requests of the window
	FirstByteMS    MessageTimes `json:"firstByteMs"`    // from the send to the first byte of a 2xx answer, ms
	FirstMessageMS MessageTimes `json:"firstMessageMs"` // from the send to the end of its first message, ms
	GapMS          MessageTimes `json:"gapMs"`          // between two messages of an answer, of messages that came in the window, ms
}

// MessageTimes is a distribution of times of messages, in ms.
type MessageTimes struct {
	Count int64   `json:"count"` // number of times
	Mean  float64 `json:"mean"`  // their mean
	P50   float64 `json:"p50"`   // their median
	P90   float64 `json:"p90"`   // 90 % quantile
	P99   float64 `json:"p99"`   // 99 % quantile
}

// Reading is one reading of one task. Counters are cumulative. The time is that
// of the reading, not of the request for it.
type Reading struct {
	At          time.Time `json:"at"`                    // time of the reading
	CPU         int64     `json:"cpu"`                   // CPU time since the task began, ns, ended threads included
	RSS         int64     `json:"rss,omitempty"`         // resident memory, bytes
	Peak        int64     `json:"peak,omitempty"`        // peak resident memory, bytes
	PSS         *int64    `json:"pss,omitempty"`         // proportional set size, bytes, read at the end
	Voluntary   int64     `json:"voluntary,omitempty"`   // voluntary context switches of live threads, read at the edges
	Involuntary int64     `json:"involuntary,omitempty"` // involuntary context switches

	Throttled *int64 `json:"throttled,omitempty"` // time throttled by a CPU limit, ns; read at the edges, as the next four
	Periods   *int64 `json:"periods,omitempty"`   // periods of the CPU limit in which it wanted CPU
	Reached   *int64 `json:"reached,omitempty"`   // of these, in which it reached the limit
	Restarts  int    `json:"restarts,omitempty"`  // restarts of the container
	OOMKills  int    `json:"oomKills,omitempty"`  // times it was OOMKilled
}

// TaskUsage is one task at the start and the end of the measure phase.
type TaskUsage struct {
	mesh.Task
	Start       Reading `json:"start"`                 // reading at the beginning of the measure phase
	End         Reading `json:"end"`                   // reading at its end
	Reloaded    int64   `json:"reloaded,omitempty"`    // CPU time at the beginning of processes that reloads have ended, ns, part of `start`
	Ended       bool    `json:"ended,omitempty"`       // a fault ended it in the measure phase; `end` is its last reading
	IdleCPU     *int64  `json:"idleCPU,omitempty"`     // idle CPU in the slices of other treatments, ns, not in the end reading, absent without slices
	DeferredCPU *int64  `json:"deferredCPU,omitempty"` // CPU beyond `idleCPU` in the slices of other treatments, ns, part of the end reading
	IdleRSS     int64   `json:"idleRSS,omitempty"`     // resident memory of the idle task before the load, bytes
	// Memory is its resident memory over the measure phase, thinned out evenly, with its CPU time.
	Memory  []MemoryReading `json:"memory,omitempty"`
	Missing string          `json:"missing,omitempty"` // why its usage is unknown
}

// MemoryReading is the resident memory of a task at one moment of the measure phase.
type MemoryReading struct {
	Seconds float64 `json:"s"`             // since the task's `start` reading
	RSS     int64   `json:"rss"`           // resident memory, bytes
	CPU     int64   `json:"cpu,omitempty"` // CPU time since the task began, ns, with the slices of other treatments
}

// NodeReading is one reading of the whole machine, ns of CPU time since boot.
type NodeReading struct {
	At     time.Time `json:"at"`               // when it was read
	Busy   int64     `json:"busy"`             // CPU time since boot without idle, I/O wait and steal, ns, in ticks of 10 ms
	Steal  int64     `json:"steal"`            // steal time, ns
	Memory int64     `json:"memory,omitempty"` // working set of the node, bytes, of a cluster
}

// NodeUsage is the whole machine, or the sum of all nodes, at the start and the
// end of the measure phase.
type NodeUsage struct {
	CPUs  int         `json:"cpus"`  // number of processors of the machine
	Start NodeReading `json:"start"` // node reading at the beginning of the measure phase
	End   NodeReading `json:"end"`   // node reading at its end
	// Nodes are the individual nodes of a cluster.
	Nodes []MachineUsage `json:"nodes,omitempty"`
}

// MachineUsage is one node of a cluster at the start and the end of the measure
// phase.
type MachineUsage struct {
	Name              string      `json:"name"`              // a node of a cluster; `node` is their sum
	CPUs              int         `json:"cpus"`              // its processors
	AllocatableCPU    float64     `json:"allocatableCPU"`    // allocatable cores
	AllocatableMemory int64       `json:"allocatableMemory"` // allocatable memory, bytes
	Start             NodeReading `json:"start"`             // node reading at the beginning of the measure phase
	End               NodeReading `json:"end"`               // node reading at its end
}

// Environment is the environment of the results, beyond the experiment file.
type Environment struct {
	Schema   string            `json:"schema"`             // `tare.results/v1`
	Time     time.Time         `json:"time"`               // when the run began
	Tare     string            `json:"tare"`               // version of tare
	Command  []string          `json:"command"`            // the command line
	Platform string            `json:"platform"`           // where trials ran
	OS       string            `json:"os"`                 // operating system
	Arch     string            `json:"arch"`               // processor architecture
	Kernel   string            `json:"kernel,omitempty"`   // release of the kernel
	CPUModel string            `json:"cpuModel,omitempty"` // CPU models, separated by commas
	CPUs     int               `json:"cpus"`               // number of processors of the machine
	MemoryMB int64             `json:"memoryMB,omitempty"` // memory of the machine, 10⁶ bytes
	Governor string            `json:"governor,omitempty"` // frequency governors, separated by commas
	Versions map[string]string `json:"versions,omitempty"` // versions of data planes and generators, by name
	Meshes   map[string]string `json:"meshes,omitempty"`   // SHA-256 of each mesh definition, by name
	// Provides are the features of the meshes, by name.
	Provides         map[string]mesh.Provides     `json:"provides,omitempty"`
	Options          map[string]map[string]string `json:"options,omitempty"`          // options of the meshes, by name: chosen, or by default
	Variants         map[string]string            `json:"variants,omitempty"`         // variants of meshes, by name: the origin, and the changes in words
	ExperimentSHA256 string                       `json:"experimentSHA256,omitempty"` // SHA-256 of `experiment.yaml`, hexadecimal
}

// Worked is the time that a run spent on these trials, without interruptions of over five minutes.
func Worked(records []Record) (all time.Duration) {
	for _, span := range Spans(records) {
		all += span
	}
	return all
}

// longestPause is the longest pause between two trials of one session. A longer one is an interruption.
const longestPause = 5 * time.Minute

// Spans are the trials in the order of their ends, each with the time since the end of the trial before: that between them,
// such as the installation of a mesh, belongs to it. After an interruption of over five minutes it is the trial's own time. Trials
// of a round overlap. Records without times, which no run made, are left out.
func Spans(records []Record) iter.Seq2[*Record, time.Duration] {
	records = slices.SortedFunc(slices.Values(records), func(a, b Record) int { return a.Ended.Compare(b.Ended) })
	return func(yield func(*Record, time.Duration) bool) {
		var end time.Time // of the trial before
		for i := range records {
			r := &records[i]
			begin := r.Started
			if begin.IsZero() || !r.Ended.After(begin) {
				continue
			}
			if !end.IsZero() && begin.Sub(end) <= longestPause {
				begin = end
			}
			end = r.Ended
			if !yield(r, end.Sub(begin)) {
				return
			}
		}
	}
}

// FaultTimes returns the trial's faults in seconds from the start of the measure
// window, as far as they lie in it.
func (r *Record) FaultTimes() []expect.Fault {
	if r.Load == nil {
		return nil
	}
	length := r.Load.MeasureSeconds
	var all []expect.Fault
	for _, f := range r.Faults {
		at := f.Start.Sub(r.Load.Start).Seconds()
		if at >= length {
			continue
		}
		times := expect.Fault{At: max(0, at), Heal: length}
		if heal := f.Healed.Sub(r.Load.Start).Seconds(); !f.Healed.IsZero() && heal < length {
			times.Heal, times.Healed = heal, true
		}
		all = append(all, times)
	}
	return all
}

// FailureText lists the four most frequent failures of requests, with their numbers.
func (l *Load) FailureText() string {
	counts := maps.Clone(l.Errors)
	if counts == nil {
		counts = map[string]int64{}
	}
	for status, n := range l.Statuses {
		if !strings.HasPrefix(status, "2") {
			counts["status "+status] += n
		}
	}
	if len(counts) == 0 {
		return "no cause is recorded"
	}
	most := printable.MostFirst(counts)
	return strings.Join(lists.Map(most[:min(len(most), 4)], func(cause string) string { return fmt.Sprintf("%s (%d)", cause, counts[cause]) }), ", ")
}

// Disturbed reports whether faults or changes ended processes of the trial and started others.
func (r *Record) Disturbed() bool {
	return len(r.Faults) > 0 || slices.ContainsFunc(r.Changes, func(c Change) bool {
		kind, _ := metric.ChangeKindOf(c.Kind)
		return c.Task != "" || kind.Shown == metric.Replacement
	})
}

// StartsSeen returns the starts of the trial's pod as expectations use them.
func (r *Record) StartsSeen() (all []expect.Start) {
	return lists.Map(r.Starts, func(s Start) expect.Start { return expect.Start{First: s.FirstMS, Gone: s.GoneMS, Lost: s.Lost} })
}

// ChangesSeen returns the trial's changes as expectations use them.
func (r *Record) ChangesSeen() (all []expect.Change) {
	for _, c := range r.Changes {
		seen := expect.Change{Kind: c.Kind, Failed: c.Failed, Flaps: c.Flaps}
		if c.FirstNew != nil {
			seen.FirstNew = []stats.Bounded{c.FirstNew.Bounded()}
		}
		if c.LastOld != nil {
			seen.LastOld = []stats.Bounded{c.LastOld.Bounded()}
		}
		all = append(all, seen)
	}
	return all
}

// Window returns the measure window in whole seconds of the interval log.
func (l *Load) Window() (first, n int) {
	round := func(s float64) int {
		return int(time.Duration(s*float64(time.Second)).Round(time.Second) / time.Second)
	}
	return round(l.WarmupSeconds), round(l.MeasureSeconds)
}
