package generator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
)

var ghzTraits = traits{name: "ghz", loop: loopOpen, closed: true, protocols: []string{"grpc"}, targets: false}

// Ghz is github.com/bojand/ghz, for gRPC. It asks the server for its
// description (reflection); a target is http://host:port/package.Service/Method.
type Ghz struct{ program }

// Name of the generator in experiment files.
func (Ghz) Name() string { return ghzTraits.name }

// Command opens the loop with --async where there is a rate.
func (g Ghz) Command(p load.Profile) (proc.Command, error) {
	if err := ghzTraits.check(p); err != nil {
		return proc.Command{}, err
	}
	u, err := url.Parse(p.Targets[0])
	if err != nil {
		return proc.Command{}, fmt.Errorf("load profile for ghz: %w", err)
	}
	call := strings.Trim(u.Path, "/")
	if strings.Count(call, "/") != 1 {
		return proc.Command{}, fmt.Errorf("load profile for ghz: target %s does not name a method, as http://host:port/package.Service/Method", p.Targets[0])
	}
	args := []string{"--call", call, "--data", "{}", "--format", "json", "--duration-stop", "wait",
		"--connections", strconv.Itoa(p.Connections), "--concurrency", strconv.Itoa(p.Connections),
		"--duration", milliseconds(ghzTraits.duration(p))}
	if u.Scheme == "http" {
		args = append(args, "--insecure")
	} else {
		args = append(args, "--skipTLS")
	}
	if p.Rate > 0 {
		if p.Rate != float64(int64(p.Rate)) {
			return proc.Command{}, refused(ghzTraits.name, "its rate is whole requests per second, not %v", p.Rate)
		}
		args = append(args, "--rps", decimal(p.Rate), "--async")
	}
	if p.Timeout > 0 {
		args = append(args, "--timeout", milliseconds(p.Timeout))
	}
	if p.Workers > 0 {
		args = append(args, "--cpus", strconv.Itoa(p.Workers))
	}
	return g.command(ghzTraits.name, p, append(args, u.Host)...), nil
}

// Parse reads ghz's JSON and cuts out the measure window.
func (Ghz) Parse(stdout io.Reader, p load.Profile, _ func(load.Progress)) (result.Load, error) {
	o, err := ParseGhz(stdout)
	if err != nil {
		return result.Load{}, err
	}
	return ghzTraits.result(o, p)
}

// ghzJSON is --format json; ns, but for the histogram's marks, which are seconds.
type ghzJSON struct {
	Count     *float64            `json:"count"`
	Total     *float64            `json:"total"`
	Average   *float64            `json:"average"`
	Fastest   *float64            `json:"fastest"`
	Slowest   *float64            `json:"slowest"`
	RPS       *float64            `json:"rps"`
	Errors    map[string]*float64 `json:"errorDistribution"`
	Statuses  map[string]*float64 `json:"statusCodeDistribution"`
	Latencies []struct {
		Percentage float64 `json:"percentage"`
		Latency    float64 `json:"latency"`
	} `json:"latencyDistribution"`
	Histogram []struct {
		Mark  float64 `json:"mark"`
		Count float64 `json:"count"`
	} `json:"histogram"`
	Details []struct {
		Timestamp time.Time `json:"timestamp"`
		Latency   float64   `json:"latency"`
		Error     string    `json:"error"`
		Status    string    `json:"status"`
	} `json:"details"`
}

// ParseGhz reads ghz's JSON. A call that gRPC ended with another status than OK
// is an answer with an error status, but for those the client gave itself.
func ParseGhz(r io.Reader) (Outcome, error) {
	o := Outcome{Generator: "ghz"}
	text, err := readAllOf(r, o.Generator, 512<<20)
	if err != nil {
		return o, err
	}
	var j ghzJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return o, fmt.Errorf("read output of ghz: %w", err)
	}
	if j.Count == nil {
		return o, fmt.Errorf("read output of ghz: it has no count")
	}
	o.Requests = count(*j.Count)
	if j.Total != nil {
		o.Elapsed = span(*j.Total / 1e9)
	}
	if j.RPS != nil {
		o.Rate = positive(*j.RPS)
	}
	o.Statuses = counts(j.Statuses)
	for status, kind := range ghzOwn {
		if n := o.Statuses[status]; n > 0 {
			if o.Errors == nil {
				o.Errors = map[string]int64{}
			}
			o.Errors[kind] = n
			delete(o.Statuses, status)
		}
	}
	j.latency(o.Requests).addTo(&o)
	return o, j.records(&o)
}

// ghzOwn are the gRPC statuses a client gives when there is no answer.
var ghzOwn = map[string]string{"DeadlineExceeded": "timeout", "Unavailable": "connect failed", "Canceled": "cancelled at the end of the run"}

func (j ghzJSON) latency(requests *int64) *distribution {
	d := latencyOf(ofService)
	for _, f := range []struct {
		set func(float64)
		v   *float64
	}{{d.min, j.Fastest}, {d.mean, j.Average}, {d.max, j.Slowest}} {
		if f.v != nil {
			f.set(*f.v / 1e9)
		}
	}
	for _, l := range j.Latencies {
		d.quantile(l.Percentage/100, l.Latency/1e9)
	}
	for i, b := range j.Histogram {
		low := b.Mark
		if i > 0 {
			low = j.Histogram[i-1].Mark
		}
		if n := count(b.Count); n != nil {
			d.bucket(low, b.Mark, *n)
		}
	}
	d.Count = value(requests)
	return d
}

// records are the details; ghz stamps a call when it ends.
func (j ghzJSON) records(o *Outcome) error {
	if len(j.Details) > maxRecords {
		return tooMany("ghz")
	}
	for _, c := range j.Details {
		start := c.Timestamp.Add(-span(c.Latency / 1e9))
		if o.Started.IsZero() || start.Before(o.Started) {
			o.Started = start
		}
	}
	for _, c := range j.Details {
		took := span(c.Latency / 1e9)
		rec := Record{At: c.Timestamp.Add(-took).Sub(o.Started), Late: unknown, Service: took, Response: unknown, Size: -1}
		rec.Done = rec.At + took
		switch kind := ghzOwn[c.Status]; {
		case kind != "":
			rec.Error = kind
		case c.Status == grpcOK:
			rec.Code = 200
		default:
			rec.Code = 500
		}
		o.Records = append(o.Records, rec)
	}
	o.tally()
	return nil
}
