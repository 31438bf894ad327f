package timeline_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/timeline"
)

const (
	connections = 8
	answerTime  = 200 * time.Microsecond
	seen        = 2 * time.Second // from the start of the load to its end
	changed     = time.Second     // when the change is sent
)

// probes are answers to 1,000 requests per second in turn over the connections. served returns what serves a request of a
// connection at an instant after the change.
func probes(served func(conn int, at time.Duration) (version string, ok bool)) (all []record.Answer) {
	for n := range int(seen / time.Millisecond) {
		at := time.Duration(n) * time.Millisecond
		a := record.Answer{Conn: n % connections, Sent: int64(at), End: int64(at + answerTime)}
		a.Version, a.OK = served(a.Conn, at-changed)
		all = append(all, a)
	}
	return all
}

func observed(c result.Change, answers []record.Answer, later ...result.Change) result.Change {
	c.SentSeconds = changed.Seconds()
	all := append([]result.Change{c}, later...)
	timeline.Observe(all, answers, seen, 0)
	return all[0]
}

// contains checks that a span has an instant after the change, and is narrow.
func contains(t *testing.T, what string, s *result.Span, at time.Duration, width float64) {
	t.Helper()
	ms := float64(at) / 1e6
	switch {
	case s == nil:
		t.Errorf("%s: unknown", what)
	case s.BeforeMS == nil:
		t.Errorf("%s: never", what)
	case ms <= s.AfterMS-1e-9 || ms > *s.BeforeMS+1e-9 || *s.BeforeMS-s.AfterMS > width:
		t.Errorf("%s: got (%v, %v] ms, want it to contain %v, and a width of at most %v", what, s.AfterMS, *s.BeforeMS, ms, width)
	}
}

var route = result.Change{Kind: metric.RouteChanged, Version: 1}

// at is a route that changes at an instant.
func at(switched time.Duration) func(int, time.Duration) (string, bool) {
	return func(_ int, now time.Duration) (string, bool) {
		if now >= switched {
			return "1 127.0.0.2:1", true
		}
		return "0 127.0.0.2:1", true
	}
}

func TestKnownDelaysAreContained(t *testing.T) {
	for _, delay := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond} {
		c := observed(route, probes(at(delay)))
		contains(t, "first effect of "+delay.String(), c.FirstNew, delay, connections+1)
		contains(t, "convergence of "+delay.String(), c.LastOld, delay, connections+1)
		if c.Failed != 0 || c.Flaps != 0 {
			t.Errorf("%v: %d failed, %d flaps", delay, c.Failed, c.Flaps)
		}
	}
}

func TestSlowWorkerIsFound(t *testing.T) {
	c := observed(route, probes(func(conn int, now time.Duration) (string, bool) {
		if conn%2 == 1 {
			return at(300*time.Millisecond)(conn, now)
		}
		return at(20*time.Millisecond)(conn, now)
	}))
	contains(t, "first effect", c.FirstNew, 20*time.Millisecond, connections+1)
	contains(t, "convergence", c.LastOld, 300*time.Millisecond, connections+1)
	if c.Flaps != 0 {
		t.Errorf("%d flaps: each connection has one worker", c.Flaps)
	}
}

func TestFlapIsFound(t *testing.T) {
	c := observed(route, probes(func(conn int, now time.Duration) (string, bool) {
		if now >= 100*time.Millisecond && now < 116*time.Millisecond {
			return "0 127.0.0.2:1", true
		}
		return at(20*time.Millisecond)(conn, now)
	}))
	if c.Flaps != 16 {
		t.Errorf("%d flaps, want one an answer: 16", c.Flaps)
	}
	contains(t, "first effect", c.FirstNew, 20*time.Millisecond, connections+1)
	contains(t, "convergence", c.LastOld, 116*time.Millisecond, connections+1)
}

// Streams of one connection overlap: an answer that took long is no flap, and one that was asked for after the end of a new one is.
func TestStreamsOfOneConnection(t *testing.T) {
	ms := func(n float64) int64 { return int64(changed) + int64(n*1e6) }
	stream := func(version string, sent, end float64) record.Answer {
		return record.Answer{Sent: ms(sent), End: ms(end), OK: true, Version: version + " 127.0.0.2:1"}
	}
	all := []record.Answer{stream("0", 1, 40), stream("0", 2, 3), stream("1", 3, 30), stream("0", 19, 50), stream("1", 21, 25), stream("1", 60, 61)}
	c := observed(route, all)
	contains(t, "first effect", c.FirstNew, 20*time.Millisecond, 6)
	contains(t, "convergence", c.LastOld, 20*time.Millisecond, 6)
	if c.Flaps != 0 {
		t.Errorf("%d flaps, want none", c.Flaps)
	}
	c = observed(route, append(all, stream("0", 25, 27), stream("1", 27, 28))) // each sent at the instant at which the one before ended
	contains(t, "first effect before a flap", c.FirstNew, 20*time.Millisecond, 6)
	contains(t, "convergence after a flap", c.LastOld, 27*time.Millisecond, 4)
	if c.Flaps != 1 {
		t.Errorf("%d flaps, want 1", c.Flaps)
	}
}

