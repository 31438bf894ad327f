package importer

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// outputFigure matches the text beside a figure that the test damages.
var outputFigure = regexp.MustCompile(`"count":"?|"requestsPerSec":|"Count":|"latency":|[0-9.]+ requests in|,200,|"value":|\[total, rate, throughput\] +`)

// figures replaces the numbers beside the matches of outputFigure.
func figures(s, by string) string {
	number := regexp.MustCompile(`[0-9.]+`)
	var b strings.Builder
	last := 0
	for _, at := range outputFigure.FindAllStringIndex(s, -1) {
		if at[0] < last {
			continue
		}
		b.WriteString(s[last:at[0]])
		rest := s[at[0]:]
		n := number.FindStringIndex(rest)
		if n == nil {
			last = at[0]
			break
		}
		b.WriteString(rest[:n[0]] + by)
		last = at[0] + n[1]
	}
	return b.String() + s[last:]
}

// A damaged output gives either an error that contains the file name, or the
// figures of the whole output.
func TestDamagedOutputs(t *testing.T) {
	for generator, seeds := range outputSeeds {
		for i, seed := range seeds {
			text := strings.TrimSpace(seed)
			whole := must.Get(ParseOutput(generator, "whole.file", []byte(text), true))(t)
			for name, damaged := range map[string]string{
				"empty":               "",
				"cut off in half":     text[:len(text)/2-5],
				"cut off at its end":  text[:len(text)-len(text)/10-2],
				"zero bytes":          strings.Repeat("\x00", len(text)/2) + text[len(text)/2:],
				"another file's":      "<html>404</html>\n",
				"doubled":             text + "\n" + text,
				"not a number":        figures(text, "NaN"),
				"a number below zero": figures(text, "-7"),
				"out of all range":    figures(text, "1e300"),
			} {
				o, err := ParseOutput(generator, "hostile.file", []byte(damaged), true)
				switch {
				case err != nil && !strings.Contains(err.Error(), "hostile.file"):
					t.Errorf("%s %d, %s: the error does not name the file: %v", generator, i, name, err)
				case err != nil:
				case strings.HasPrefix(name, "cut off"), name == "empty", name == "zero bytes", name == "another file's":
					t.Errorf("%s %d, %s: read as %d requests in %v s", generator, i, name, o.requests, o.Seconds)
				case o.requests != whole.requests || o.Seconds != whole.Seconds || !maps.Equal(o.classes, whole.classes) || !maps.Equal(o.errors, whole.errors):
					t.Errorf("%s %d, %s: read as %d requests in %v s, %v and %v; in truth %d in %v s", generator, i, name, o.requests, o.Seconds, o.classes, o.errors, whole.requests, whole.Seconds)
				}
			}
		}
	}
}
