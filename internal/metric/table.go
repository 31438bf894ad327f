package metric

import (
	"fmt"
	"slices"
)

// StartProbeRate is the number of requests per second that show the start and the stop of a pod.
const StartProbeRate = 200

// Names of metrics without their parts. Only this file and tests spell them out.
const (
	CPUPerRequest          = "cpu_us_per_request"
	CPUCores               = "cpu_cores"
	CPUPer1000             = "cpu_cores_per_1000_rps"
	DeferredPerRequest     = "deferred_us_per_request"
	IdlePerRequest         = "idle_us_per_request"
	IdleCPU                = "idle_cpu_cores"
	IdleMemory             = "idle_memory_mib"
	Memory                 = "memory_mib"
	MemoryGrowth           = "memory_growth_mib_per_minute"
	MemoryGrowthPerRequest = "memory_growth_kib_per_1000"
	CPUGrowth              = "cpu_growth_us_per_hour"
	LatencyGrowth          = "latency_growth_ms_per_hour"
	PeakMemory             = "memory_peak_mib"
	ProportionalMemory     = "memory_pss_mib"
	ContextSwitches        = "context_switches_per_request"
	Latency                = "latency_ms"
	ServiceTime            = "service_ms"
	RequestP50             = "request_p50_ms"
	RequestP90             = "request_p90_ms"
	RequestP99             = "request_p99_ms"
	RequestErrors          = "request_error_ratio"
	FirstByte              = "first_byte_ms"
	FirstMessage           = "first_message_ms"
	MessageGap             = "message_gap_ms"
	MessageRate            = "messages_per_s"
	Lateness               = "lateness_us"
	Traffic                = "bytes_per_s"
	MeshRatio              = "mesh_ratio"
	DataPlaneRatio         = "data_plane_ratio"
	Rate                   = "rate"
	Capacity               = "capacity"
	ErrorRatio             = "error_ratio"
	RequestsLost           = "requests_lost"
	LongestOutage          = "longest_outage_s"
	Recovery               = "recovery_s"
	Timeouts               = "timeouts"
	Arrived                = "arrived_per_request"
	MeshRetries            = "mesh_retries"
	MeshTimeouts           = "mesh_timeouts"
	ChangesMade            = "changes_made"
	ChangeFirstNew         = "change_first_new_ms"
	ChangeLastOld          = "change_last_old_ms"
	ChangeFirstNewMost     = "change_first_new_most_ms"
	ChangeLastOldMost      = "change_last_old_most_ms"
	ChangeFailed           = "change_failed_requests"
	ChangeFailing          = "change_failing_ratio"
	ChangeFlaps            = "change_flaps"
	ChangeDropped          = "change_dropped_connections"
	ChangeCut              = "change_cut_requests"
	ChangeUnchanged        = "change_unchanged_connections"
	ChangeCPU              = "change_cpu_ms"
	StartTime              = "start_ms"
	StartLeast             = "start_least_ms"
	StopTime               = "stop_ms"
	StopLost               = "stop_lost_requests"
	BackgroundChanges      = "background_changes_per_s"
	Push                   = "push_ms"
	PushLast               = "push_last_ms"
	PushMissed             = "push_missed_ratio"
	PushSync               = "push_sync_ms"
	NodeCPU                = "node_cpu_cores"
	OutsideCPU             = "outside_cpu_us_per_request"
	WallTime               = "wall_time"
	CPUTime                = "cpu_time"
	UserTime               = "user_time"
	SystemTime             = "system_time"
	PeakOfExecution        = "peak_memory"
	OutputSize             = "output_size"
	BenchmarkTime          = "benchmark_time"
	BenchmarkBytes         = "benchmark_bytes"
	BenchmarkAllocs        = "benchmark_allocs"
)

// ChangeP99 ends the parts of [ChangeFirstNew] and [ChangeLastOld] that are 99 % quantiles. The others are medians.
const ChangeP99 = "-p99"

// ChangeQuantiles are the quantiles of the times of changes: the end of a metric's part, the name in an expectation, and
// the number of changes from which a trial has it.
var ChangeQuantiles = []struct {
	End, Name string
	Q         float64
	From      int
}{{"", "p50", 0.5, 30}, {ChangeP99, "p99", 0.99, 1000}}

// MeshPrefix begins the names of the proxies' counters: "mesh_" and "retries".
const MeshPrefix = "mesh_"