// Each dropped connection, and each request that was cut with it, is of the change before it.
func TestDroppedConnectionsAreOfTheChangeBefore(t *testing.T) {
	at := func(n int, event record.Event) record.Answer {
		end := int64(changed) + int64(n)*1e6
		return record.Answer{Conn: n % connections, Sent: end - 1e6, End: end, Event: event}
	}
	all := []record.Answer{at(-5, record.Dropped), at(0, record.Dropped), at(7, record.Cut), at(90, record.Dropped), at(130, record.Dropped), at(140, record.Cut), at(141, record.Cut), at(1500, record.Dropped)}
	later := result.Change{Kind: metric.EndpointRemoved, SentSeconds: changed.Seconds() + 0.1}
	changes := []result.Change{{Kind: metric.RouteChanged, Version: 1, SentSeconds: changed.Seconds()}, later}
	timeline.Observe(changes, all, seen, 0)
	for i, want := range [][2]int{{2, 1}, {1, 2}} {
		if c := changes[i]; *c.Dropped != want[0] || *c.Cut != want[1] {
			t.Errorf("change %d: %d dropped, %d cut, want %v", i, *c.Dropped, *c.Cut, want)
		}
	}
}

func TestWorkerThatNeverLearnsIsFound(t *testing.T) {
	c := observed(route, probes(func(conn int, now time.Duration) (string, bool) {
		if conn == 3 {
			return "0 127.0.0.2:1", true
		}
		return at(0)(conn, now)
	}))
	if c.LastOld == nil || c.LastOld.BeforeMS != nil || c.LastOld.AfterMS < 900 {
		t.Errorf("convergence: got %+v, want none until the end", c.LastOld)
	}
	if c.Unchanged != 1 || c.Connections != connections || len(c.UnchangedAt) != 0 {
		t.Errorf("%d of %d connections unchanged, replicas %q, want 1 of %d and no replica", c.Unchanged, c.Connections, c.UnchangedAt, connections)
	}
}

func TestReplicaThatNeverLearnsIsFound(t *testing.T) {
	c := observed(route, probes(func(conn int, now time.Duration) (string, bool) {
		if conn%2 == 1 {
			return "0 127.0.0.3:1", true
		}
		return at(0)(conn, now)
	}))
	if c.Replicas != 2 || !slices.Equal(c.UnchangedAt, []string{"127.0.0.3:1"}) || c.Unchanged != connections/2 {
		t.Errorf("unchanged at %q of %d replicas, %d connections; want 127.0.0.3:1 of 2, %d", c.UnchangedAt, c.Replicas, c.Unchanged, connections/2)
	}
}

func TestFailuresUntilConvergenceCount(t *testing.T) {
	c := observed(route, probes(func(conn int, now time.Duration) (string, bool) {
		version, _ := at(50*time.Millisecond)(conn, now)
		failed := now == 10*time.Millisecond || now == 30*time.Millisecond || now == -10*time.Millisecond || now == 500*time.Millisecond
		return version, !failed
	}))
	if c.Failed != 2 {
		t.Errorf("%d failed, want the 2 between change and convergence", c.Failed)
	}
}

// A replica leaves and comes back after half a second.
func TestEndpoints(t *testing.T) {
	const gone, back = 30 * time.Millisecond, 540 * time.Millisecond
	answers := probes(func(conn int, now time.Duration) (string, bool) {
		if turn := (int(now/time.Millisecond) + 1000) / connections % 2; turn == 1 && (now < gone || now >= back) {
			return "0 127.0.0.3:1", true
		}
		return "0 127.0.0.2:1", true
	})
	added := result.Change{Kind: metric.EndpointAdded, Endpoint: "127.0.0.3:1", SentSeconds: (changed + 500*time.Millisecond).Seconds()}
	removed := observed(result.Change{Kind: metric.EndpointRemoved, Endpoint: "127.0.0.3:1"}, answers, added)
	if removed.FirstNew != nil {
		t.Error("the other replica answered before the removal too")
	}
	contains(t, "removal", removed.LastOld, 23*time.Millisecond, 2*connections+1)
	all := []result.Change{added}
	timeline.Observe(all, answers, seen, 0)
	if all[0].LastOld != nil {
		t.Error("the other replica answers after the addition too")
	}
	contains(t, "addition", all[0].FirstNew, 44*time.Millisecond, 45) // its turn comes 4 ms after the addition
}

