package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/timeline"
)

// second is one second of the measure phase, from its start.
type second struct {
	at                  time.Duration
	intended, completed int64 // requests due in this second, and answers in it
	ended, failed       int64 // of the requests due in it, at any time
}

// stretch is the seconds between two windows in which a check is suspended.
type stretch struct {
	from, to time.Duration
	second         // sums
	held     int64 // requests that were due before it, and neither answered before it
	after    int64 // answers in the second after it, before the fault
}

func (p stretch) String() string {
	return fmt.Sprintf("from %v to %v of the measure phase, outside the faults,", p.from, p.to)
}

// judgedSeconds returns the whole seconds of the measure phase, nil if the generator reports none.
func (t *trial) judgedSeconds() []second {
	profile := t.load.profile
	first := int((profile.Warmup + time.Second - 1) / time.Second)
	n := int((profile.Warmup+profile.Measure)/time.Second) - first
	logged, err := expect.ReadSeconds(t.setup.dir.Path(result.LatencyFile), first, n)
	if err != nil {
		return nil
	}
	t.load.mu.Lock()
	defer t.load.mu.Unlock()
	return joinSeconds(t.load.progress, logged, first, time.Duration(first)*time.Second-profile.Warmup)
}

// joinSeconds joins what the generator reported during the load with its interval log. Second first of the load is the
// first of the log, and begins at at in the measure phase.
func joinSeconds(reported []load.Progress, logged []expect.Second, first int, at time.Duration) (all []second) {
	for _, p := range reported {
		i := p.Second - first
		if i < 0 || i >= len(logged) {
			continue
		}
		ended := logged[i].OK + logged[i].Status + logged[i].Other
		all = append(all, second{at: at + time.Duration(i)*time.Second, intended: p.Intended, completed: p.Completed,
			ended: ended, failed: ended - logged[i].OK})
	}
	return all
}

// suspends reports whether a fault or a change of the trial suspends a check.
func (s seen) suspends(check string) bool {
	return len(s.windows(check)) > 0
}

// firstStretch returns the first finding in the stretches in which a check is not suspended.
func (s seen) firstStretch(check string, find func(stretch) string) string {
	for _, p := range s.outside(check) {
		if message := find(p); message != "" {
			return message
		}
	}
	return ""
}

// outside returns the stretches of the measure phase in which a check is not suspended.
func (s seen) outside(check string) (all []stretch) {
	windows := s.windows(check)
	var held int64
	judged := false
	for i, one := range s.seconds {
		was := judged
		judged = true
		for _, w := range windows {
			from := s.load.Start.Add(one.at)
			judged = judged && !w.Overlaps(from, from.Add(time.Second))
		}
		if judged {
			if !was {
				all = append(all, stretch{from: one.at, held: max(0, held)})
			}
			p := &all[len(all)-1]
			p.to = one.at + time.Second
			p.intended, p.completed = p.intended+one.intended, p.completed+one.completed
			p.ended, p.failed = p.ended+one.ended, p.failed+one.failed
			if p.after = 0; i+1 < len(s.seconds) {
				p.after = s.seconds[i+1].completed
			}
		}
		held += one.intended - one.completed
	}
	return all
}

// windows are the times in which faults and changes suspend a check.
func (s seen) windows(check string) []timeline.Window {
	return append(timeline.Windows(check, s.record.Faults, s.faults), timeline.ChangeWindows(check, s.record.Changes, s.began)...)
}

// injectedFaults are the faults of the experiment that had a target in this trial.
func (s seen) injectedFaults() (all []experiment.Fault) {
	for _, f := range s.record.Faults {
		if f.Index >= 0 && f.Index < len(s.faults) { // a changed record may have others
			all = append(all, s.faults[f.Index])
		}
	}
	return all
}

// recorded are the codes of the checks that need only what a results directory has.
var recorded = []string{"changed-by-hand", "rate-missed", "rate-exceeded", "requests-not-conserved", "cpu-impossible", "errors", "response-size",
	"generator-saturated", "generator-late", "unattributed", "foreign-starves", "task-missing", "restarted", "throttled", "slices-overrun", "cpu-pressure", "cpu-stolen"}

