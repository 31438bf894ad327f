package kube

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/meshes"
)

func TestTrafficByService(t *testing.T) {
	half := 0.5
	topology := app.Topology{Entry: "front", Services: []app.Service{
		{Name: "front", Calls: []app.Call{{Service: "back"}, {Service: "seldom", CallOptions: app.CallOptions{Probability: &half}}, {}}},
		{Name: "back", Calls: []app.Call{{Service: "store"}}}, {Name: "store", Protocol: app.TCP},
		{Name: "seldom", Calls: []app.Call{{Service: "far"}}}, {Name: "far"}, {Name: "idle"},
	}}
	http, tcp := meshes.Traffic{Some: true, Inside: true, HTTP: true}, meshes.Traffic{Some: true, Inside: true}
	from := map[string]map[string]meshes.PodTraffic{
		"inside":  {"load": {Out: http}, "front": {In: http, Out: http}, "back": {In: http, Out: tcp}, "store": {In: tcp}},
		"gateway": {"front": {In: http, Out: http}, "back": {In: http, Out: tcp}, "store": {In: tcp}},
		"outside": {"front": {In: meshes.Traffic{Some: true, HTTP: true}, Out: http}, "back": {In: http, Out: tcp}, "store": {In: tcp}},
	}
	for load, want := range from {
		if got := trafficByService(platform.Spec{Topology: topology}, load == "inside", load == "gateway"); !reflect.DeepEqual(got, want) {
			t.Errorf("load %s: got  %+v\nwant %+v", load, got, want)
		}
	}
}

// Requests to random replicas miss one in less than 0.1 % of the tries.
func TestRequestsToReach(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, replicas := range []int{1, 3, 10, 90} {
		n, missed, tries := requestsToReach(replicas), 0, 4000
		for range tries {
			hit, left := make([]bool, replicas), replicas
			for range n {
				if i := random.IntN(replicas); !hit[i] {
					hit[i] = true
					left--
				}
			}
			if left > 0 {
				missed++
			}
		}
		// Erdős and Rényi: the probability tends to 1 - exp(-exp(-7)), 0.0009. Four standard deviations are allowed.
		if most := 0.001*float64(tries) + 4*math.Sqrt(0.001*float64(tries)); float64(missed) > most {
			t.Errorf("%d requests left out one of %d replicas in %d of %d tries", n, replicas, missed, tries)
		}
	}
}
