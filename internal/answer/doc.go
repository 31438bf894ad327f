// Package answer makes the report of a results directory: figures of every trial, estimates of every treatment,
// comparisons, the noise, costs in money, and warnings with their fixes. Its JSON form is a
// public contract. The package runs nothing.
package answer