// disturbed are those of them that need every second of the load where faults or changes are scheduled.
var disturbed = []string{"rate-missed", "rate-exceeded", "errors", "restarted"}

// certainP50 is the response time below which the limit of lateness does not depend on it.
const certainP50 = 8 * time.Millisecond

// Recheck makes the checks of a recorded trial again, as far as its record, its slices and the median of its response times
// permit. It returns the codes of these checks, and the warnings. A trial that was not measured to its end had no checks.
func Recheck(x *experiment.Experiment, r *result.Record, rows []result.Slice, p50 time.Duration) (codes []string, warnings []result.Warning) {
	for _, w := range r.Warnings {
		if w.Invalidates && !slices.ContainsFunc(checks, func(c validityCheck) bool { return c.code == w.Code }) {
			return nil, nil
		}
	}
	load := *r.Load
	for _, row := range rows {
		if row.Own {
			load.SliceCounts = append(load.SliceCounts, row.SliceCount)
		}
	}
	s := seen{record: r, load: &load, limits: x.Validity, open: load.AskedRate > 0, faults: x.Faults, p50: p50}
	codes = slices.DeleteFunc(slices.Clone(recorded), func(code string) bool {
		return (len(x.Faults) > 0 || x.Changing()) && slices.Contains(disturbed, code) ||
			code == "slices-overrun" && (load.Slices == nil || rows == nil) ||
			code == "generator-late" && x.Validity.Lateness == 0 && p50 > certainP50
	})
	return codes, s.warnings(x.Platform.Kind, codes)
}

// expect evaluates the experiment's expectations on each second of the trial.
func (t *trial) expect() {
	if len(t.setup.Experiment.Expect) == 0 {
		return
	}
	seen, err := t.secondsOf()
	for _, text := range t.setup.Experiment.Expect {
		o := expect.Outcome{Expect: text}
		condition, bad := expect.Parse(text)
		switch {
		case bad != nil: // the file was checked: another version of tare wrote it
			o.Detail = bad.Error()
		case err != nil:
			o.Detail = err.Error()
		default:
			o = condition.Evaluate(seen)
		}
		t.journal.record.Expectations = append(t.journal.record.Expectations, o)
		if !o.OK {
			outcome := "does not hold"
			if o.Undecided {
				outcome = "undecided"
			}
			t.journal.emit(result.Event{Kind: result.KindLog, Message: fmt.Sprintf("%s: %s: %s", outcome, o.Expect, o.Detail)})
		}
	}
}

// secondsOf reads the seconds of the measure phase, with the faults in it.
func (t *trial) secondsOf() (expect.Trial, error) {
	l := t.journal.record.Load
	first, n := l.Window()
	seconds, err := expect.ReadSeconds(t.setup.dir.Path(result.LatencyFile), first, n)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("generator %s keeps no latencies by the second: %w", l.Generator, errors.ErrUnsupported)
	}
	return expect.Trial{Seconds: seconds, Status: l.Statuses, Faults: t.journal.record.FaultTimes(), Changes: t.journal.record.ChangesSeen(), Starts: t.journal.record.StartsSeen()}, err
}

// conservation checks that requests are conserved. It reads the counters before the load and
// after it, while nothing is in flight, so that its cost is in no measure phase.
type conservation struct {
	setup      *setup
	journal    *journal
	deployment *platform.Deployment

	before  []balance.Count
	unknown string // why there is no reading
}

const (
	// lastCounts is the time for counters to reach their final values: a request that timed out
	// may still be on its way.
	lastCounts = 2 * time.Second
	// lateCounts is the same after a load with unanswered requests: they may be in flight longer, and a
	// reading of a machine without idle CPU may take a second.
	lateCounts = 10 * time.Second
	// countsPause is the time between two readings of them.
	countsPause = 100 * time.Millisecond
)

// begin reads the counters before the load.
func (c *conservation) begin(ctx context.Context) error {
	if c.deployment.RequestCounts == nil {
		c.unknown = fmt.Sprintf("platform %s does not read counters of requests", c.setup.Experiment.Platform.Kind)
		return nil
	}
	var err error
	c.before, err = c.deployment.RequestCounts(ctx)
	return c.readable(ctx, err)
}

