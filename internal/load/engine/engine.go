// Package engine runs a load profile and reports the result.
package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-mesh/tare/internal/base/clock"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/host"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/load/target"
)

// worker is one worker as the engine sees it. All methods but stop are called, in
// this order, on the worker's own locked thread.
type worker interface {
	// Prewarm opens the connections.
	Prewarm() error
	// Run runs the worker's share of the schedule from t0 and returns its counts.
	Run(t0 time.Time) *record.Totals
	// Stop makes Run stop sending and return when no request is in flight. Any thread may call it.
	Stop()
	// Close frees the worker's resources after Run has returned. Stop must not be called again.
	Close()
}

// lead is the time between the choice of t0 and t0. Every worker wakes up and waits within it.
const lead = 5 * time.Millisecond

type engine struct {
	*job.Job
	host *host.Watch

	answered atomic.Bool // a request was, since it was last set to false
}

// Run runs the load p and returns its report. It calls progress, unless nil, once a
// second from one goroutine. When ctx ends, Run stops sending, waits max p.Drain for
// requests in flight, and reports the measurements so far, without an error. It
// fails if p is invalid ([load.Profile.Validate]), a host look-up fails, the
// system refuses a resource, or is not Linux ([Supported]).
func Run(ctx context.Context, p load.Profile, progress func(load.Progress)) (load.Report, error) {
	return run(ctx, p, progress, net.DefaultResolver.LookupNetIP)
}

func run(ctx context.Context, p load.Profile, progress func(load.Progress), look target.Lookup) (load.Report, error) {
	if err := errors.Join(Supported(), p.Validate()); err != nil {
		return load.Report{}, fmt.Errorf("load profile: %w", err)
	}
	p = p.WithDefaults()
	e := &engine{}
	var err error
	if e.Job, err = job.Prepare(ctx, p, e.watched(progress), look); err != nil {
		return load.Report{}, err
	}
	// The first timer of a process opens descriptors, and ends the process if connections have taken the last one.
	time.AfterFunc(time.Hour, func() {}).Stop()
	lanes, err := e.workers()
	defer func() {
		for _, l := range lanes {
			l.Close()
		}
	}()
	if err != nil {
		return load.Report{}, fmt.Errorf("prepare load worker: %w", err)
	}
	return e.run(ctx, lanes)
}

// workers builds the workers. The caller closes the returned workers, also after an error.
func (e *engine) workers() ([]worker, error) {
	lanes := make([]worker, 0, e.Profile.Workers)
	for i := range e.Profile.Workers {
		l, err := newWorker(e.Job, i)
		if err != nil {
			return lanes, err
		}
		lanes = append(lanes, l)
	}
	return lanes, nil
}

