package balance

import (
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// edge is a caller and a service that it calls.
type edge struct {
	caller, service string
	// times is the number of requests for one request at the caller, and variance that
	// of a single request, if calls have probabilities.
	times, variance float64
}

// edges lists the callers and their services, the load first.
func edges(t app.Topology) []edge {
	all := []edge{{caller: LoadName, service: t.EntryName(), times: 1}}
	for _, s := range t.Services {
		for _, c := range s.Calls {
			if c.Service == "" {
				continue
			}
			i := slices.IndexFunc(all, func(e edge) bool { return e.caller == s.Name && e.service == c.Service })
			if i < 0 {
				i, all = len(all), append(all, edge{caller: s.Name, service: c.Service})
			}
			p, n := 1.0, float64(1+t.Redirected(c))
			if c.Probability != nil {
				p = *c.Probability
			}
			all[i].times += p * n
			all[i].variance += p * (1 - p) * n * n
		}
	}
	return all
}

// chance is the number of standard deviations by which the calls with a probability may
// differ from their expectation: one in 500 million trials differs by more.
const chance = 6

// expected returns the requests for n requests at the caller, and the random deviation.
func (e edge) expected(n int64) (calls, deviation int64) {
	return int64(math.Round(e.times * float64(n))), int64(math.Ceil(chance * math.Sqrt(e.variance*float64(n))))
}

// groups joins services whose requests are known only together, because a proxy of a
// caller counts all that it calls in one counter.
func groups(services []string, all []edge, joint func(caller string) bool) (out [][]string) {
	parent := map[string]string{}
	var root func(string) string
	root = func(s string) string {
		if p, ok := parent[s]; ok {
			return root(p)
		}
		return s
	}
	first := map[string]string{} // service of each joint caller
	for _, e := range all {
		if !joint(e.caller) {
			continue
		}
		if first[e.caller] == "" {
			first[e.caller] = e.service
		}
		if a, b := root(first[e.caller]), root(e.service); a != b {
			parent[b] = a
		}
	}
	place := map[string]int{}
	for _, s := range services {
		i, ok := place[root(s)]
		if !ok {
			i, out = len(out), append(out, nil)
			place[root(s)] = i
		}
		out[i] = append(out[i], s)
	}
	return out
}
