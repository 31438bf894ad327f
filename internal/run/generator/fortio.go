package generator

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/load"
)

// fortioTraits describes github.com/fortio/fortio, the load generator of Istio's own benchmarks.
var fortioTraits = traits{name: "fortio", loop: loopPaced, closed: true, protocols: []string{"http1", "http2"},
	method: true, body: true, whole: true, version: versionOf{"version", `^v?([0-9][^\s]*)`},
	command: fortioCommand, parse: ignoringProfile(ParseFortio)}

// fortioCommand staggers the connections' requests evenly (fortio's default is all at
// once) and sets a resolution of 10 µs (its default is 1 ms).
func fortioCommand(t traits, p load.Profile) (proc.Command, error) {
	args := []string{"load", "-quiet", "-log-errors=false", "-allow-initial-errors",
		"-qps", decimal(p.Rate), "-c", strconv.Itoa(p.Connections), "-t", milliseconds(t.duration(p)),
		"-uniform", "-nocatchup=false", "-jitter=false", "-r", "0.00001", "-p", "50,75,90,95,99,99.9,99.99", "-json", "-"}
	if p.Timeout > 0 {
		args = append(args, "-timeout", milliseconds(p.Timeout))
	}
	if protocol(p) == "http2" {
		args = append(args, "-stdclient", "-h2")
	}
	if p.RequestSize > 0 {
		args = append(args, "-payload-size", strconv.FormatInt(p.RequestSize, 10))
	}
	if p.Method != "" {
		args = append(args, "-X", p.Method)
	}
	if h := host(p); h != "" {
		args = append(args, "-H", "Host: "+h)
	}
	c := proc.Command{Args: append(args, p.Targets[0])}
	if p.Workers > 0 {
		c.Env = []string{"GOMAXPROCS=" + strconv.Itoa(p.Workers)}
	}
	return c, nil
}

// quoted is a number that may be in quotes, as Nighthawk and protobuf's JSON write counts.
type quoted float64

func (f *quoted) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err != nil {
		return fmt.Errorf("%.40q is not a number", b)
	}
	*f = quoted(v)
	return nil
}

type fortioHistogram struct {
	Count         *quoted
	Min, Max, Avg *float64
	Data          []struct {
		Start, End float64
		Count      quoted
	}
	Percentiles []struct{ Percentile, Value float64 }
}

// fortioJSON is fortio's result, in seconds in histograms and in ns in durations.
type fortioJSON struct {
	Version           string
	StartTime         time.Time
	RequestedQPS      any // "100", "max", or a number in old versions
	ActualQPS         *quoted
	ActualDuration    *quoted
	NumThreads        *quoted
	DurationHistogram *fortioHistogram
	RetCodes          map[string]*quoted
	Sizes             *struct{ Sum *float64 }
}

// ParseFortio reads the output of fortio load -json.
func ParseFortio(r io.Reader) (Outcome, error) {
	o := Outcome{Generator: "fortio"}
	var j fortioJSON
	if err := readJSON(r, o.Generator, &j); err != nil {
		return o, err
	}
	if j.DurationHistogram == nil {
		return o, fmt.Errorf("read output of fortio: it has no DurationHistogram")
	}
	o.Version, o.Started = j.Version, j.StartTime
	switch q, err := strconv.ParseFloat(fmt.Sprint(j.RequestedQPS), 64); {
	case err == nil && q > 0:
		o.AskedRate = asRate(q)
	case err == nil || j.RequestedQPS == "max":
		o.Loop = loopClosed
	}
	if j.ActualQPS != nil {
		o.Rate = asRate(float64(*j.ActualQPS))
	}
	if j.ActualDuration != nil {
		o.Elapsed = span(float64(*j.ActualDuration) / 1e9)
	}
	if j.NumThreads != nil {
		if n := count(float64(*j.NumThreads)); n != nil {
			o.Connections = new(int(*n))
		}
	}
	if j.Sizes != nil && j.Sizes.Sum != nil {
		o.BytesIn = count(*j.Sizes.Sum)
	}
	o.codes(counts(j.RetCodes))
	d := latencyOf(ofService)
	d.histogram(j.DurationHistogram)
	if d.Count > 0 {
		o.Requests = new(d.Count)
	}
	d.addTo(&o)
	return o, nil
}

// codes splits fortio's return codes into statuses and errors. gRPC codes are
// words ("SERVING"). A request without a status has a negative code, -1 for a socket error.
func (o *Outcome) codes(codes map[string]int64) {
	if codes == nil {
		return
	}
	o.Statuses = map[string]int64{}
	for code, n := range codes {
		switch v, err := strconv.Atoi(code); {
		case err != nil && strings.EqualFold(code, "SERVING"):
			o.Statuses[grpcOK] += n
		case err == nil && v >= 100 && v <= 999:
			o.Statuses[code] += n
		default:
			o.failed("no answer ("+code+")", n)
		}
	}
}

// grpcOK is the status of a successful call.
const grpcOK = "OK"

func (d *distribution) histogram(h *fortioHistogram) {
	d.summary(h.Min, h.Avg, h.Max)
	if h.Count != nil {
		if n := count(float64(*h.Count)); n != nil {
			d.Count = *n
		}
	}
	for _, b := range h.Data {
		if n := count(float64(b.Count)); n != nil {
			d.bucket(b.Start, b.End, *n)
		}
	}
	for _, p := range h.Percentiles {
		d.quantile(p.Percentile/100, p.Value)
	}
	// The figures of an empty distribution are zeros.
	if d.Count == 0 {
		d.MinMS, d.MeanMS, d.MaxMS, d.Quantiles, d.Buckets = nil, nil, nil, nil, nil
	}
}
