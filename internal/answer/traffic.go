package answer

import (
	"fmt"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// Traffic has the bytes between zones of a treatment in a scenario. Unknown figures are absent.
type Traffic struct {
	Scenario  string       `json:"scenario"`
	Treatment string       `json:"treatment"`
	Factors   plan.Factors `json:"factors"`
	// Hops between pods for one request at the entry: its calls, and one more for each that passes a waypoint or gateway.
	Hops int `json:"hops_per_request,omitempty"`
	// Bytes of a request at the entry with its answer, headers included, as the load counted them. Each hop is taken to carry as many.
	Bytes float64 `json:"bytes_per_hop,omitempty"`
	// Crossing is the share of hops between zones, 0..1.
	Crossing *float64 `json:"crossing,omitempty"`
	GiB      *float64 `json:"gib_per_month,omitempty"`
	Money    *float64 `json:"money_per_month,omitempty"`
	// Added is Money less the baseline's Money, absent for a baseline.
	Added *float64 `json:"added_money_per_month,omitempty"`
	// How is the source of Crossing, or the reason for its absence.
	How string `json:"how"`
}

// monthSeconds is 730 hours, as of a [Price].
const monthSeconds = 730 * 3600

// zoneTraffic prices the traffic between zones of all treatments, baselines included.
func (r *Report) zoneTraffic(records []result.Record, p Prices) (all []Traffic) {
	if p.ZoneTraffic == nil {
		return nil
	}
	hops := hopsByTreatment(records)
	for _, s := range p.Scenarios {
		first, money := len(all), map[string]float64{}
		for _, t := range r.Treatments {
			if t.Control {
				continue
			}
			h := hops[t.ID]
			if h == nil {
				h = &hopCount{}
			}
			x := Traffic{Scenario: s.Name, Treatment: t.ID, Factors: t.Factors, Hops: h.hops, Bytes: h.bytes()}
			x.Crossing, x.How = h.crossing(s)
			if x.Hops > 0 && x.Bytes > 0 && x.Crossing != nil {
				gib := s.Rate * monthSeconds * float64(x.Hops) * x.Bytes * *x.Crossing / (1 << 30)
				cost := gib * p.ZoneTraffic.GiB
				x.GiB, x.Money, money[t.ID] = &gib, &cost, cost
			}
			all = append(all, x)
		}
		for i, t := range all[first:] {
			base := r.baselineOf(t.Treatment)
			if without, known := money[base]; known && t.Money != nil {
				added := *t.Money - without
				all[first+i].Added = &added
			}
		}
	}
	return all
}

// baselineOf is the ID of a treatment's baseline, empty for a baseline.
func (r *Report) baselineOf(treatment string) string {
	for _, t := range r.Treatments {
		if t.ID == treatment {
			return t.Baseline
		}
	}
	return ""
}

// hopCount sums up the calls of a treatment's valid trials.
type hopCount struct {
	hops              int // 0: unknown, or different from trial to trial
	carried, answered int64
	pods              map[string]float64 // of the application, by zone
	unplaced          bool               // the zone of a pod is not known
	trials            int
}

func hopsByTreatment(records []result.Record) map[string]*hopCount {
	all := map[string]*hopCount{}
	for i := range records {
		r := &records[i]
		h := all[r.Treatment]
		if h == nil {
			h = &hopCount{pods: map[string]float64{}}
			all[r.Treatment] = h
		}
		if r.Error != "" || !r.Valid || r.Load == nil {
			continue
		}
		hops := hopsOf(r)
		if h.trials++; h.trials == 1 {
			h.hops = hops
		} else if h.hops != hops {
			h.hops = 0
		}
		h.carried, h.answered = h.carried+r.Load.BytesIn+r.Load.BytesOut, h.answered+r.Load.Completed
		seen := map[string]bool{}
		for _, t := range r.Tasks {
			if id := t.Namespace + "/" + t.Pod; t.Plane == metric.App && !seen[id] {
				seen[id] = true
				h.pods[t.Zone]++
				h.unplaced = h.unplaced || t.Zone == ""
			}
		}
	}
	return all
}

// hopsOf counts the hops of a request. A call through a proxy in a pod of its own has two.
func hopsOf(r *result.Record) int {
	hops, waypoint, gateway := r.Edges, false, false
	for _, t := range r.Tasks {
		waypoint = waypoint || t.Plane == metric.Data && t.Role == roleWaypoint
		gateway = gateway || t.Plane == metric.Data && t.Role == roleGateway
	}
	if hops == 0 {
		return 0
	}
	if waypoint {
		hops += r.Edges
	}
	if gateway { // before the entry
		hops++
	}
	return hops
}

// Roles of proxies in pods of their own, as mesh definitions name them.
const (
	roleWaypoint = "waypoint"
	roleGateway  = "gateway"
)

// bytes of a request and its answer, 0 if not counted.
func (h *hopCount) bytes() float64 {
	if h.answered == 0 {
		return 0
	}
	return float64(h.carried) / float64(h.answered)
}

// crossing returns the share of hops between zones. The zones are the scenario's, or else the measured pods'. Each
// pod is taken to receive the same share of calls, as Services and meshes balance without preference for a zone.
func (h *hopCount) crossing(s Scenario) (*float64, string) {
	if s.Zones > 0 {
		share := 1 - 1/float64(s.Zones)
		return &share, fmt.Sprintf("pods spread evenly over %d zones", s.Zones)
	}
	if h.unplaced || len(h.pods) == 0 {
		return nil, "the zones of the pods are unknown: set zones in the scenario"
	}
	all, same := 0.0, 0.0
	for _, n := range h.pods {
		all += n
	}
	for _, n := range h.pods {
		same += n / all * n / all
	}
	share := 1 - same
	return &share, fmt.Sprintf("pods as measured, number of zones: %d", len(h.pods))
}