func (e *engine) run(ctx context.Context, lanes []worker) (load.Report, error) {
	var (
		begin   = make(chan time.Time)
		ready   = make(chan error, len(lanes))
		results = make([]*record.Totals, len(lanes))
		running sync.WaitGroup
	)
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	if e.Profile.Requests > 0 && e.Profile.Rate == 0 { // any other load ends with its time
		go e.awaitConnections(ctx, giveUp)
	}
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-over:
		case <-ctx.Done():
			for _, l := range lanes {
				l.Stop()
			}
		}
	}()
	defer func() {
		close(over)
		<-watched
	}()
	for i, l := range lanes {
		running.Go(func() {
			// Never unlocked: the thread, with its timer slack and its pinning,
			// ends with the goroutine.
			runtime.LockOSThread()
			ready <- e.prepare(i, l)
			if t0, ok := <-begin; ok {
				results[i] = l.Run(t0)
			}
		})
	}
	var errs []error
	for range lanes {
		errs = append(errs, <-ready)
	}
	err := errors.Join(errs...)
	if err != nil {
		err = fmt.Errorf("prepare load worker: %w", err)
	} else if e.Profile.Await != nil {
		e.Profile.Start, err = e.Profile.Await(ctx)
	}
	if err != nil {
		close(begin)
		running.Wait()
		return load.Report{}, err
	}
	t0, late := e.startTime(time.Now())
	e.Collector.Start(len(lanes))
	for range lanes {
		begin <- t0
	}
	ended := make(chan struct{})
	e.host = host.StartWatch(t0.Add(e.Profile.Warmup), e.Profile.Measure, ended)
	running.Wait()
	close(ended)
	e.Collector.Finish()
	report := e.Collector.Report(record.Facts{Protocols: target.Protocols(e.Targets), Started: t0, Quota: e.Quotas()}, results, e.host.Shares)
	if late > 0 {
		text, note := "the load started %v after the agreed start: opening the connections took longer than expected", report.Warn
		if e.Profile.Await != nil {
			text = "the load started %v after the agreed start, which it got late"
		}
		switch {
		case e.joins(late):
			note = report.Note
		case e.Profile.Slices != nil: // its slices differ from the other members' slices
			note = report.Invalidate
		}
		note(text, late.Round(time.Millisecond))
	}
	err = errors.Join(
		record.WriteWhole(e.Profile.HDRPath, "interval log", func(w io.Writer) error { return e.Collector.WriteLog(w, t0) }),
		record.WriteWhole(e.Profile.AnswersPath, "answers", func(w io.Writer) error { return record.WriteAnswers(w, results) }))
	if err == nil && errors.Is(context.Cause(ctx), ErrNoConnection) {
		err = e.noConnection(&report)
	}
	return report, err
}

func (e *engine) prepare(i int, l worker) error {
	cpu := -1
	if n := len(e.Profile.CPUs); n > 0 {
		cpu = e.Profile.CPUs[i%n]
	}
	if err := host.PrepareThread(cpu); err != nil {
		return fmt.Errorf("pin worker %d to cpu %d: %w", i, cpu, err)
	}
	return l.Prewarm()
}

// startTime returns t0 with a monotonic clock reading, and the delay of the load after the
// profile's start.
func (e *engine) startTime(now time.Time) (t0 time.Time, late time.Duration) {
	if e.Profile.Start.IsZero() {
		return now.Add(lead), 0
	}
	wait := e.Profile.Start.Round(0).Sub(now.Round(0)) // by the wall clock, which others share
	if e.joins(-wait) {
		return now.Add(wait), max(0, -wait)
	}
	return now.Add(max(wait, lead)), max(0, lead-wait)
}

// joins reports whether a late load keeps the agreed t0: it joins others in their slices, or was held, and counters
// are read by the agreed t0. It sends the requests that are due already, in half of the warm-up at most.
func (e *engine) joins(late time.Duration) bool {
	return (e.Profile.Slices != nil || e.Profile.Await != nil) && late <= e.Profile.Warmup/2
}

const (
	// openWithin is the time within which a closed loop of a number of requests needs a usable connection. Without one its
	// requests fail one by one, each after a pause of up to a second.
	openWithin = 5 * time.Second
	// goneWithin is the same for a server that has answered: a restart takes less.
	goneWithin = 30 * time.Second
	// openCheck is the time between two checks for a usable connection.
	openCheck = 100 * time.Millisecond
)

// ErrNoConnection is the error of a load that ended because no connection could be opened. Its report is whole.
var ErrNoConnection = errors.New("no connection could be opened")

