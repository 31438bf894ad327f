package runner

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/test/difftest"
)

// proxies has one reading of counters for each call. nil: it fails.
type proxies []map[string]map[string]int64

func (p *proxies) MeshCounters(context.Context) (map[string]map[string]int64, error) {
	now := (*p)[0]
	*p = (*p)[1:]
	if now == nil {
		return nil, errors.New("admin port refused")
	}
	return now, nil
}

// Each proxy counts from its own reading before the load, and one that was restarted from 0. Without one of both
// readings, the counts are unknown.
func TestMeshCountersOfProxies(t *testing.T) {
	counts := func(retries int64) map[string]int64 { return map[string]int64{"retries": retries} }
	for name, c := range map[string]struct {
		before, after map[string]map[string]int64
		want          map[string]int64
		warned        int
	}{
		"all still run":        {map[string]map[string]int64{"a-1": counts(10), "b-2": counts(20)}, map[string]map[string]int64{"a-1": counts(13), "b-2": counts(20)}, counts(3), 0},
		"one was restarted":    {map[string]map[string]int64{"a-1": counts(10), "b-2": counts(20)}, map[string]map[string]int64{"a-1": counts(13), "b-3": counts(4)}, counts(7), 0},
		"one was ended":        {map[string]map[string]int64{"a-1": counts(10), "b-2": counts(20)}, map[string]map[string]int64{"a-1": counts(13)}, counts(3), 0},
		"no proxies":           {map[string]map[string]int64{}, map[string]map[string]int64{}, nil, 0},
		"not read before":      {nil, map[string]map[string]int64{"a-1": counts(13)}, nil, 1},
		"not read after":       {map[string]map[string]int64{"a-1": counts(10)}, nil, nil, 1},
		"read at neither time": {nil, nil, nil, 1},
	} {
		j := &journal{}
		f := &faultPhase{journal: j, deployment: &platform.Deployment{MeshCounters: (&proxies{c.before, c.after}).MeshCounters},
			setup: &setup{run: &run{Config: Config{Experiment: &experiment.Experiment{Faults: []experiment.Fault{{Kind: "kill"}}}}}}}
		f.before = f.countMesh(t.Context())
		f.keepMesh(t.Context())
		if !maps.Equal(j.record.MeshCounters, c.want) {
			t.Errorf("%s: %v, want %v", name, j.record.MeshCounters, c.want)
		}
		if len(j.record.Warnings) != c.warned {
			t.Errorf("%s: warnings %+v", name, j.record.Warnings)
		}
		for _, w := range j.record.Warnings {
			if !w.Withholds || len(w.Metrics) != 2 {
				t.Errorf("%s: %+v", name, w)
			} else if d := difftest.Of("w.Code", w.Code, "mesh-uncounted", "w.Metrics[0]", w.Metrics[0], metric.MeshRetries); d != "" {
				t.Errorf("%s: %s: %+v", d, name, w)
			}
		}
	}
}
