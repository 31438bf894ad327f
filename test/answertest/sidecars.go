package answertest

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// Sidecars is a study of Envoy at several rates. The sidecar of its service has 330 µs of each request and 60 MiB, that of the load 270 µs.
func Sidecars(rates ...float64) Study {
	s := Quickstart()
	s.RateFactor, s.Bare, s.Blocks, s.Drift, s.Treatments = true, true, 4, 0, nil
	for _, rate := range rates {
		s.Treatments = append(s.Treatments, Treatment{ID: fmt.Sprintf("envoy-rate%v", rate), Factors: plan.Factors{"mesh": "envoy", "rate": rate},
			Truth: Truth{AppUS: 60, DataUS: 600, LoadUS: 20, AppMiB: 14, DataMiB: 120, MedianMS: 1}})
	}
	s.Change = func(r *result.Record) {
		r.Balance = &balance.Balance{Flows: []balance.Flow{{Place: balance.Place{Service: balance.LoadName, Point: balance.Sent, To: "echo"}}}}
		sidecars := []mesh.Task{{ID: "echo-0/sidecar", Pod: "echo-0", Service: "echo"}, {ID: "load/sidecar", Pod: "load", Service: "load", Component: "load"}}
		n := 0
		for i := range r.Tasks {
			if r.Tasks[i].Plane != metric.Data {
				continue
			}
			of := sidecars[n]
			of.Container, of.Plane, of.Role = "sidecar", metric.Data, mesh.RoleSidecar
			r.Tasks[i].Task = of
			n++
		}
	}
	return s
}
