package execution

import (
	"bytes"
	"strings"
	"unicode"

	"golang.org/x/perf/benchfmt"
)

// Benchmarks returns the figures of Go benchmarks in an output, by name and unit: the means of a name that occurs several times. In
// an output of several packages a name begins with its package. It is nil without any. The error is of the first line that is cut off.
func Benchmarks(output []byte) (all map[string]map[string]float64, damaged *benchfmt.SyntaxError) {
	if !bytes.HasPrefix(output, []byte("Benchmark")) && !bytes.Contains(output, []byte("\nBenchmark")) {
		return nil, nil
	}
	type figure struct{ sum, n float64 }
	found, packages := map[[2]string]map[string]figure{}, map[string]bool{}
	for r := benchfmt.NewReader(bytes.NewReader(output), "output"); r.Scan(); {
		if err, ok := r.Result().(*benchfmt.SyntaxError); ok && damaged == nil {
			damaged = err
		}
		result, ok := r.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		name := [2]string{result.GetConfig("pkg"), result.Name.String()}
		if packages[name[0]] = true; found[name] == nil {
			found[name] = map[string]figure{}
		}
		for _, v := range result.Values {
			f := found[name][v.Unit]
			found[name][v.Unit] = figure{f.sum + v.Value, f.n + 1}
		}
	}
	for name, units := range found {
		if all == nil {
			all = map[string]map[string]float64{}
		}
		words := name[1:]
		if len(packages) > 1 {
			words = name[:]
		}
		figures := map[string]float64{}
		for unit, f := range units {
			figures[unit] = f.sum / f.n
		}
		all[strings.Map(inGates, strings.Trim(strings.Join(words, "/"), "/"))] = figures
	}
	return all, damaged
}

// inGates replaces the characters that no gate has in the name of a metric.
func inGates(r rune) rune {
	if strings.ContainsRune("_/.-", r) || unicode.IsLetter(r) || unicode.IsDigit(r) {
		return r
	}
	return '_'
}
