// Package compare estimates treatments and compares them: within a run with their baselines, from run to run, and over
// a history of runs. It has the families of tests, gates, and their looks during a run.
//
// The trial is the unit, and treatments are paired within blocks. An interval that cannot be given is absent, with
// a warning in its place. docs/explanation/methodology.md has the rules with their sources.
package compare
