package analysis

import "slices"

// Family is a set of tests adjusted together: the chance of any false claim in
// it is at most one minus the confidence.
//
// The headline metrics of all treatments are one family, fixed before any
// result is seen. The some eighty others say the same in other words (cores for
// CPU per request, mesh for data plane, five quantiles of two latencies); were
// they one family with the headline, four blocks could show hardly anything, and
// an A/A pair a third apart would pass for equal. They are a family of their
// own. A/A pairs make no claims, they look for one: the same two families, apart.
type Family string

const (
	Headline   Family = "headline"
	Others     Family = "others"
	HeadlineAA Family = "a/a headline"
	OthersAA   Family = "a/a others"
)

var headlineMetrics = []string{
	"cpu_us_per_request/total", "cpu_us_per_request/data", "cpu_us_per_request/app", "memory_mib/data",
	"latency_ms/p50", "latency_ms/p99", "rate", "error_ratio",
}

// HeadlineMetrics are what reports show first, in that order.
func HeadlineMetrics() []string { return slices.Clone(headlineMetrics) }

func familyOf(metric string, control bool) Family {
	families := map[bool][2]Family{false: {Others, OthersAA}, true: {Headline, HeadlineAA}}[slices.Contains(headlineMetrics, metric)]
	if control {
		return families[1]
	}
	return families[0]
}