// Row is a line of the table: a metric and its parts.
type Row struct {
	Name           string // without a part
	Unit           string
	Better         Direction
	Doc            string
	Parts          []string // empty: the metric has none
	Routes         bool     // the parts are the paths of routes without their first slash, or names of requests or benchmarks
	Headline       []string // parts that reports show first, in their order, "" for a metric without parts
	Beside         []string // parts shown with the headlines and tested with the other metrics
	Judged         Judgement
	Source         Source
	Sampled        bool // known of trials whose CPU and memory were sampled
	SpeedSensitive bool
	Title          string    // in words, where %s is the part
	FamilyTitle    string    // in words, without a part, empty for Title's
	Heads          [2]string // of a column, where %s is the part
	HeadScale      float64   // from Unit to the unit of Heads (0 is 1)
	Percent        bool      // shown in percent
}

var (
	whole        = []string{""}                                // of a metric without parts
	IdleParts    = []string{"app", "data", "control", "total"} // of idle CPU and memory
	changeParts  = ChangeNames(nil)
	firstParts   = ChangeNames(func(k ChangeKind) bool { return k.First })
	lastParts    = ChangeNames(func(k ChangeKind) bool { return k.Last })
	flapParts    = ChangeNames(func(k ChangeKind) bool { return k.Shown == Version })
	PushParts    = []string{"p50", "p99"}
	StartParts   = []string{"app", "sidecar", "through", "outbound", "created", "scheduled", "initialized", "running", "ready"}
	messageParts = []string{"mean", "p50", "p90", "p99"}
	latencyParts = []string{"mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"}
)

