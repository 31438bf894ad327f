package figures

import (
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// changed is n changes of a route, each of which took effect between two times in ms, and was never seen to end if end is
// infinite.
func changed(n int, after, end float64) (all []result.Change) {
	for range n {
		s := &result.Span{AfterMS: after}
		if !math.IsInf(end, 1) {
			s.BeforeMS = &end
		}
		all = append(all, result.Change{Kind: metric.RouteChanged, FirstNew: &result.Span{AfterMS: 0, BeforeMS: &after}, LastOld: s})
	}
	return all
}

func TestChangeFigures(t *testing.T) {
	const route = "/" + metric.RouteChanged
	absent := math.NaN()
	failing := changed(40, 10, 12)
	failing[0].Failed, failing[1].Failed, failing[2].Flaps = 3, 1, 2
	costly := changed(40, 10, 12) // 2 ms of CPU each, in the shorter half
	for i := range costly {
		costly[i].CPU = &result.ChangeCPU{Seconds: [2]float64{0.1, 0.2}, NS: map[metric.Plane][2]int64{metric.Data: {12e6, 20e6}}}
	}
	saving := changed(40, 10, 12) // 12 ms less: 100 requests of 0.12 ms failed
	for i := range saving {
		saving[i].Failed = 100
		saving[i].CPU = &result.ChangeCPU{Seconds: [2]float64{0.1, 0.1}, NS: map[metric.Plane][2]int64{metric.App: {0, 12e6}}}
	}
	slow, possibly := changed(40, 90, 95), changed(40, 90, 95)
	for i := range slow {
		slow[i].CPU, possibly[i].CPU = costly[0].CPU, costly[0].CPU
	}
	before := 120.0 // the second half begins after 100
	for i := range 3 {
		slow[i].LastOld, possibly[i].LastOld = &result.Span{AfterMS: 110}, &result.Span{AfterMS: 90, BeforeMS: &before}
	}
	dropping := changed(40, 10, 12)
	for i := range dropping[:30] { // ten are of a record without counts
		dropping[i].Dropped, dropping[i].Cut = new(8), new(i%2)
	}
	for name, c := range map[string]struct {
		changes []result.Change
		want    map[string]float64
	}{
		"CPU of changes":               {costly, map[string]float64{metric.ChangeCPU + route + "-data": 2, metric.ChangeCPU + route + "-proxy": 1, metric.ChangeCPU + route + "-app": absent}},
		"CPU that failures saved":      {saving, map[string]float64{metric.ChangeCPU + route + "-app": absent}},
		"CPU of changes that may last": {possibly, map[string]float64{metric.ChangeCPU + route + "-data": absent}},
		"CPU of changes that last":     {slow, map[string]float64{metric.ChangeCPU + route + "-data": absent}},
		"a median from 30 changes": {changed(30, 10, 12), map[string]float64{metric.ChangeLastOld + route: 10, metric.ChangeLastOldMost + route: 12, metric.ChangeFirstNew + route: 0, metric.ChangeFirstNewMost + route: 10,
			metric.ChangeLastOld + route + metric.ChangeP99: absent, metric.ChangeFailed + route: 0, metric.ChangeFailing + route: 0}},
		"none from 29":                     {changed(29, 10, 12), map[string]float64{metric.ChangeLastOld + route: absent, metric.ChangeFailing + route: 0}},
		"the 99 % quantile from 1,000":     {append(changed(970, 10, 12), changed(30, 90, 96)...), map[string]float64{metric.ChangeLastOld + route + metric.ChangeP99: 90, metric.ChangeLastOldMost + route + metric.ChangeP99: 96}},
		"a median that most never reached": {append(changed(15, 10, 12), changed(25, 900, math.Inf(1))...), map[string]float64{metric.ChangeLastOld + route: absent}},
		"failures and flaps":               {failing, map[string]float64{metric.ChangeFailed + route: 0.1, metric.ChangeFailing + route: 0.05, metric.ChangeFlaps + route: 0.05}},
		"dropped connections":              {dropping, map[string]float64{metric.ChangeDropped + route: 8, metric.ChangeCut + route: 0.5}},
		"without counts":                   {changed(40, 10, 12), map[string]float64{metric.ChangeDropped + route: absent, metric.ChangeCut + route: absent}},
		"nothing of other kinds":           {failing, map[string]float64{metric.ChangeFailing + "/" + metric.EndpointAdded: absent}},
	} {
		f := &figures{values: map[string]float64{}}
		proxy := mesh.Task{Plane: metric.Data} // two, of which one replaced a third
		changeFigures(f, &result.Record{Changes: c.changes, Load: &result.Load{Completed: 1000, MeasureSeconds: 1}, Tasks: []result.TaskUsage{{Task: proxy}, {Task: proxy, Ended: true}, {Task: proxy}}})
		for metric, want := range c.want {
			got, known := f.values[metric]
			if known == math.IsNaN(want) || known && math.Abs(got-want) > 1e-6 {
				t.Errorf("%s: %s is %v (%v), want %v", name, metric, got, known, want)
			}
		}
	}
}
