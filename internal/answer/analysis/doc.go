// Package analysis computes the report of a results directory from its records
// and latency logs. A report has metrics of every trial, estimates of every
// treatment, and differences and ratios to the baseline with intervals and
// verdicts. It also has the noise floor of the A/A pair, and warnings with their
// fixes. The package runs nothing.
//
// docs/explanation/methodology.md has the rules with their sources. Essential here:
// the trial is the unit, and treatments are paired within blocks. Unknown figures
// are absent, never zero, and so is every sum with them. Histograms are added up.
// Percentiles are never averaged. An interval that cannot be given is absent, with
// a warning in its place.
package analysis
