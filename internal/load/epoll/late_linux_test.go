package epoll

import (
	"net/http"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/job"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/load/schedule"
	"github.com/tare-mesh/tare/internal/load/target"
	"github.com/tare-mesh/tare/test/must"
)

// workerOf makes the worker of a load with one connection.
func workerOf(t *testing.T, p load.Profile) (*Worker, *job.Job) {
	t.Helper()
	p.Targets, p.Method, p.Connections, p.Timeout, p.ExpectSize = []string{"http://127.0.0.1:80/"}, http.MethodGet, 1, time.Minute, -1
	p = p.WithDefaults()
	targets := must.Get(target.Resolve(t.Context(), &p, nil, nil))(t)
	j := &job.Job{Profile: p, Targets: targets}
	j.Divide(schedule.Rotation(&p))
	j.Collector = record.NewCollector(&j.Profile, nil)
	w := must.Get(NewWorker(j, 0))(t)
	t.Cleanup(w.Close)
	return w, j
}

// A worker that stalls until it is stopped, after the measure window, does not lose requests of the window.
func TestStopAfterAStall(t *testing.T) {
	w, _ := workerOf(t, load.Profile{Rate: 10, Arrivals: load.Constant, Warmup: time.Second, Measure: time.Second, Tail: time.Second})
	w.start(time.Now())
	w.firstRequests()
	w.zero = w.zero.Add(-2500 * time.Millisecond) // the worker was stopped
	w.Stop()
	w.turn(0)
	if w.rec.Intended != 10 || w.places.queued() != 20 || w.sending() {
		t.Errorf("%d requests intended in the window, want 10; %d wait for a connection, want 20; sending: %v", w.rec.Intended, w.places.queued(), w.sending())
	}
}

// TestAnswerReadAfterItsDeadline checks that an answer which the worker reads after the
// timeout is not a success, though it arrived in one batch with the end of the timeout.
func TestAnswerReadAfterItsDeadline(t *testing.T) {
	const h2answer = "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x01\x01\x05\x00\x00\x00\x01\x88" // settings, and headers with status 200
	for _, test := range []struct {
		protocol, answer string
		stall            time.Duration
		class            load.Class
	}{
		{load.ProtocolHTTP1, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0, load.OK},
		{load.ProtocolHTTP1, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", time.Minute, load.Timeout},
		{load.ProtocolHTTP2, h2answer, 0, load.OK},
		{load.ProtocolHTTP2, h2answer, time.Minute, load.Timeout},
	} {
		w, j := workerOf(t, load.Profile{Protocol: test.protocol, Rate: 1, Measure: time.Hour})
		fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0))(t)
		defer unix.Close(fds[1])
		w.start(time.Now())
		w.pace.started = true
		c := &w.places.conns[0]
		c.fd, c.state = int32(fds[0]), connIdle
		must.OK(t, w.poll.add(fds[0], watched, c.index, c.generation))
		answer := test.answer
		if c.session != nil {
			w.connector.opening = 1
			w.streams.startSession(c)
			if k := c.session.Feed([]byte(answer[:9]), 0); k != load.FailureNone {
				t.Fatal(k)
			}
			w.streams.settle(c)
			answer = answer[9:]
		}
		w.rec.Due(w.now)
		w.begin(c, w.now, w.now)
		w.streams.flushAll()
		must.Get(unix.Write(fds[1], []byte(answer)))(t)
		w.zero = w.zero.Add(-test.stall) // the worker was stopped
		w.turn(0)
		r := j.Collector.Report(record.Facts{}, []*record.Totals{&w.rec.Totals}, func(time.Duration) load.Host { return load.Host{} })
		if r.Requests != 1 || r.Classes[test.class] != 1 {
			t.Errorf("%s, stopped for %v: %v, %v", test.protocol, test.stall, r.Classes, r.Errors)
		}
	}
}

// A worker that stalls over the end of the load reads the end of its connection before it finds the requests that were due
// meanwhile. They still get a connection.
func TestConnectionEndsDuringAStall(t *testing.T) {
	w, _ := workerOf(t, load.Profile{Rate: 10, Arrivals: load.Constant, Measure: time.Second, Drain: 20 * time.Second})
	fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0))(t)
	w.start(time.Now())
	w.firstRequests()
	c := &w.places.conns[0]
	c.fd, c.state = int32(fds[0]), connIdle
	must.OK(t, w.poll.add(fds[0], watched, c.index, c.generation))
	w.rec.Due(w.now)
	w.begin(c, w.now, w.now)
	must.Get(unix.Write(fds[1], []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")))(t)
	unix.Close(fds[1])
	w.zero = w.zero.Add(-2 * time.Second) // the worker was stopped
	w.turn(0)
	if w.sending() || w.places.queued() == 0 {
		t.Fatalf("sending: %v; %d requests wait, want those that were due meanwhile", w.sending(), w.places.queued())
	}
	if w.inFlight == 0 {
		t.Errorf("%d requests wait for a connection, and none is opened", w.places.queued())
	}
}
