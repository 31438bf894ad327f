package generator

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// protoDuration is a duration as protobuf's JSON has it: "0.000123s".
type protoDuration struct{ seconds *float64 }

func (d *protoDuration) UnmarshalJSON(b []byte) error {
	s, ok := strings.CutSuffix(strings.Trim(string(b), `"`), "s")
	if v, err := strconv.ParseFloat(s, 64); ok && err == nil {
		d.seconds = &v
	}
	return nil
}

type nighthawkStatistic struct {
	ID          string        `json:"id"`
	Count       quoted        `json:"count"`
	Mean        protoDuration `json:"mean"`
	Min         protoDuration `json:"min"`
	Max         protoDuration `json:"max"`
	Percentiles []struct {
		Percentile float64       `json:"percentile"`
		Duration   protoDuration `json:"duration"`
	} `json:"percentiles"`
}

type nighthawkResult struct {
	Name       string               `json:"name"`
	Statistics []nighthawkStatistic `json:"statistics"`
	Counters   []struct {
		Name  string `json:"name"`
		Value quoted `json:"value"`
	} `json:"counters"`
	Duration protoDuration `json:"execution_duration"`
	Start    time.Time     `json:"execution_start"`
}

// nighthawkErrors maps the counters of requests without a response to error kinds.
var nighthawkErrors = map[string]string{
	"benchmark.stream_resets": "reset", "benchmark.pool_connection_failure": "connect failed",
	"upstream_rq_timeout": "timeout",
}

// ParseNighthawk reads --output-format json, the protocol buffer nighthawk.client.Output as JSON.
func ParseNighthawk(r io.Reader) (Outcome, error) {
	o := Outcome{Generator: "nighthawk"}
	var j struct {
		Results []nighthawkResult `json:"results"`
		Options struct {
			RPS         *float64 `json:"requests_per_second"`
			Connections *float64 `json:"connections"`
		} `json:"options"`
	}
	if err := readJSON(r, o.Generator, &j); err != nil {
		return o, err
	}
	// Rate and connections are per worker. Several workers have a result each.
	workers := float64(max(1, len(j.Results)-1))
	if j.Options.RPS != nil {
		o.AskedRate = asRate(*j.Options.RPS * workers)
	}
	if j.Options.Connections != nil {
		if n := count(*j.Options.Connections * workers); n != nil {
			o.Connections = ptr(int(*n))
		}
	}
	for _, res := range j.Results {
		if res.Name == "global" || len(j.Results) == 1 {
			o.nighthawk(res)
			return o, nil
		}
	}
	return o, fmt.Errorf("read output of nighthawk: it has no global result")
}

func (o *Outcome) nighthawk(res nighthawkResult) {
	o.Started = res.Start
	if s := res.Duration.seconds; s != nil {
		o.Elapsed = span(*s)
	}
	o.OK = ptr(int64(0))
	for _, c := range res.Counters {
		n := value(count(float64(c.Value)))
		hundred, status := strings.CutPrefix(c.Name, "benchmark.http_")
		switch words := nighthawkErrors[c.Name]; {
		case c.Name == "benchmark.http_2xx":
			*o.OK = n
		case status && len(hundred) == 3 && n > 0:
			o.NotOK = ptr(n + value(o.NotOK))
		case words != "" && n > 0:
			o.failed(words, n)
		case c.Name == "upstream_cx_rx_bytes_total":
			o.BytesIn = &n
		case c.Name == "upstream_cx_tx_bytes_total":
			o.BytesOut = &n
		}
	}
	o.Requests = ptr(*o.OK + value(o.NotOK) + sum(o.Errors))
	for _, s := range res.Statistics {
		switch {
		case s.ID == "benchmark_http_client.request_to_response" && s.Count > 0:
			s.distribution().addTo(o)
		case s.ID == "sequencer.blocking" && s.Count > 0 && s.Mean.seconds != nil:
			o.note(fmt.Sprintf("nighthawk was blocked %.0f times, for %.3f ms each on average: that time is in no latency", s.Count, *s.Mean.seconds*1e3))
		}
	}
}

func (s nighthawkStatistic) distribution() *distribution {
	d := latencyOf(ofService)
	d.Count = value(count(float64(s.Count)))
	d.summary(s.Min.seconds, s.Mean.seconds, s.Max.seconds)
	for _, p := range s.Percentiles {
		if p.Duration.seconds != nil {
			d.quantile(p.Percentile, *p.Duration.seconds)
		}
	}
	return d
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
