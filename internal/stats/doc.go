// Package stats holds the statistics of tare: means, quantiles, intervals and
// tests over small samples. It is independent of meshes.
//
// # The unit
//
// An observation is one trial, never one request or one sample inside a trial.
// Requests and samples are correlated, and an interval over them is far too narrow
// (Georges, Buytaert, Eeckhout, "Statistically rigorous Java performance evaluation",
// OOPSLA 2007; Kalibera, Jones, "Rigorous benchmarking in reasonable time",
// ISMM 2013).
//
// # Why Student's t on paired differences
//
// Trials run in randomised blocks, each block running every treatment once.
// Slow drift over an experiment (temperature, neighbours, page cache) affects all
// treatments of a block about alike and cancels in the difference. The random
// order turns drift inside a block into noise of either sign (Abedi, Brecht,
// "Conducting repeatable experiments in highly variable cloud computing
// environments", ICPE 2017). There the usual designs reported a difference between
// two identical systems, and this one did not. The differences of n blocks are then close to independent draws
// from one distribution. Student's interval on their mean ("The probable
// error of a mean", Biometrika 1908) needs only a
// distribution that is not too skewed. A difference of two skewed quantities of
// like shape is nearly symmetric, the second benefit of pairing.
//
// A bootstrap is not used at these sizes. With fewer than about ten blocks a
// percentile bootstrap is too narrow, since resampling n values understates
// the variance by (n-1)/n and takes no account of estimating it. An
// order-statistic interval of the median does not exist at 95 % below six.
//
// The interval is wrong in three cases. The difference grows with the block: a
// trend of the effect itself, not of the machine. One block in many is an outlier,
// always in one direction: with strong skew, coverage falls below the nominal.
// Blocks are not independent, such as two blocks on one warm cache.
//
// A strong even drift with hardly any other noise needs six blocks. With three,
// the random orders agree one time in four, and the drift passes for a difference:
// coverage is 0.85 for a drift of 2.4 times the noise from trial to trial.
// Symmetric heavy tails make the interval too wide, not too narrow. The coverage
// test of this package verifies all these claims by simulation.
//
// # How many trials
//
// An interval needs at least [MinN] = 3 observations. Two give one degree of
// freedom: t is 12.7, an outlier cannot be distinguished, and the
// interval's width varies by orders of magnitude between repetitions. Three
// give t = 4.3. Three is the least that can be computed honestly, not the
// number to plan: t falls to 2.6 at six blocks, which is tare's default.
//
// # What cannot be given
//
// An interval that cannot be computed is absent, with the reason ([Why]). It is
// never zero and never infinite. Observations without any spread have none: that
// their standard deviation is zero shows how coarse the reading is, not that the
// next trial must agree.
//
// # Several comparisons
//
// p-values are adjusted by Holm's step-down ("A simple sequentially rejective
// multiple test procedure", Scandinavian Journal of Statistics 1979). It
// keeps the chance of any false claim in the family at its level for any
// dependence between the tests. Intervals are not adjusted: each is at its own
// level.
package stats