// awaitConnections ends a load whose connections all fail: none is opened and none has an answer for openWithin, or
// after the first for goneWithin. A server that does not respond has the profile's timeout instead: until then
// no attempt has failed at it, and a request may wait for its answer.
func (e *engine) awaitConnections(ctx context.Context, giveUp context.CancelCauseFunc) {
	since, within := time.Now(), openWithin
	pause := time.NewTicker(openCheck)
	defer pause.Stop()
	for {
		switch {
		case e.HasOpened() || e.answered.Load():
			e.ForgetOpening()
			e.answered.Store(false)
			since, within = time.Now(), max(goneWithin, e.Profile.Timeout)
		case time.Since(since) >= within && e.NoneOpens():
			giveUp(ErrNoConnection)
			return
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// watched records answers for awaitConnections.
func (e *engine) watched(progress func(load.Progress)) func(load.Progress) {
	return func(p load.Progress) {
		if p.Completed > 0 {
			e.answered.Store(true)
		}
		if progress != nil {
			progress(p)
		}
	}
}

// noConnection is the error of a load that has ended without a usable connection.
func (e *engine) noConnection(r *load.Report) error {
	origins, _ := e.Profile.Origins()
	todo, since := "start the server first, and check host, port and protocol", ""
	if r.Completed > 0 {
		todo, since = "the server has answered before: see its log", fmt.Sprintf(" for %v", max(goneWithin, e.Profile.Timeout))
	}
	return hint.New(todo, "%w to %s%s: %s",
		ErrNoConnection, strings.Join(origins, ", "), since, record.Tally(r.ConnectErrors, r.Reasons))
}

// maxProfile is the max size of a profile.
const maxProfile = 16 << 20 // bytes

// Process runs a load as a process of its own: it reads a profile as JSON, and writes one JSON line
// a second, then the report. Warnings go to stderr, after the program's name.
func Process(ctx context.Context, program string, stdin io.Reader, stdout, stderr io.Writer, run func(context.Context, load.Profile, func(load.Progress)) (load.Report, error)) error {
	lines, in := json.NewEncoder(stdout), json.NewDecoder(io.LimitReader(stdin, maxProfile))
	profile, err := readProfile(in, func(s clock.Stamps) error { return lines.Encode(load.Line{Clock: &s}) })
	if err != nil {
		return err
	}
	if err := profile.Validate(); err != nil {
		return fmt.Errorf("load profile: %w", err)
	}
	if profile.Hold {
		profile.Await = func(ctx context.Context) (time.Time, error) {
			if err := lines.Encode(load.Line{Ready: true}); err != nil {
				return time.Time{}, fmt.Errorf("announce that the load is ready: %w", err)
			}
			return readStart(ctx, in)
		}
	}
	host.TuneProcess(profile.Workers)
	var broken error
	report, err := run(ctx, profile, func(p load.Progress) {
		if broken == nil {
			broken = lines.Encode(load.Line{Progress: &p})
		}
	})
	if err != nil {
		return err
	}
	for _, w := range report.Warnings {
		fmt.Fprintf(stderr, "%s: warning: %s\n", program, w)
	}
	if err := errors.Join(broken, lines.Encode(load.Line{Report: &report})); err != nil {
		return fmt.Errorf("write load report: %w", err)
	}
	return nil
}

// readProfile rejects unknown fields: this agent would silently ignore a
// setting. It replies to clock requests that precede the profile.
func readProfile(d *json.Decoder, acknowledge func(clock.Stamps) error) (load.Profile, error) {
	var p load.Profile
	for {
		var text json.RawMessage
		err := d.Decode(&text)
		received := time.Now().UnixNano()
		if err != nil {
			return p, fmt.Errorf("read load profile: %w", err)
		}
		var q load.Question
		if strictly(text, &q) != nil || !q.Clock {
			if err := strictly(text, &p); err != nil {
				return p, fmt.Errorf("read load profile: %w", err)
			}
			return p, nil
		}
		if err := acknowledge(clock.Stamps{Received: received, Sent: time.Now().UnixNano()}); err != nil {
			return p, fmt.Errorf("send the clock: %w", err)
		}
	}
}

// readStart reads the start of a load that is held.
func readStart(ctx context.Context, d *json.Decoder) (time.Time, error) {
	var b load.Begin
	read := make(chan error, 1)
	go func() {
		err := d.Decode(&b)
		if err == nil && b.Start.IsZero() {
			err = errors.New("it is absent")
		}
		read <- err
	}()
	select {
	case err := <-read:
		if err != nil {
			return time.Time{}, fmt.Errorf("read the start of the load: %w", err)
		}
		return b.Start, nil
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("stopped before the load began: %w", context.Cause(ctx))
	}
}

func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
