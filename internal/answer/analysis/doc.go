// Package analysis turns the records and latency logs of a results directory
// into the answer: metrics of every trial, estimates of every treatment,
// differences and ratios to the baseline with intervals and verdicts, the noise
// floor of the A/A pair, and warnings that name their cure. It runs nothing.
//
// The rules, with their sources, are in docs/explanation/methodology.md. The essential rules
// when reading this code: the trial is the unit; treatments are paired within
// blocks; unknown figures are absent, never zero, and so is every sum they
// belongs to; histograms are added up, percentiles never averaged; an interval
// that cannot be given is absent with a warning in its place.
package analysis
