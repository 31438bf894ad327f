package answer

import (
	"cmp"
	"slices"

	"github.com/tare-mesh/tare/internal/result"
)

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
