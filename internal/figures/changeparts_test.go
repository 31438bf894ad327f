package figures

import (
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// parted is a change with the instants of its parts in ms, NaN for unknown ones, and the last old answer at its end, 2 ms before a new one.
func parted(received, pushed, taken, end float64) result.Change {
	known := func(ms float64) *float64 {
		if math.IsNaN(ms) {
			return nil
		}
		return &ms
	}
	before := end + 2
	return result.Change{Kind: metric.RouteChanged, LastOld: &result.Span{AfterMS: end, BeforeMS: &before},
		Parts: &result.ChangeParts{ReceivedMS: known(received), PushedMS: known(pushed), TakenMS: known(taken)}}
}

func TestChangeParts(t *testing.T) {
	unknown := math.NaN()
	type parts map[string]float64
	for name, c := range map[string]struct {
		changes       []result.Change
		want          parts
		changed, left int
	}{
		"all known":                      {[]result.Change{parted(1, 51, 52, 55), parted(3, 53, 56, 57)}, parts{"to the control plane": 2, "control plane": 50, "proxies": 2, "workers": 2}, 2, 0},
		"proxies alone":                  {[]result.Change{parted(unknown, unknown, 52, 55)}, parts{"to the control plane + control plane + proxies": 52, "workers": 3}, 1, 0},
		"control plane alone":            {[]result.Change{parted(1, 51, unknown, 55)}, parts{"to the control plane": 1, "control plane": 50, "proxies + workers": 4}, 1, 0},
		"the changes with most instants": {[]result.Change{parted(unknown, unknown, 9, 10), parted(1, 2, 3, 4), parted(unknown, 5, 6, 7)}, parts{"to the control plane": 1, "control plane": 1, "proxies": 1, "workers": 1}, 1, 0},
		"parts longer than the whole":    {[]result.Change{parted(1, 51, 59, 55), parted(1, 2, 3, 4)}, parts{"to the control plane": 1, "control plane": 1, "proxies": 1, "workers": 1}, 1, 1},
		"parts in no order":              {[]result.Change{parted(1, 9, 3, 20)}, parts{}, 0, 1},
		"half a ms back":                 {[]result.Change{parted(1, 9, 8.5, 20)}, parts{"to the control plane": 1, "control plane": 8, "proxies": -0.5, "workers": 11.5}, 1, 0},
		"within the tolerance":           {[]result.Change{parted(1, 2, 6.5, 5)}, parts{"to the control plane": 1, "control plane": 1, "proxies": 4.5, "workers": -1.5}, 1, 0},
		"none known":                     {[]result.Change{{Kind: metric.RouteChanged}}, nil, 0, 0},
	} {
		all := changeParts(&result.Record{Changes: c.changes})
		if (len(all) == 1) != (c.want != nil) {
			t.Errorf("%s: got %+v", name, all)
			continue
		}
		for _, got := range all {
			sum := 0.0
			for _, p := range got.Parts {
				sum += p.MS
				if want, is := c.want[p.Name]; !is || math.Abs(p.MS-want) > 1e-9 {
					t.Errorf("%s: part %s is %v, want %v", name, p.Name, p.MS, want)
				}
			}
			if got.Changes != c.changed || got.LeftOut != c.left || len(got.Parts) != len(c.want) || math.Abs(sum-got.WholeMS) > 1e-9 || c.changed > 0 && got.ResolutionMS != 2 {
				t.Errorf("%s: got %+v", name, got)
			}
		}
	}
}
