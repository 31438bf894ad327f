package generator

import (
	"fmt"
	"io"
	"strings"
)

// labelled are the lines "label: value" of a text, the first one of each label.
type labelled map[string]string

// readLabelled reads a text. It calls other with each line, with its white space.
func readLabelled(r io.Reader, generator string, other func(line string)) (labelled, error) {
	all := labelled{}
	err := eachLine(r, generator, func(line string) error {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if _, had := all[name]; ok && !had {
			all[name] = strings.TrimSpace(value)
		}
		other(line)
		return nil
	})
	return all, err
}

// number is the first word of a value in a unit of the table, false if the text lacks it.
func (l labelled) number(name string, units map[string]float64) (float64, bool) {
	word, _, _ := strings.Cut(l[name], " ")
	v, err := quantity(word, units)
	return v, err == nil && v >= 0
}

// count is a number of requests or bytes, 0 if the text lacks it.
func (l labelled) count(name string) int64 {
	if v, ok := l.number(name, plainUnits); ok {
		if n := count(v); n != nil {
			return *n
		}
	}
	return 0
}

// plainUnits are those of a bare number.
var plainUnits = map[string]float64{"": 1}

// parts are the counts in a text such as "300 total, 240 succeeded", by the word after each.
func parts(text string) map[string]int64 {
	all := map[string]int64{}
	for _, part := range strings.Split(text, ",") {
		if f := strings.Fields(part); len(f) == 2 {
			if n, ok := textInt(f[0]); ok {
				all[f[1]] = n
			}
		}
	}
	return all
}

// none is the error of an output that lacks what every output of its generator has.
func none(generator, what string) error {
	return fmt.Errorf("read output of %s: it has no %s", generator, what)
}
