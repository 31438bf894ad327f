// Package figures computes the metrics of each trial from its record, its latency log and its slices.
// Unknown figures are absent, never zero, and so is every sum with them. Histograms are added up.
// Percentiles are never averaged. What a trial lacks is among its warnings.
package figures
