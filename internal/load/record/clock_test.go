package record

import (
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// TestMergeOverSkewedClocks checks that parts with different clocks and one start
// instant merge into one load. The report contains the clock skew.
func TestMergeOverSkewedClocks(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	part := func(ahead, bound time.Duration) load.Report {
		var totals = newTotals()
		r := load.Report{Loop: "open", Started: at.Add(ahead), MeasureStart: at.Add(ahead), MeasureEnd: at.Add(ahead + time.Second), Verdict: "ok", Parts: totals.distributions()}
		r.OnClock(load.ClockOf(ahead, bound))
		return r
	}
	for _, test := range []struct {
		parts       []load.Report
		skew, bound float64
		warning     string
	}{
		{[]load.Report{part(0, 20*time.Microsecond), part(200*time.Microsecond, 60*time.Microsecond)}, 200, 120, ""},
		{[]load.Report{part(-2*time.Second, 20*time.Microsecond), part(3*time.Second, 60*time.Microsecond)}, 5e6, 120, "differ by 5000000 µs"},
		{[]load.Report{part(0, 900*time.Microsecond), part(0, 0)}, 0, 1800, "only to ± 1800 µs"},
	} {
		m := must.Get(Merge(test.parts))(t)
		got := strings.Join(m.Warnings, "\n")
		if d := difftest.Wrong("m.ClockSkewUS != test.skew", m.ClockSkewUS != test.skew, "m.ClockBoundUS != test.bound", m.ClockBoundUS != test.bound, "!m.Started.Equal(at)", !m.Started.Equal(at), `strings.Contains(m.Verdict, "apart")`, strings.Contains(m.Verdict, "apart"), "!strings.Contains(got, test.warning)", !strings.Contains(got, test.warning), `test.warning == "" && strings.Contains(got, "clocks")`, test.warning == "" && strings.Contains(got, "clocks")); d != "" {
			t.Errorf("%s: %v ± %v, started %v, %s, %q", d, m.ClockSkewUS, m.ClockBoundUS, m.Started, m.Verdict, m.Warnings)
		}
	}
	unknown := []load.Report{part(0, 0), part(0, 0)}
	unknown[1].Clock = nil
	if m, err := Merge(unknown); err != nil || m.ClockBoundUS != 0 {
		t.Errorf("%v, %+v", err, m)
	}
}
