// Package metric names everything tare measures: one table of names, units and
// which way is better. A metric exists when it is in this table, and reports,
// gates, exports and `tare list metrics` all read it from here.
//
// A name is "<metric>/<part>". For resources the part is a plane or a sum of
// planes ([Parts]); for latencies it is a quantile or the mean.
package metric

import "strings"

// Direction says which way a metric improves.
type Direction int

const (
	Neither        Direction = iota // a description, neither good nor bad
	LowerIsBetter                   // cost, latency, errors
	HigherIsBetter                  // throughput
)

func (d Direction) String() string {
	return [...]string{"neither", "lower", "higher"}[d]
}

// Metric describes one named quantity of a trial.
type Metric struct {
	Name   string // e.g. "cpu_us_per_request/data"
	Unit   string // e.g. "us", "cores", "MiB", "ms", "1/s", "" for a ratio
	Better Direction
	Doc    string // one sentence
}

// Base returns the part of name before the slash.
func Base(name string) string {
	base, _, _ := strings.Cut(name, "/")
	return base
}

// family is a metric with one value a part.
type family struct {
	base, unit string
	better     Direction
	doc        string
	parts      []string
}

var latencyParts = []string{"mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"}

// routeParts are the routes of the sidecar study.
var routeParts = []string{"adder", "adder-with-sidecar", "adder-with-sidecar-socket", "adder-with-sidecar-grpc", "adder-with-sidecar-grpc-socket"}

var families = []family{
	{"cpu_us_per_request", "us", LowerIsBetter, "CPU time per answered request", partNames()},
	{"cpu_cores", "cores", LowerIsBetter, "CPU time per wall-clock time over the measure phase", partNames()},
	{"cpu_cores_per_1000_rps", "cores", LowerIsBetter, "cores needed for 1000 requests/s", partNames()},
	{"memory_mib", "MiB", LowerIsBetter, "working set: resident memory at the end of the measure phase", partNames()},
	{"memory_peak_mib", "MiB", LowerIsBetter, "sum of each task's own peak resident memory", partNames()},
	{"memory_pss_mib", "MiB", LowerIsBetter, "proportional set size, shared pages divided among their users", partNames()},
	{"context_switches_per_request", "1", LowerIsBetter, "voluntary and involuntary context switches per answered request", partNames()},
	{"latency_ms", "ms", LowerIsBetter, "response time, from the intended start to the last byte", latencyParts},
	{"service_ms", "ms", LowerIsBetter, "service time, from the actual send to the last byte", latencyParts},
	{"stage_us", "us", LowerIsBetter, "mean time of a request: at the client, from the send to the last byte; all of it at the server; there the calculation, with the way to it", []string{"client", "server", "calc"}},
	{"route_client_us", "us", LowerIsBetter, "mean time at the client by route, where several are asked for", routeParts},
	{"route_server_us", "us", LowerIsBetter, "mean time at the server by route, where several are asked for", routeParts},
	{"route_calc_us", "us", LowerIsBetter, "mean time of the calculation at the server by route, where several are asked for", routeParts},
	{"lateness_us", "us", LowerIsBetter, "how long after its intended start a request was sent", latencyParts},
	{"bytes_per_s", "B/s", Neither, "payload and headers seen by the load generator", []string{"in", "out"}},
	{"mesh_ratio", "", LowerIsBetter, "the mesh over everything that is not mesh", []string{"cpu", "memory"}},
	{"data_plane_ratio", "", LowerIsBetter, "the data plane over everything that is not mesh", []string{"cpu", "memory"}},
}

var singles = []Metric{
	{"rate", "1/s", HigherIsBetter, "answered requests per second of the measure phase"},
	{"latency_ms/p98.9", "ms", LowerIsBetter, "what the Great Sidecar Debate plots as P99: the 98.90625 % line of wrk2's spectrum, averaged over generators"},
	{"error_ratio", "", LowerIsBetter, "requests that failed (other statuses, time-outs, connection errors) over all that ended"},
	{"requests_lost", "1", LowerIsBetter, "requests that failed, as a number"},
	{"longest_outage_s", "s", LowerIsBetter, "longest run of seconds in each of which more than a thousandth of the requests failed"},
	{"recovery_s", "s", LowerIsBetter, "longest time that requests went on failing after a fault was injected, to the second"},
	{"timeouts", "1", LowerIsBetter, "requests the load generator gave up waiting for"},
	{"mesh_retries", "1", Neither, "requests the data plane sent again"},
	{"mesh_timeouts", "1", LowerIsBetter, "requests the data plane gave up waiting for"},
	{"node_cpu_cores", "cores", LowerIsBetter, "CPU time of the whole machine, everything on it included"},
	{"probe_us", "us", Neither, "CPU time of the calibration probe's piece of work, before and after the load: how slow the processors were"},
}

func partNames() []string {
	var names []string
	for _, p := range Parts() {
		names = append(names, p.Name)
	}
	return names
}

var table, index = build()

func build() ([]Metric, map[string]int) {
	var t []Metric
	for _, f := range families {
		for _, part := range f.parts {
			t = append(t, Metric{f.base + "/" + part, f.unit, f.better, f.doc})
		}
	}
	t = append(t, singles...)
	ix := make(map[string]int, len(t))
	for i, m := range t {
		ix[m.Name] = i
	}
	return t, ix
}

// All lists every metric in report order. The slice is shared; do not change it.
func All() []Metric { return table }

// Lookup finds a metric by its full name.
func Lookup(name string) (Metric, bool) {
	i, ok := index[name]
	if !ok {
		return Metric{}, false
	}
	return table[i], true
}
