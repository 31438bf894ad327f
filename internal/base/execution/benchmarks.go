package execution

import (
	"bytes"
	"strings"
	"unicode"

	"golang.org/x/perf/benchfmt"
)

// benchmarks returns the figures of Go benchmarks in an output, by name and unit: the means of a name that occurs several times. It
// is nil without any.
func benchmarks(output []byte) map[string]map[string]float64 {
	if !bytes.HasPrefix(output, []byte("Benchmark")) && !bytes.Contains(output, []byte("\nBenchmark")) {
		return nil
	}
	type figure struct{ sum, n float64 }
	found := map[string]map[string]figure{}
	for r := benchfmt.NewReader(bytes.NewReader(output), "output"); r.Scan(); {
		result, ok := r.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		name := strings.Map(inGates, result.Name.String())
		if found[name] == nil {
			found[name] = map[string]figure{}
		}
		for _, v := range result.Values {
			f := found[name][v.Unit]
			found[name][v.Unit] = figure{f.sum + v.Value, f.n + 1}
		}
	}
	var all map[string]map[string]float64
	for name, units := range found {
		if all == nil {
			all = map[string]map[string]float64{}
		}
		all[name] = map[string]float64{}
		for unit, f := range units {
			all[name][unit] = f.sum / f.n
		}
	}
	return all
}

// inGates replaces the characters that no gate has in the name of a metric.
func inGates(r rune) rune {
	if strings.ContainsRune("_/.-", r) || unicode.IsLetter(r) || unicode.IsDigit(r) {
		return r
	}
	return '_'
}
