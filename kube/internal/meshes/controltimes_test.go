package meshes

import (
	"reflect"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/test/must"
)

// A histogram is the sum over its labels. The bucket without a bound is left out.
func TestHistogram(t *testing.T) {
	page := must.Get(parseMetrics([]byte(`# TYPE pilot_xds_push_time histogram
pilot_xds_push_time_bucket{type="cds",le="0.01"} 28
pilot_xds_push_time_bucket{type="cds",le="0.1"} 33
pilot_xds_push_time_bucket{type="cds",le="+Inf"} 34
pilot_xds_push_time_sum{type="cds"} 0.5
pilot_xds_push_time_count{type="cds"} 34
pilot_xds_push_time_bucket{type="eds",le="0.01"} 2
pilot_xds_push_time_bucket{type="eds",le="0.1"} 4
pilot_xds_push_time_bucket{type="eds",le="+Inf"} 4
pilot_xds_push_time_sum{type="eds"} 0.25
pilot_xds_push_time_count{type="eds"} 4
`)))(t)
	got, has := histogram(page, "pilot_xds_push_time", 1)
	if !has || !reflect.DeepEqual(got, mesh.CountedTime{Count: 38, Seconds: 0.75, Within: map[float64]int64{0.01: 30, 0.1: 37}}) {
		t.Errorf("%v %+v", has, got)
	}
	if ms, _ := histogram(page, "pilot_xds_push_time", mesh.ControlTime{Unit: "ms"}.Scale()); ms.Count != 38 || ms.Seconds != 0.00075 || ms.Within[0.1*0.001] != 37 {
		t.Errorf("in ms: %+v", ms)
	}
	if _, has := histogram(page, "pilot_xds_push", 1); has {
		t.Error("a histogram that the page lacks was found")
	}
}