// A restart ends half a second before the next one. A request that was under way then is of the next, and of both without a task
// there are failures, but no times.
func TestRestarts(t *testing.T) {
	const down, again, next = 10 * time.Millisecond, 60 * time.Millisecond, 500*time.Millisecond + answerTime/2
	answers := probes(func(_ int, now time.Duration) (string, bool) {
		return "", (now < down || now >= again) && (now < 500*time.Millisecond || now >= 520*time.Millisecond)
	})
	for task, restarted := range map[string]bool{"echo-0/sidecar": true, "": false} {
		second := result.Change{Kind: metric.ProxyRestarted, Task: task, SentSeconds: (changed + next).Seconds()}
		first := observed(result.Change{Kind: metric.ProxyRestarted, Task: task}, answers, second)
		all := []result.Change{second}
		timeline.Observe(all, answers, seen, 0)
		if first.Failed != 50 || all[0].Failed != 20 || len(first.FailedMS) != 50 {
			t.Errorf("task %q: %d and %d requests failed, %d with an instant; want 50, 20 and 50", task, first.Failed, all[0].Failed, len(first.FailedMS))
		}
		if !restarted {
			if first.FirstNew != nil || first.LastOld != nil {
				t.Errorf("nothing restarted, and it took %+v and %+v", first.FirstNew, first.LastOld)
			}
			continue
		}
		contains(t, "last failure", first.LastOld, again-time.Millisecond+1, 2)
		contains(t, "last failure of the next", all[0].LastOld, 20*time.Millisecond-answerTime, 2)
	}
}

func TestLoadWithoutAnswers(t *testing.T) {
	c := observed(route, nil)
	if c.FirstNew != nil || c.LastOld != nil || c.Probes != 0 {
		t.Errorf("got %+v, want nothing", c)
	}
}

// Each failed request is of the change around it: from a quarter of the time to the next change before it.
func TestInstantsOfFailures(t *testing.T) {
	failing := map[time.Duration]bool{-260 * time.Millisecond: true, -250 * time.Millisecond: true, 20 * time.Millisecond: true, 740 * time.Millisecond: true, 760 * time.Millisecond: true}
	answers := probes(func(_ int, at time.Duration) (string, bool) { return "", !failing[at] })
	next := route
	next.SentSeconds = seen.Seconds()
	c := observed(route, answers, next)
	if want := []float64{-250, 20, 740}; !slices.Equal(c.FailedMS, want) {
		t.Errorf("failed requests at %v ms, want %v", c.FailedMS, want)
	}
}

// The pods that answered before a version change are the old ones. One that is replaced later ends convergence.
func TestReplacedPods(t *testing.T) {
	c := observed(result.Change{Kind: metric.VersionChanged, Version: 1}, probes(func(conn int, now time.Duration) (string, bool) {
		switch {
		case conn%2 == 0 && now >= 40*time.Millisecond:
			return "0 new-a", now != 64*time.Millisecond
		case conn%2 == 1 && now >= 300*time.Millisecond:
			return "0 new-b", true
		}
		return []string{"0 old-a", "0 old-b"}[conn%2], true
	}))
	contains(t, "first effect", c.FirstNew, 40*time.Millisecond, connections+1)
	contains(t, "convergence", c.LastOld, 300*time.Millisecond, connections+1)
	if c.Failed != 1 || len(c.UnchangedAt) > 0 {
		t.Errorf("%d failed, unchanged at %q; want 1 and none", c.Failed, c.UnchangedAt)
	}
}

// While a new proxy runs the old version, a version change is not over.
func TestIncompleteMove(t *testing.T) {
	change := result.Change{Kind: metric.VersionChanged, Version: 1, Moved: &mesh.Moved{Left: []string{"web-0"}}}
	c := observed(change, probes(func(_ int, now time.Duration) (string, bool) {
		return map[bool]string{false: "0 old", true: "0 new"}[now >= 40*time.Millisecond], true
	}))
	contains(t, "first effect", c.FirstNew, 40*time.Millisecond, connections+1)
	if c.LastOld == nil || c.LastOld.BeforeMS != nil || c.LastOld.AfterMS < 60 {
		t.Errorf("convergence %+v, want one without an end", c.LastOld)
	}
}

// The error of a clock makes what answers show wider on both sides, never before the change.
func TestErrorOfTheClock(t *testing.T) {
	early := observed(route, probes(at(3*time.Millisecond)))
	late := observed(route, probes(at(50*time.Millisecond)))
	for _, c := range []*result.Change{&early, &late} {
		after, before := c.LastOld.AfterMS, *c.LastOld.BeforeMS
		timeline.Widen([]result.Change{*c}, 20*time.Millisecond)
		if got := *c.LastOld.BeforeMS; got != before+20 || c.LastOld.AfterMS != max(0, after-20) {
			t.Errorf("(%v, %v] became (%v, %v]", after, before, c.LastOld.AfterMS, got)
		}
	}
}