// rows is the table, in the order of reports and exports.
var rows = []Row{
	{Name: Capacity, Unit: "1/s", Better: HigherIsBetter, Doc: "highest rate that keeps the objective of the factor rate, from a search before the warm-up",
		Headline: whole, Judged: ByRatio, Source: Generator, Title: "capacity", Heads: [2]string{"capacity", "req/s"}},
	{Name: CPUPerRequest, Unit: "us", Better: LowerIsBetter, Doc: "CPU time per answered request",
		Parts: partNames(), Headline: []string{"total", "data", "app"}, Beside: []string{"node"}, Source: Tasks, Sampled: true, SpeedSensitive: true,
		Title: "CPU/request, %s", FamilyTitle: "CPU per request", Heads: [2]string{"CPU/request", "%s, µs"}},
	{Name: CPUCores, Unit: "cores", Better: LowerIsBetter, Doc: "CPU time per wall-clock time over the measure phase",
		Parts: append(partNames(), foreign), Source: Tasks, Sampled: true, SpeedSensitive: true,
		Title: "CPU, %s", Heads: [2]string{"%s", "millicores"}, HeadScale: 1000},
	{Name: CPUPer1000, Unit: "cores", Better: LowerIsBetter, Doc: "cores needed for 1000 requests/s",
		Parts: partNames(), Source: Tasks, Sampled: true, SpeedSensitive: true,
		Title: "cores per 1000 req/s, %s", Heads: [2]string{"cores per", "1000 req/s"}},
	{Name: DeferredPerRequest, Unit: "us", Better: LowerIsBetter, Doc: "with interleaved trials: the part of the CPU time per request that is used in the slices of other treatments",
		Parts: IdleParts, Source: IdleTasks, SpeedSensitive: true,
		Title: "deferred CPU/request, %s", Heads: [2]string{"deferred", "%s, µs"}},
	{Name: IdlePerRequest, Unit: "us", Better: LowerIsBetter, Doc: "with interleaved trials: the part of the CPU time per request that is idle CPU of the trial's own slices",
		Parts: IdleParts, Source: IdleTasks, SpeedSensitive: true,
		Title: "idle CPU/request, %s", Heads: [2]string{"idle", "%s, µs"}},
	{Name: IdleCPU, Unit: "cores", Better: LowerIsBetter, Doc: "with interleaved trials: CPU time per time in the slices of other treatments that is not of the trial's requests",
		Parts: IdleParts, Source: IdleTasks, SpeedSensitive: true,
		Title: "idle CPU, %s", Heads: [2]string{"%s idle", "millicores"}, HeadScale: 1000},
	{Name: IdleMemory, Unit: "MiB", Better: LowerIsBetter, Doc: "resident memory of the idle deployment, before its load",
		Parts: IdleParts, Source: IdleTasks, Title: "idle memory, %s"},
	{Name: Memory, Unit: "MiB", Better: LowerIsBetter, Doc: "working set: resident memory at the end of the measure phase",
		Parts: append(partNames(), foreign), Headline: []string{"data"}, Source: Tasks, Sampled: true,
		Title: "memory, %s", Heads: [2]string{"%s", "memory, MiB"}},
	{Name: MemoryGrowth, Unit: "MiB/min", Better: LowerIsBetter, Doc: "growth of resident memory in the second half of the measure phase, per minute of load",
		Parts: IdleParts, Source: Tasks, Title: "growth of memory, %s", Heads: [2]string{"growth, %s", "MiB/min"}},
	{Name: MemoryGrowthPerRequest, Unit: "KiB", Better: LowerIsBetter, Doc: "the same per 1000 answered requests",
		Parts: IdleParts, Source: Tasks, Title: "growth of memory per 1000 requests, %s", Heads: [2]string{"growth, %s", "KiB/1000 req"}},
	{Name: CPUGrowth, Unit: "us/h", Better: LowerIsBetter, Doc: "with phases.soak: growth of CPU time per answered request in the second half of the soak, per hour of load",
		Parts: IdleParts, Source: Tasks, SpeedSensitive: true, Title: "growth of CPU/request, %s"},
	{Name: LatencyGrowth, Unit: "ms/h", Better: LowerIsBetter, Doc: "with phases.soak: growth of the response time in the second half of the soak, per hour of load",
		Parts: []string{"p50", "p99"}, Source: LatencyLog, Title: "growth of the response time, %s"},
	{Name: PeakMemory, Unit: "MiB", Better: LowerIsBetter, Doc: "sum of each container's own peak resident memory",
		Parts: partNames(), Source: Tasks, Title: "peak memory, %s"},
	{Name: ProportionalMemory, Unit: "MiB", Better: LowerIsBetter, Doc: "proportional set size, shared pages divided among their users",
		Parts: partNames(), Source: Tasks, Title: "memory (PSS), %s"},
	{Name: ContextSwitches, Unit: "1", Better: LowerIsBetter, Doc: "voluntary and involuntary context switches per answered request",
		Parts: partNames(), Source: Tasks, Title: "context switches per request, %s"},
	{Name: Latency, Unit: "ms", Better: LowerIsBetter, Doc: "response time, from the intended start to the last byte",
		Parts: latencyParts, Headline: []string{"p50", "p99"}, Judged: ByRatio, Source: LatencyLog, SpeedSensitive: true,
		Title: "response time, %s", Heads: [2]string{"response time", "%s, ms"}},
	{Name: ServiceTime, Unit: "ms", Better: LowerIsBetter, Doc: "service time, from the actual send to the last byte",
		Parts: latencyParts, Judged: ByRatio, Source: LatencyLog, SpeedSensitive: true,
		Title: "service time, %s", Heads: [2]string{"service time", "%s, ms"}},
	{Name: FirstByte, Unit: "ms", Better: LowerIsBetter, Doc: "of answers that stream: time from the actual send to the first byte",
		Parts: messageParts, Beside: []string{"p50"}, Judged: ByRatio, Source: Generator, SpeedSensitive: true,
		Title: "first byte, %s", Heads: [2]string{"first byte", "%s, ms"}},
	{Name: FirstMessage, Unit: "ms", Better: LowerIsBetter, Doc: "of answers that stream: time from the actual send to the end of the first message, which is an event, a line, a chunk, or a message of gRPC",
		Parts: messageParts, Beside: []string{"p50"}, Judged: ByRatio, Source: Generator, SpeedSensitive: true,
		Title: "first message, %s", Heads: [2]string{"first message", "%s, ms"}},
	{Name: MessageGap, Unit: "ms", Better: LowerIsBetter, Doc: "time between two messages of an answer",
		Parts: messageParts, Beside: []string{"mean", "p99"}, Judged: ByRatio, Source: Generator, SpeedSensitive: true,
		Title: "gap between messages, %s", Heads: [2]string{"message gap", "%s, ms"}},
	{Name: MessageRate, Unit: "1/s", Better: HigherIsBetter, Doc: "messages of all answers per second of the measure phase",
		Beside: whole, Source: Generator, Title: "messages", Heads: [2]string{"messages", "per second"}},
	{Name: RequestP50, Unit: "ms", Better: LowerIsBetter, Doc: "median response time by path or name of the request, if the load has several",
		Routes: true, Judged: ByRatio, Source: Generator, SpeedSensitive: true,
		Title: "response time p50, %s", Heads: [2]string{"response time", "p50, ms"}},
	{Name: RequestP90, Unit: "ms", Better: LowerIsBetter, Doc: "90 % quantile of the response time by path or name of the request",
		Routes: true, Judged: ByRatio, Source: Generator, SpeedSensitive: true,
		Title: "response time p90, %s", Heads: [2]string{"response time", "p90, ms"}},
	{Name: RequestP99, Unit: "ms", Better: LowerIsBetter, Doc: "99 % quantile of the response time by path or name of the request",
		Routes: true, Judged: ByRatio, Source: Generator, SpeedSensitive: true,
		Title: "response time p99, %s", Heads: [2]string{"response time", "p99, ms"}},
	{Name: RequestErrors, Better: LowerIsBetter, Doc: "failed requests over all, by path or name of the request",
		Routes: true, Source: Generator,
		Title: "errors, %s", Heads: [2]string{"errors", "%"}, HeadScale: 100, Percent: true},
	{Name: Lateness, Unit: "us", Better: LowerIsBetter, Doc: "time from the intended start of a request to its send",
		Parts: latencyParts, Judged: ByRatio, Source: LatencyLog, Title: "send lateness, %s"},
	{Name: Traffic, Unit: "B/s", Better: Neither, Doc: "payload and headers counted by the load generator",
		Parts: []string{"in", "out"}, Source: Generator, Title: "bytes %s"},
	{Name: MeshRatio, Better: LowerIsBetter, Doc: "the mesh over everything that is not mesh",
		Parts: []string{cpuPart, "memory"}, Source: Tasks, Sampled: true, Title: "mesh over the rest, %s"},
	{Name: DataPlaneRatio, Better: LowerIsBetter, Doc: "the data plane over everything that is not mesh",
		Parts: []string{cpuPart, "memory"}, Source: Tasks, Sampled: true, Title: "data plane over the rest, %s"},
	{Name: Rate, Unit: "1/s", Better: HigherIsBetter, Doc: "answered requests per second of the measure phase",
		Headline: whole, Source: Generator, Title: "answered requests", Heads: [2]string{"answered", "per second"}},
	{Name: Latency, Unit: "ms", Better: LowerIsBetter, Doc: "the 98.90625 % line of wrk2's spectrum, mean over generators: published as P99 where wrk2 prints no 99 % line",
		Parts: []string{"p98.9"}, Judged: ByRatio, Source: Generator, SpeedSensitive: true,
		Title: "response time, %s", Heads: [2]string{"called P99:", "P98.9, ms"}},
	{Name: ErrorRatio, Better: LowerIsBetter, Doc: "requests that failed (other statuses, timeouts, connection errors) over all that ended; of programs that end: executions with another exit code than 0",
		Headline: whole, Source: Generator, Title: "errors", Heads: [2]string{"errors", "%"}, HeadScale: 100, Percent: true},
	{Name: RequestsLost, Unit: "1", Better: LowerIsBetter, Doc: "number of requests that failed",
		Source: Generator, Title: "failed requests", Heads: [2]string{"failed", "requests"}},
	{Name: LongestOutage, Unit: "s", Better: LowerIsBetter, Doc: "longest run of seconds in each of which more than a thousandth of the requests failed, and more than usually",
		Source: LatencyLog, Title: "longest run of seconds with failures", Heads: [2]string{"run of seconds", "with failures"}},
	{Name: Recovery, Unit: "s", Better: LowerIsBetter, Doc: "longest time from a fault to the last failed request before the next fault, in whole seconds",
		Source: LatencyLog, Title: "time to recover", Heads: [2]string{"time to", "recover, s"}},
	{Name: Timeouts, Unit: "1", Better: LowerIsBetter, Doc: "requests that timed out at the load generator",
		Source: Generator, Title: "timeouts", Heads: [2]string{"", "timeouts"}},
	{Name: Arrived, Unit: "1", Better: Neither, Doc: "requests that arrived at services with faults, retries too, for each one sent, warm-up included",
		Source: Mesh, Title: "requests that arrived, for each one sent", Heads: [2]string{"arrived per", "request sent"}},
	{Name: MeshRetries, Unit: "1", Better: Neither, Doc: "requests retried by the data plane",
		Source: Mesh, Title: "mesh retries", Heads: [2]string{"mesh", "retries"}},
	{Name: MeshTimeouts, Unit: "1", Better: LowerIsBetter, Doc: "requests that timed out at the data plane",
		Source: Mesh, Title: "mesh timeouts", Heads: [2]string{"mesh", "timeouts"}},
	{Name: ChangesMade, Unit: "1", Better: Neither, Doc: "changes in a trial",
		Parts: changeParts, Source: Generator, Title: "changes, %s", Heads: [2]string{"changes,", "%s"}},
	{Name: ChangeFirstNew, Unit: "ms", Better: LowerIsBetter, Doc: "first effect of a change, at least: from its request until the new configuration served a request for the first time. Of a restart it is the first answer after failures. Median (from 30 changes in a trial) and 99 % quantile (from 1,000)",
		Parts: pairs(firstParts, []string{"", ChangeP99}), Source: Generator,
		Title: "first effect, at least, %s", Heads: [2]string{"first effect ≥,", "%s, ms"}},
	{Name: ChangeFirstNewMost, Unit: "ms", Better: LowerIsBetter, Doc: "the same, at most: its first answer had come",
		Parts: pairs(firstParts, []string{"", ChangeP99}), Source: Generator,
		Title: "first effect, at most, %s", Heads: [2]string{"first effect ≤,", "%s, ms"}},
	{Name: ChangeLastOld, Unit: "ms", Better: LowerIsBetter, Doc: "convergence of a change, at least: from its request until the last request on any connection that the old configuration served, or that failed before the first new answer of its connection. Of a restart it is the last failure. Median (from 30 changes in a trial) and 99 % quantile (from 1,000)",
		Parts: pairs(lastParts, []string{"", ChangeP99}), Beside: lastParts, Source: Generator,
		Title: "last old answer, at least, %s", Heads: [2]string{"last old ≥,", "%s, ms"}},
	{Name: ChangeLastOldMost, Unit: "ms", Better: LowerIsBetter, Doc: "the same, at most. If one connection alone showed it, the changes would have been seen later with probability 99 %",
		Parts: pairs(lastParts, []string{"", ChangeP99}), Source: Generator,
		Title: "last old answer, at most, %s", Heads: [2]string{"last old ≤,", "%s, ms"}},
	{Name: ChangeFailed, Unit: "1", Better: LowerIsBetter, Doc: "requests that failed from a change to its last old answer, mean",
		Parts: changeParts, Source: Generator, Title: "failed requests per change, %s", Heads: [2]string{"failed,", "%s"}},
	{Name: ChangeFailing, Better: LowerIsBetter, Doc: "changes during which at least one request failed, over all",
		Parts: changeParts, Source: Generator, Title: "changes with failed requests, %s", Heads: [2]string{"with failures,", "%s, %%"}, HeadScale: 100, Percent: true},
	{Name: ChangeFlaps, Unit: "1", Better: LowerIsBetter, Doc: "answers by the old route on a connection that had had the new one, mean per change",
		Parts: flapParts, Source: Generator, Title: "flaps, %s", Heads: [2]string{"flaps,", "%s"}},
	{Name: ChangeDropped, Unit: "1", Better: LowerIsBetter, Doc: "connections of the load that the server ended after a change, closed, reset or told to end (GOAWAY, `Connection: close`), until the next change, mean",
		Parts: changeParts, Source: Generator, Title: "dropped connections per change, %s", Heads: [2]string{"dropped", "connections, %s"}},
	{Name: ChangeCut, Unit: "1", Better: LowerIsBetter, Doc: "requests, streams and messages without a whole answer because their connection or stream ended, until the next change, mean",
		Parts: changeParts, Source: Generator, Title: "cut requests per change, %s", Heads: [2]string{"cut", "requests, %s"}},
	{Name: ChangeUnchanged, Unit: "1", Better: LowerIsBetter, Doc: "connections without an answer by the new configuration until the change was undone or the load ended, mean per change",
		Parts: ChangeNames(ChangeKind.ByConnection), Source: Generator, Title: "unchanged connections, %s", Heads: [2]string{"unchanged", "connections, %s"}},
	{Name: ChangeCPU, Unit: "ms", Better: LowerIsBetter, Doc: "CPU time of a change above the level without it, by plane, and for each proxy (mean of all)",
		Parts: pairs(changeParts, []string{"-control", "-data", "-proxy", "-app"}), Source: Tasks, Title: "CPU per change, %s", Heads: [2]string{"CPU per change,", "%s, ms"}},
	{Name: BackgroundChanges, Unit: "1/s", Better: Neither, Doc: "changes of services that no request calls, per second of the measure phase",
		Source: Mesh, Title: "background changes", Heads: [2]string{"background", "changes/s"}},
	{Name: Push, Unit: "ms", Better: LowerIsBetter, Doc: "from the request of a change of a background service until a simulated proxy received it, over all changes and proxies",
		Parts: PushParts, Source: Proxies, Title: "push to a proxy, %s", Heads: [2]string{"push,", "%s, ms"}},
	{Name: PushLast, Unit: "ms", Better: LowerIsBetter, Doc: "the same until the last simulated proxy received it, over the changes that reached all",
		Parts: PushParts, Beside: PushParts[:1], Source: Proxies, Title: "push to all proxies, %s", Heads: [2]string{"push to all,", "%s, ms"}},
	{Name: PushMissed, Better: LowerIsBetter, Doc: "changes that had not reached a simulated proxy after the drain phase, over all changes and proxies",
		Source: Proxies, Title: "pushes missed", Heads: [2]string{"pushes", "missed, %"}, HeadScale: 100, Percent: true},
	{Name: PushSync, Unit: "ms", Better: LowerIsBetter, Doc: "from the connection of all simulated proxies at once until the last had a whole configuration",
		Source: Proxies, Title: "first configuration of all proxies", Heads: [2]string{"first", "push, ms"}},
	{Name: StartTime, Unit: "ms", Better: LowerIsBetter, Doc: "from exec to the first answer of the application, of its sidecar, through the sidecar, and to the application's first successful call of another service, median of the starts of a trial. On a cluster they count from the request to the API server. A watch of pods shows the sidecar ready, and the parts that are no answers",
		Parts: StartParts, Source: Machine, Title: "time of a start, %s", Heads: [2]string{"start until", "%s, ms"}},
	{Name: StartLeast, Unit: "ms", Better: LowerIsBetter, Doc: "the same, at least: until the last request before it was sent that failed",
		Parts: StartParts[:4], Source: Machine, Title: "time of a start, at least, %s", Heads: [2]string{"start until", "%s ≥, ms"}},
	{Name: StopTime, Unit: "ms", Better: LowerIsBetter, Doc: "from SIGTERM until the process has ended, median of the starts of a trial",
		Parts: StartParts[:2], Source: Machine, Title: "end after SIGTERM, %s", Heads: [2]string{"end,", "%s, ms"}},
	{Name: StopLost, Unit: "1", Better: LowerIsBetter, Doc: fmt.Sprintf("requests that failed, of %d per second, from SIGTERM until the pod had ended, mean per stop", StartProbeRate),
		Source: Machine, Title: "requests lost per stop", Heads: [2]string{"lost", "per stop"}},
	{Name: NodeCPU, Unit: "cores", Better: LowerIsBetter, Doc: "CPU time of the whole machine, everything on it included",
		Source: Machine, Sampled: true, SpeedSensitive: true, Title: "CPU of the whole machine"},
	{Name: OutsideCPU, Unit: "us", Better: LowerIsBetter, Doc: "CPU time of this machine that no process of the run used, while the trial had the load, per answered request",
		Source: Machine, SpeedSensitive: true, Title: "CPU/request outside the trial", Heads: [2]string{"CPU/request", "outside, µs"}},
	{Name: WallTime, Unit: "ms", Better: LowerIsBetter, Doc: "time of an execution of a program that ends, from its start to its end, mean over the executions of a trial; below 5 ms less that of the empty program",
		Headline: whole, Source: Executions, SpeedSensitive: true, Title: "wall time", Heads: [2]string{"wall", "time, ms"}},
	{Name: CPUTime, Unit: "ms", Better: LowerIsBetter, Doc: "user and system CPU time of an execution, of its processes together, mean; less the empty program's as wall_time is",
		Headline: whole, Source: Executions, SpeedSensitive: true, Title: "CPU time", Heads: [2]string{"CPU", "time, ms"}},
	{Name: UserTime, Unit: "ms", Better: LowerIsBetter, Doc: "user CPU time of an execution, mean",
		Source: Executions, SpeedSensitive: true, Title: "user CPU time", Heads: [2]string{"user", "time, ms"}},
	{Name: SystemTime, Unit: "ms", Better: LowerIsBetter, Doc: "system CPU time of an execution, mean",
		Source: Executions, SpeedSensitive: true, Title: "system CPU time", Heads: [2]string{"system", "time, ms"}},
	{Name: PeakOfExecution, Unit: "MiB", Better: LowerIsBetter, Doc: "peak resident memory of the largest process of an execution, mean",
		Headline: whole, Source: Executions, Title: "peak memory", Heads: [2]string{"peak", "memory, MiB"}},
	{Name: OutputSize, Unit: "KiB", Better: Neither, Doc: "bytes on standard output of an execution, mean",
		Source: Executions, Title: "output", Heads: [2]string{"output,", "KiB"}},
	{Name: BenchmarkTime, Unit: "ns", Better: LowerIsBetter, Doc: "time of an operation by Go benchmark on standard output, mean over the executions of a trial",
		Routes: true, Source: Executions, SpeedSensitive: true, Title: "time, %s", Heads: [2]string{"time,", "%s, ns"}},
	{Name: BenchmarkBytes, Unit: "B", Better: LowerIsBetter, Doc: "allocated bytes of an operation by Go benchmark",
		Routes: true, Source: Executions, Title: "allocated bytes, %s", Heads: [2]string{"allocated,", "%s, B"}},
	{Name: BenchmarkAllocs, Unit: "1", Better: LowerIsBetter, Doc: "allocations of an operation by Go benchmark",
		Routes: true, Source: Executions, Title: "allocations, %s", Heads: [2]string{"allocations,", "%s"}},
}

