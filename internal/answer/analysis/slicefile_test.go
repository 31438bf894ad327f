package analysis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/result"
)

// The CPU of late answers in the slice after an own one belongs to the own slice, without the idle use.
func TestCostOfASlice(t *testing.T) {
	path := filepath.Join(t.TempDir(), result.SlicesFile)
	text := `slice,own,begin_s,end_s,intended,answered,ok,overrun,response_ns,cpu_ns_app,cpu_ns_data
10,true,1.0,1.1,90,90,90,0,0,9000000,18000000
11,false,1.1,1.2,0,0,0,0,0,1000000,900000
12,false,1.2,1.3,0,0,0,0,0,100000,0
13,true,1.3,1.4,0,0,0,0,0,100000,0
14,true,1.4,1.5,45,45,45,0,0,4500000,9000000
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &figures{values: map[string]float64{}}
	r := &result.Record{Load: &result.Load{Slices: &result.OwnSlices{Count: 3}}}
	got := sliceFigures(f, r, path)
	app, data := got["app"], got["data"]
	if len(app) != 3 || app[0] != 110 || app[1] == app[1] || app[2] != 100 || data[0] != 210 || got["total"][2] != 300 {
		t.Errorf("app %v, data %v, total %v", app, data, got["total"])
	}
	if sliceFigures(f, r, path+".gone") != nil || len(f.warnings) != 1 || f.warnings[0].Code != "slices-unread" || !strings.Contains(f.warnings[0].Message, "has no slices.csv") {
		t.Errorf("%+v", f.warnings)
	}
	if sliceFigures(f, &result.Record{Load: &result.Load{}}, path) != nil {
		t.Error("a trial without slices has their costs")
	}
}
