package answer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// Verified is how the traffic of meshes through their proxies was verified, in every valid trial.
type Verified struct {
	Meshes []string `json:"meshes"`
	Proof
}

// Proof is what verified the traffic.
type Proof struct {
	// Counters of the proxies agree with the requests of the load.
	Counters bool `json:"counters"`
	// Nonces: random answers came through the proxies before the load.
	Nonces bool `json:"nonces,omitempty"`
	// Arrivals: requests through the proxies arrived at the application one by one before the load.
	Arrivals bool `json:"arrivals,omitempty"`
	// Sockets: the kernel showed no connection past the proxies during the load.
	Sockets bool `json:"sockets,omitempty"`
	// Served: requests that reached the application are counted.
	Served bool `json:"served,omitempty"`
	// Bytes: the count is of the bytes that the application's sockets received.
	Bytes bool `json:"bytes,omitempty"`
}

// verified returns the proof of each mesh with a data plane. Meshes with the same proof are together.
func verified(run *compare.Run) (all []Verified) {
	proofs := map[string]Proof{}
	var names []string
	for i := range run.Records {
		r := &run.Records[i]
		name, named := r.Factors[experiment.MeshFactor].(string)
		if !r.Valid || !named || !slices.ContainsFunc(r.Tasks, func(t result.TaskUsage) bool { return t.Plane == metric.Data }) {
			continue
		}
		p := proofOf(r)
		if was, ok := proofs[name]; ok {
			p = Proof{p.Counters && was.Counters, p.Nonces && was.Nonces, p.Arrivals && was.Arrivals, p.Sockets && was.Sockets, p.Served && was.Served, p.Bytes || was.Bytes}
		} else {
			names = append(names, name)
		}
		proofs[name] = p
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(o Verified) bool { return o.Proof == proofs[name] })
		if i < 0 {
			all = append(all, Verified{[]string{name}, proofs[name]})
		} else {
			all[i].Meshes = append(all[i].Meshes, name)
		}
	}
	return all
}

func proofOf(r *result.Record) (p Proof) {
	has := func(prefix string) bool {
		for _, c := range r.Checks {
			if strings.HasPrefix(c.Name, prefix) {
				return c.OK
			}
		}
		return false
	}
	p.Nonces, p.Arrivals, p.Sockets = has("nonce through "), has("arrivals through "), has("connections to the application of ")
	_, p.Counters = countedProxied(r)
	if r.Balance == nil {
		return p
	}
	for _, f := range r.Balance.Flows {
		switch {
		case f.Unknown != "":
		case f.Point == balance.Served:
			p.Served, p.Bytes = true, f.Bytes > 0
		case f.Point != balance.Sent && f.Unit != balance.Requests:
			p.Counters = true // a proxy of connections
		}
	}
	return p
}

// LatencyMeaning is the definition of one generator's latency.
type LatencyMeaning struct {
	Generator string `json:"generator"`
	Of        string `json:"of"` // "response": latency_ms; "service": service_ms
	Meaning   string `json:"meaning"`
}

// meanings are the definitions of the published latencies, once a generator and kind.
func meanings(records []result.Record) []LatencyMeaning {
	var all []LatencyMeaning
	for _, r := range records {
		if r.Load == nil || r.Error != "" {
			continue
		}
		for _, d := range r.Load.Published {
			m := LatencyMeaning{r.Load.Generator, d.Of, d.Meaning}
			if d.Meaning != "" && (d.Of == "response" || d.Of == "service") && !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b LatencyMeaning) int {
		return cmp.Or(cmp.Compare(a.Generator, b.Generator), cmp.Compare(a.Of, b.Of))
	})
	return all
}