// pairs joins each part with each end.
func pairs(parts, ends []string) (all []string) {
	for _, part := range parts {
		for _, end := range ends {
			all = append(all, part+end)
		}
	}
	return all
}

// From lists the base names of the metrics of a source.
func From(source Source) []string {
	return names(func(r *Row) bool { return r.Source == source })
}

// Sampled lists the base names of the metrics that rest on sampled CPU and memory.
func Sampled() []string {
	return names(func(r *Row) bool { return r.Sampled })
}

// ResponseTimes lists the base names of the metrics of response times.
func ResponseTimes() []string {
	return names(func(r *Row) bool { return r.Judged == ByRatio && r.SpeedSensitive })
}

// CostsOfCPU lists the base names of the metrics in proportion to the CPU time of the load.
func CostsOfCPU() []string {
	return names(func(r *Row) bool { return r.Source == Tasks && r.SpeedSensitive })
}

// cpuPart is the part of a ratio of planes that rests on CPU time, not on memory.
const cpuPart = "cpu"

// CPU lists the metrics that rest on the CPU time of the load: costs by their base names, ratios by their part.
func CPU() []string {
	all := CostsOfCPU()
	for _, base := range names(func(r *Row) bool { return slices.Contains(r.Parts, cpuPart) }) {
		all = append(all, Of(base, cpuPart))
	}
	return all
}

