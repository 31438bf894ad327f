package compare

import "github.com/tare-mesh/tare/internal/metric"

// Family is a set of tests adjusted together: the chance of any false claim in
// it is at most one minus the confidence.
//
// The headline metrics of all treatments against their baselines are one family, fixed before the run: a report's first lines
// name the treatments that differ. See [Question] for treatments that are levels of one change.
// About eighty others repeat them (cores for CPU per request, mesh for data plane,
// five quantiles of two latencies) and are a second family. In one family with them,
// four blocks would have almost no power, and an A/A pair that differs by a third
// would pass for equal. A/A pairs have two separate families of the same kind, since
// they make no claim.
type Family string

const (
	Headline   Family = "headline"
	Others     Family = "others"
	HeadlineAA Family = "a/a headline"
	OthersAA   Family = "a/a others"
)

func familyOf(m metric.Metric, control bool) Family {
	switch {
	case m.Headline && control:
		return HeadlineAA
	case m.Headline:
		return Headline
	case control:
		return OthersAA
	}
	return Others
}
