package result

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/test/must"
)

func TestSlicesAreReadAsWritten(t *testing.T) {
	cpu := func(app int64) map[metric.Plane]int64 {
		all := map[metric.Plane]int64{}
		for _, p := range metric.Planes() {
			all[p] = 0
		}
		all[metric.App] = app
		return all
	}
	want := []Slice{
		{SliceCount: load.SliceCount{Slice: 30, Intended: 90, Answered: 89, OK: 88, Overrun: 1, ResponseNS: 12345, LastEnd: 3_250_500_000}, Own: true,
			Begin: 2998 * time.Millisecond, End: 3098 * time.Millisecond, CPU: cpu(7_000_001)},
		{SliceCount: load.SliceCount{Slice: 31}, Begin: 3098 * time.Millisecond, End: 3198 * time.Millisecond, CPU: cpu(5)},
	}
	trial := plan.Trial{ID: "001-none", Ordinal: 1}
	d := must.Get(Create(t.TempDir(), nil, &plan.Plan{Trials: []plan.Trial{trial}}, Environment{}))(t)
	defer d.Close()
	td := must.Get(d.Trial(trial))(t)
	must.OK(t, td.Slices(want))
	got, err := ReadSlices(td.Path(SlicesFile))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	if err := td.Slices(want); err == nil {
		t.Error("the file was written twice")
	}
}

func TestDamagedSlices(t *testing.T) {
	header := strings.Join(sliceColumns, ",")
	for text, want := range map[string]string{
		"":                                      ":1:",
		"slice,own\n":                           ":1:",
		header + "\n1,true,0,1,1,1,1,0\n":       ":2:",
		header + "\n1,maybe,0,1,1,1,1,0,5\n":    ":2:",
		header + "\n1,true,0,1e300,1,1,1,0,5\n": ":2:",
		header + "\n1,true,0,1,1,1,1,0,5\n1,true,0,1,one,1,1,0,5\n": ":3:",
	} {
		path := must.File(t, t.TempDir(), SlicesFile, text)
		must.Fail(t, must.Err(ReadSlices(path)), want, text)
	}
}
