package report

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/test/must"
)

// A warning that the table of conditions contains leaves no heading without lines.
func TestNoHeadingWithoutWarnings(t *testing.T) {
	differ := figures.Warning{Code: "not-comparable", Message: "kernel"}
	for _, test := range []struct {
		warnings []figures.Warning
		want     bool
	}{{nil, false}, {[]figures.Warning{differ}, false}, {[]figures.Warning{differ, {Code: "same-run", Message: "one run"}}, true}} {
		var b strings.Builder
		must.OK(t, AcrossForms(Options{})[0].Write(&b, &compare.Across{Warnings: test.warnings}))
		if got := strings.Contains(b.String(), "\nWarnings\n"); got != test.want || strings.Contains(b.String(), "not-comparable") {
			t.Errorf("%v:\n%s", test.warnings, b.String())
		}
	}
}
