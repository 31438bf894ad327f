package engine

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/test/difftest"
)

// TestANumberOfRequests checks the exact number of requests over workers and parts that do not divide it.
func TestANumberOfRequests(t *testing.T) {
	t.Parallel()
	url := rawServer(t, replying(helloResponse))
	for _, rate := range []float64{0, 1000} {
		p := profile(url)
		p.Rate, p.Requests, p.Workers, p.Tail, p.Warmup, p.Measure = rate, 100, 3, 0, 50*time.Millisecond, time.Minute
		r := mustRun(t, p)
		// With those sent before the window: one a connection, or as many as were due.
		most := 100 + int64(max(float64(p.Connections), rate*p.Warmup.Seconds()))
		if d := difftest.Wrong("r.Requests != 100", r.Requests != 100, "r.Completed < 100", r.Completed < 100, "r.Completed > most", r.Completed > most, "r.Classes[load.OK] != 100", r.Classes[load.OK] != 100, `len(r.Warnings) > 0 && r.Warnings[0][:7] == "stopped"`, len(r.Warnings) > 0 && r.Warnings[0][:7] == "stopped"); d != "" {
			t.Errorf("%s: rate %v: %+v", d, rate, r)
		}
		if took := r.MeasureEnd.Sub(r.MeasureStart); took <= 0 || took > 30*time.Second {
			t.Errorf("rate %v: took %v", rate, took)
		}
		var sum int64
		p.Parts, p.Requests, p.Warmup = 3, 7, 0
		var reports []load.Report
		for p.Part = range 3 {
			part := mustRun(t, p)
			reports = append(reports, part)
			sum += part.Requests
		}
		m, err := record.Merge(reports)
		if err != nil || sum != 7 || m.Requests != 7 {
			t.Errorf("7 requests over 3 parts are %d, merged %d: %v", sum, m.Requests, err)
		}
	}

}

// TestMoreRequestsThanScheduled checks that a load ends with its schedule, if that has fewer
// requests than asked for.
func TestMoreRequestsThanScheduled(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2, 4} { // the fourth has none
		p := profile(rawServer(t, replying(helloResponse)))
		p.Arrivals, p.Rate, p.Requests, p.Workers, p.Warmup, p.Tail, p.Measure = load.Constant, 0, 20, workers, 0, 0, time.Hour
		p.Segments = []load.Segment{{For: 250 * time.Millisecond, From: 10, To: 10}, {For: time.Second}}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r, err := Run(ctx, p, nil)
		if err != nil || ctx.Err() != nil {
			t.Errorf("%d workers: %v, %v, %v", workers, err, ctx.Err(), r.Classes)
		} else if d := difftest.Of("r.Classes[load.OK]", r.Classes[load.OK], 3, "r.Requests", r.Requests, 3); d != "" {
			t.Errorf("%s: %d workers: %v, %v, %v", d, workers, err, ctx.Err(), r.Classes)
		}
		cancel()
	}

}

// TestRequestsOutlastTheDrain checks that all of a number of requests are sent, although the
// server needs several times the drain for those that wait.
func TestRequestsOutlastTheDrain(t *testing.T) {
	t.Parallel()
	url := rawServer(t, answering(func(c net.Conn, _ int) bool {
		time.Sleep(20 * time.Millisecond) // the work of this server
		_, err := io.WriteString(c, helloResponse)
		return err == nil
	}))
	p := profile(url)
	p.Rate, p.Requests, p.Connections, p.Workers, p.Warmup, p.Tail, p.Measure = 1000, 20, 1, 1, 0, 0, time.Minute
	p.Timeout, p.Drain = 10*time.Second, 50*time.Millisecond
	if r := mustRun(t, p); r.Classes[load.OK] != p.Requests {
		t.Errorf("%v, %v", r.Classes, r.Errors)
	}

}

// The timeout counts from the send: requests that wait for the only connection for longer are sent and answered, and
// their response times have the wait.
func TestTimeoutCountsFromTheSend(t *testing.T) {
	t.Parallel()
	const each, timeout = 50 * time.Millisecond, time.Second
	url := rawServer(t, answering(func(c net.Conn, _ int) bool {
		time.Sleep(each) // the server's work
		_, err := io.WriteString(c, helloResponse)
		return err == nil
	}))
	p := profile(url)
	p.Connections, p.Rate, p.Requests, p.Timeout = 1, 100, 60, timeout
	p.Warmup, p.Tail, p.Measure = 0, 0, time.Minute
	r := mustRun(t, p)
	if r.Classes[load.OK] != 60 {
		t.Errorf("%d of 60 requests are answered: %v", r.Classes[load.OK], r.Errors)
	}
	if waited := r.ResponseMS.Max; waited <= float64(timeout.Milliseconds()) {
		t.Errorf("the longest response time is %v ms", waited)
	}

}
