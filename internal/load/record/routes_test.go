package record

import (
	"math"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// Routes have counts, failures and times of their own, also after a merge of two parts.
func TestRoutesOfParts(t *testing.T) {
	p := profile()
	p.Targets, p.Parts = []string{"http://x/a", "http://x/b", "http://x/c"}, 2
	part := func() load.Report {
		c := NewCollector(&p, nil)
		r := c.Recorder()
		at := r.Window[0]
		for i, status := range []int{200, 200, 503, 200} {
			r.Due(at)
			r.Finish(&Outcome{Intended: at, Sent: at + 1e6, End: at + int64(i+2)*1e6, Status: status, Path: i / 3})
		}
		r.covered = p.Measure
		return c.Report(Facts{Started: time.Unix(1_800_000_000, 0)}, []*Totals{&r.Totals}, func(time.Duration) load.Host { return load.Host{} })
	}
	one := part()
	for name, r := range map[string]load.Report{"one": one, "merged": merged(t, one, part())} {
		n := map[string]int64{"one": 1, "merged": 2}[name]
		a, b := r.Routes["/a"], r.Routes["/b"]
		if math.Abs(a.MeanMS-1.5) > 0.001 || math.Abs(a.ResponseMS.P50-2) > 0.05 || math.Abs(a.ResponseMS.Max-3) > 0.05 {
			t.Errorf("%s: /a %+v", name, a)
		} else if d := difftest.Of("a.Requests", a.Requests, 2*n, "a.Failed", a.Failed, n, "a.ResponseMS.Count", a.ResponseMS.Count, 2*n); d != "" {
			t.Errorf("%s: %s: /a %+v", d, name, a)
		}
		if b.Requests != n || b.Failed != 0 || math.Abs(b.ResponseMS.P50-5) > 0.1 {
			t.Errorf("%s: /b %+v", name, b)
		}
		if r.Routes["/c"] != (load.RouteTimes{}) || len(r.Routes) != 3 {
			t.Errorf("%s: %+v", name, r.Routes)
		}
	}
}

func merged(t *testing.T, reports ...load.Report) load.Report {
	t.Helper()
	m := must.Get(Merge(reports))(t)
	return m
}
