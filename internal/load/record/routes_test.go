package record

import (
	"testing"

	"github.com/tare-mesh/tare/internal/load"
)

func TestMergedRoutes(t *testing.T) {
	got := mergeRoutes([]load.Report{{Routes: map[string]load.RouteTimes{"/a": {Requests: 1, MeanMS: 3}}}, {Routes: map[string]load.RouteTimes{"/a": {Requests: 2, MeanMS: 6}, "/b": {}}}})
	if got["/a"] != (load.RouteTimes{Requests: 3, MeanMS: 5}) || got["/b"] != (load.RouteTimes{}) || len(got) != 2 {
		t.Errorf("%v", got)
	}
}
