package figures

import "strings"

// causes are the codes of warnings in a few words, for places without a message: "invalid: {words}", "unknown: {words}".
var causes = map[string]string{
	// of a trial
	"failed": "the trial failed", "verify-failed": "a check of the deployment failed", "not-verified": "the deployment was not checked", "verified-with-caution": "a feature is missing",
	"placement-differs": "pods share nodes in another way", "original-runs": "the copied application runs beside its copy", "came-and-went": "containers of others started and ended",
	"task-died": "a process ended", "task-missing": "a process was missing", "restarted": "a process restarted", "node-lost": "a node was lost", "cluster-lost": "another run took over the cluster",
	"rate-missed": "fewer answers than the rate", "rate-exceeded": "a backlog from the warm-up", "capacity-unknown": "no rate meets the objective", "capacity-open": "every rate meets the objective",
	"requests-not-conserved": "requests do not add up", "errors": "too many requests failed", "response-size": "answers of another size", "no-answers": "no request was answered",
	"cpu-impossible": "too little CPU for the answers", "changed-by-hand": "changed by hand", "faults-unjudged": "the generator counts nothing by the second",
	"generator-late": "the generator sent late", "generator-saturated": "the generator was at its limit", "load-unknown": "the generator left no report",
	"warm-up-raised": "the warm-up was lengthened", "measure-short": "measured for too short a time", "not-warm": "programs were not warm",
	"counters-paced": "counters are refreshed seldom", "node-paced": "counters of nodes are refreshed seldom", "meter-gap": "counters were unreadable for a while",
	"not-settled": "CPU was used before the load", "not-drained": "CPU was used after the load", "unattributed": "CPU of unknown tasks", "tasks-differ": "trials have different tasks",
	"foreign-starves": "other workloads filled a node", "foreign-changed": "other workloads used more or less CPU", "readings-shifted": "CPU was read late",
	"slices-shifted": "the load started late", "slices-overrun": "requests ended in the next slice", "slices-read-late": "slices were read late", "slices-unread": "slices are unreadable", "round-incomplete": "the run was killed in a round",
	"idle-unclear": "idle CPU is unclear", "quiet-longer": "the load began later", "work-deferred": "requests defer work", "cpu-bursts": "CPU came in bursts",
	"clock-stepped": "the clock was set", "throttled": "CPU limits stopped containers", "throttling-unknown": "effect of CPU limits unknown", "cpu-pressure": "tasks waited for a CPU", "cpu-stolen": "the hypervisor took CPU",
	"probe-unread": "the calibration probe failed", "probe-damaged": "readings of the calibration probe are incomplete",
	"node-unread": "the machine's CPU was unreadable", "node-unknown": "CPU of nodes unknown", "node-counters": "the machine's CPU counter went back",
	"task-counters": "a CPU counter went back", "task-unread": "a process was not read", "tasks-unknown": "no process was read", "mesh-uncounted": "the proxies' counters were unreadable",
	"latency-missing": "no log of response times", "latency-damaged": "log of response times unreadable", "latency-count": "log of response times incomplete", "latency-altered": "log of response times was changed",
	"record-contradicts": "the record contradicts itself", "record-altered": "the record was changed", "not-a-number": "a figure is not a number",
	"too-few-requests": "too few requests for a high percentile", "peak-hidden": "the peak of memory is too small", "failures-unplaced": "time of failures unknown",
	"change-cpu-saved": "failed requests saved CPU", "change-cpu-late": "changes took too long", "change-unfinished": "changes did not end", "change-unlearned": "connections never changed", "proxy-unreached": "a simulated proxy received no change", "not-recovered": "requests failed until the end",
	// of a report
	"foreign-workloads": "other workloads ran", "answers-differ": "treatments got other answers", "treatments-same": "two treatments ran alike", "aa-differs": "the baseline differs from itself", "no-floor": "noise not measured",
	"effect-drifts": "the difference drifts", "pairs-dependent": "blocks depend on one another", "outlier-block": "one block differs from all others", "outside-differs": "CPU outside the trial differs",
	"failed-trials": "trials failed", "invalid-trials": "trials are invalid", "missing-trials": "trials are missing", "few-trials": "too few trials", "pairs-lost": "blocks lack one side", "unknown-in-trials": "unknown in some trials",
	"within-deployments": "too few deployments", "memory-grows": "memory was still growing", "no-spread": "all values are equal", "ratio-undefined": "a value is zero or negative", "no-interval": "no interval", "width-not-reached": "the interval is wider than requested",
	"unequal-meshes": "features differ between meshes", "meshes-once": "meshes one after another", "meshes-in-turns": "mesh batches", "not-a-line": "the cost is not a line", "no-baseline": "no baseline", "not-interleaved": "measured one after another",
	"not-comparable": "the runs cannot be compared", "baseline-moved": "the baseline changed too", "without-partner": "a treatment is in one run only", "trials-lost": "trials are unused", "few-runs": "too few runs", "unknown-on-one-side": "known in one run only", "same-run": "the same run twice",
	// of an import
	"other-mesh": "metrics of another mesh", "other-rate": "files of another rate", "other-run": "files of another run", "overlap": "two runs at the same time", "clock-jumped": "the clock was set forward", "too-short": "the run is too short", "generators-apart": "generators ran for different times",
	"false-timeouts": "idle connections counted as timeouts", "no-success": "no request succeeded", "rate-unreached": "sent less than the rate", "latency-from-send": "response times count from the send", "load-unseen": "no row of the generator", "logs-missing": "no log of the generator", "loop-unknown": "rate unknown", "metrics-missing": "no metrics",
	"planes-mixed": "sums with sidecars", "node-of-pods": "no kernel and daemons", "few-readings": "few readings", "repeated-readings": "repeated readings", "readings-unknown": "repeated readings unknown", "samples-missing": "samples are missing", "quantiles-apart": "quantiles of several generators", "source-note": "a note of the source", "unknown-columns": "unknown columns",
}

// Cause is the code of a warning in a few words. Some codes end with the name of a generator. Other words are as they are.
func Cause(code string) string {
	switch words := causes[code]; {
	case words != "":
		return words
	case strings.HasPrefix(code, "warm-up-raised-"):
		return causes["warm-up-raised"]
	case strings.HasPrefix(code, "generator-"):
		return "the generator defines figures in another way"
	}
	return code
}
