package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
)

// nameless is a sentence in which a name is missing: "53 ms with , 54 ms with ."
var nameless = regexp.MustCompile(`(?m)\b(?:with|against|of|without a|to|and)(?: *[,;:]| +[.])|^ *[:,]|\(\)|  against`)

// Sentences have a name for each treatment, also without factors and with empty levels.
func TestNoSentenceWithoutName(t *testing.T) {
	for name, factors := range map[string]func(plan.Factors) plan.Factors{
		"no factors":   func(plan.Factors) plan.Factors { return nil },
		"empty levels": func(f plan.Factors) plan.Factors { return plan.Factors{"mesh": "", "rate": f["rate"]} },
	} {
		for _, verdict := range []compare.Verdict{"", compare.NotShown, compare.Insufficient, compare.Higher, compare.Lower} {
			r := reportOf(t, small(nil))
			for i := range r.Treatments {
				r.Treatments[i].Factors = factors(r.Treatments[i].Factors)
			}
			for i := range r.Comparisons {
				c := &r.Comparisons[i]
				if c.Factors = factors(c.Factors); verdict != "" && !c.Control {
					c.Verdict = verdict
				}
			}
			v := view{r: r, label: newLabels(r)}
			var out bytes.Buffer
			if err := WriteText(&out, r, Options{All: true}); err != nil {
				t.Fatal(err)
			}
			lines := Answer(r)
			for _, c := range timeClaims(v) {
				lines = append(lines, c.Sentence)
			}
			for line := range strings.Lines(strings.Join(lines, "\n") + "\n" + out.String()) {
				if nameless.MatchString(line) && !strings.HasPrefix(line, "  hint") {
					t.Errorf("%s, %s: %q", name, verdict, line)
				}
			}
		}
	}
}