// names lists the base names of rows, each once, in the order of the table.
func names(of func(*Row) bool) (bases []string) {
	for i := range rows {
		if r := &rows[i]; of(r) && !slices.Contains(bases, r.Name) {
			bases = append(bases, r.Name)
		}
	}
	return bases
}

// name is the full name of the row's part.
func (r *Row) name(part string) string {
	if part == "" {
		return r.Name
	}
	return Of(r.Name, part)
}

// metrics are the row's metrics, one a part, or none if the parts are routes.
func (r *Row) metrics() []Metric {
	parts := r.Parts
	switch {
	case r.Routes:
		return nil
	case len(parts) == 0:
		parts = whole
	}
	ms := make([]Metric, 0, len(parts))
	for _, p := range parts {
		ms = append(ms, r.metric(p))
	}
	return ms
}

// metric is the row's metric of a part.
func (r *Row) metric(part string) Metric {
	return Metric{Name: r.name(part), Unit: r.Unit, Better: r.Better, Doc: r.Doc, Headline: slices.Contains(r.Headline, part),
		Judged: r.Judged, Source: r.Source, SpeedSensitive: r.SpeedSensitive, row: r}
}

// partNames are the parts that every resource has.
func partNames() []string {
	var names []string
	for _, p := range Parts() {
		if p.Name != foreign {
			names = append(names, p.Name)
		}
	}
	return names
}