// end reads the counters after the load and records the balance. It reads them again until all
// equations hold, for no longer than lastCounts or lateCounts.
func (c *conservation) end(ctx context.Context) error {
	deadline := time.Now().Add(lastCounts)
	if w := c.journal.record.Whole(); w != nil && w.Unanswered > 0 {
		deadline = time.Now().Add(lateCounts)
	}
	for c.unknown == "" {
		after, err := c.deployment.RequestCounts(ctx)
		if err := c.readable(ctx, err); err != nil || c.unknown != "" {
			return err
		}
		b := balance.Check(c.setup.topology, c.rules(), append(c.sent(), c.ofEngine(balance.Changes(c.before, after))...))
		c.journal.record.Balance = &b
		if b.Message() == "" || time.Now().After(deadline) {
			c.report(b)
			return nil
		}
		if err := await(ctx, time.Now().Add(countsPause)); err != nil {
			return err
		}
	}
	b := balance.Balance{Flows: c.sent(), Equations: []balance.Equation{}, Unchecked: []string{c.unknown}}
	c.journal.record.Balance = &b
	c.report(b)
	return nil
}

// report emits the reasons if nothing was checked.
func (c *conservation) report(b balance.Balance) {
	own := slices.ContainsFunc(c.setup.topology.Services, func(s app.Service) bool { return s.IsOwn() })
	if len(b.Equations) == 0 && !own { // programs of users count nothing, in every trial
		c.journal.emit(result.Event{Kind: result.KindLog, Message: "requests sent and served were not compared: " + strings.Join(b.Unchecked, "; ")})
	}
}

// readable keeps the reason of a failed reading. The trial goes on without the check.
func (c *conservation) readable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		c.unknown = err.Error()
	}
	return nil
}

// sent are the requests and connections of the load, and of a probe beside it.
func (c *conservation) sent() []balance.Flow {
	requests := balance.Flow{Place: balance.Place{Service: balance.LoadName, Point: balance.Sent, To: c.setup.topology.EntryName(), Unit: balance.Requests}}
	connections := requests
	connections.Unit = balance.Connections
	w := c.journal.record.Whole()
	if w == nil {
		requests.Unknown = fmt.Sprintf("generator %s does not count the requests of its whole run", c.journal.record.Load.Generator)
		return []balance.Flow{requests}
	}
	requests.Tally = balance.Tally{Count: w.Sent, Failed: w.Unanswered + w.Failed, Unsure: w.Unsure}
	connections.Count = w.Connections
	switch {
	case c.setup.entryProtocol() == app.TCP: // whose requests nothing else counts
		connections.Failed = w.Unanswered
		return []balance.Flow{connections}
	case c.setup.entryProtocol() == app.WebSocket: // proxies count connections, the entry messages too
	case w.Connections == 0:
		return []balance.Flow{requests}
	}
	return []balance.Flow{requests, connections}
}

// ofEngine drops the counts by bytes of requests that another generator than tare's writes, whose size is unknown.
func (c *conservation) ofEngine(flows []balance.Flow) []balance.Flow {
	name := c.journal.record.Load.Generator
	for i, f := range flows {
		if f.Bytes > 0 && name != (generator.Tare{}).Name() {
			flows[i] = balance.Flow{Place: f.Place, Unknown: fmt.Sprintf("the size of requests of generator %s is unknown", name)}
		}
	}
	return flows
}

func (c *conservation) rules() balance.Rules {
	l := c.journal.record.Load
	r := balance.Rules{Retries: c.setup.mesh.Provides.Retries, Uncounted: c.setup.Experiment.Platform.Kind == mesh.OnKubernetes, Measured: 1}
	if l.Whole != nil && l.Whole.Sent > 0 {
		r.Measured = float64(l.Sent) / float64(l.Whole.Sent)
	}
	return r
}

// notConserved describes requests that appeared or vanished.
func notConserved(s seen) string {
	if s.record.Balance == nil {
		return ""
	}
	return s.record.Balance.Message()
}
